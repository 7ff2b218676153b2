//! Looking for jobs among very many.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use diesel::result::QueryResult;

use super::{Filter, JobSummary, State};
use crate::backend::{AsBackend, KeyStatements, PlaceRow, SearchStatements, Stretch};
use crate::enqueue::{stored_idempotency_key, stored_unique_key};
use crate::schema::Schema;

/// Jobs that one call looks at.
const AT_MOST: i64 = 10_000;
/// Jobs that are looked at in one statement, at first; then four times as many, and so on.
const FIRST: usize = 100;

/// Where a page ended, and the next one begins. Its text goes into a link.
///
/// ```
/// use leasehold::inspect::Place;
///
/// let place: Place = "1700000000000.42".parse()?;
/// assert_eq!(place.to_string(), "1700000000000.42");
/// # Ok::<(), leasehold::inspect::PlaceError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place(PlaceRow);

/// A text that is no [`Place`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no place in a list of jobs: give what the page before said, or nothing for the first one")]
pub struct PlaceError(String);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(at) = self.0.at {
            write!(f, "{at}.")?;
        }
        write!(f, "{}", self.0.id)
    }
}

impl FromStr for Place {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let number = |part: &str| part.parse().map_err(|_| PlaceError(text.to_owned()));
        let (at, id) = match text.split_once('.') {
            Some((at, id)) => (Some(number(at)?), id),
            None => (None, text),
        };
        // Behind the year 9999 the database has no time to compare with.
        if at.is_some_and(|at| !(0..=253_402_300_799_000_000).contains(&at)) {
            return Err(PlaceError(text.to_owned()));
        }
        Ok(Self(PlaceRow { at, id: number(id)? }))
    }
}

/// Jobs that were found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page {
    /// Those that match, in order.
    pub jobs: Vec<JobSummary>,
    /// How many jobs were looked at.
    pub looked: u64,
    /// Where to look on; `None` when all were looked at. There may be more, even if this page has fewer jobs than it may.
    pub next: Option<Place>,
}

/// The jobs that match, the newest first, `limit` at the most, from a place on; the first page begins at `None`.
///
/// It takes milliseconds however many jobs there are and however few match: it looks at 10,000 jobs and says where it ended, so
/// an answer always comes, and a page may be empty though there is more. Of a filter the state and the batch narrow what is looked
/// at: discarded, cancelled and completed jobs are looked at by the time of their end, the last first, and running ones alone. All
/// others go by id, and so do those of a batch, which are looked at alone. With an error's text each job that is looked at costs
/// a look at its errors, too. Jobs that move while somebody turns pages may be missed or seen twice.
///
/// Payloads are not read.
///
/// # Errors
///
/// The database's.
///
/// ```
/// # include!("../doctest_setup.rs");
/// use leasehold::inspect::{self, Filter, State};
/// use leasehold::Schema;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (_url, mut conn) = doctest_database();
/// let schema = Schema::default();
/// let filter = Filter::new().state(State::Discarded).kind("greet");
/// let mut from = None;
/// loop {
///     let page = inspect::search(&mut conn, &schema, &filter, from, 100)?;
///     for job in &page.jobs {
///         println!("{} {}", job.id, job.reason.as_deref().unwrap_or_default());
///     }
///     let Some(next) = page.next else { break };
///     from = Some(next);
/// }
/// # Ok(())
/// # }
/// ```
pub fn search(
    conn: &mut impl AsBackend,
    schema: &Schema,
    filter: &Filter,
    from: Option<Place>,
    limit: u32,
) -> QueryResult<Page> {
    let conn = conn.as_backend();
    let of = match (filter.conditions().batch_id, filter.chosen_state()) {
        // They are few.
        (_, Some(State::Running)) => Stretch::Held,
        (Some(batch), state) => Stretch::Batch(batch, state.map(State::as_str)),
        (None, None) => Stretch::All,
        (None, Some(State::Ready)) => Stretch::Open,
        (None, Some(ended)) => Stretch::Ended(ended.as_str()),
    };
    let before = from.map_or(PlaceRow::END, |place| place.0);
    let places = conn.stretch(schema, of, before, AT_MOST)?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX).max(1);
    let mut jobs: Vec<JobSummary> = Vec::new();
    let (mut looked, mut size) = (0, FIRST.max(limit));
    while looked < places.len() && jobs.len() < limit {
        let ids: Vec<i64> = places.iter().skip(looked).take(size).map(|place| place.id).collect();
        let order: HashMap<i64, usize> = ids.iter().enumerate().map(|(at, id)| (*id, at)).collect();
        let mut found = conn.matching(schema, filter.conditions(), &ids)?;
        found.sort_by_key(|row| order.get(&row.id).copied());
        found.truncate(limit - jobs.len());
        let full = jobs.len() + found.len() == limit;
        let last = found.last().and_then(|row| order.get(&row.id)).filter(|_| full);
        looked += last.map_or(ids.len(), |at| at + 1);
        jobs.extend(found.into_iter().map(JobSummary::from));
        size = size.saturating_mul(4);
    }
    let all = looked == places.len() && i64::try_from(looked).is_ok_and(|looked| looked < AT_MOST);
    let end = looked.checked_sub(1).and_then(|last| places.get(last)).filter(|_| !all);
    Ok(Page {
        jobs,
        looked: u64::try_from(looked).unwrap_or(u64::MAX),
        next: end.copied().map(Place),
    })
}

/// The job that was enqueued with an idempotency key; `None` when there is none, or the key's time has passed.
///
/// # Errors
///
/// The database's.
pub fn by_idempotency_key(conn: &mut impl AsBackend, schema: &Schema, key: &str) -> QueryResult<Option<i64>> {
    holder(conn, schema, stored_idempotency_key(key))
}

/// The job of a kind that took a unique key last; `None` when nobody has it.
///
/// The key is the text that [`Job::unique_key`](crate::Job::unique_key) gives; of a kind whose keys are each queue's own, the
/// queue goes with it. The job may have come to a state in which it does not keep the key.
///
/// # Errors
///
/// The database's.
pub fn by_unique_key(
    conn: &mut impl AsBackend,
    schema: &Schema,
    kind: &str,
    queue: Option<&str>,
    key: &str,
) -> QueryResult<Option<i64>> {
    holder(conn, schema, stored_unique_key(kind, queue, key))
}

fn holder(conn: &mut impl AsBackend, schema: &Schema, key: String) -> QueryResult<Option<i64>> {
    let holders = conn.as_backend().key_holders(schema, &[key])?;
    let holder = holders.into_iter().find(|holder| !holder.expired);
    Ok(holder.map(|holder| holder.job_id))
}
