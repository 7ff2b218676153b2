//! Jobs that have not ended are ended by hand: cancelled or discarded.

use std::collections::HashSet;

use diesel::result::QueryResult;

use super::deed::{Deed, all_of};
use super::in_chunks;
use crate::backend::{AsBackend, Backend};
use crate::follow_up::{Direct, Ended, Followed, follow};
use crate::inspect::{Filter, State};
use crate::schema::Schema;

/// How a job is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancel {
    /// A running handler is asked to stop and may still complete; a job that does not run is cancelled at once.
    Soft,
    /// Cancelled at once: the commit of a running handler is refused.
    Hard,
}

/// How open jobs end by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Cancel(Cancel),
    Discard,
}

impl Ending {
    fn state(self) -> State {
        match self {
            Self::Cancel(_) => State::Cancelled,
            Self::Discard => State::Discarded,
        }
    }

    fn action(self) -> &'static str {
        match self {
            Self::Cancel(_) => "cancel",
            Self::Discard => "discard",
        }
    }
}

/// Cancels a job; whether there was anything to cancel.
///
/// A soft cancel of a running job is a request, which its handler sees with the next heartbeat, and sooner in this process
/// or on PostgreSQL; `reason` is kept with the [action](crate::inspect::actions()) alone then.
///
/// # Errors
///
/// The database's.
pub fn cancel(
    conn: &mut impl AsBackend,
    schema: &Schema,
    id: i64,
    how: Cancel,
    by: &str,
    reason: &str,
) -> QueryResult<bool> {
    end(
        conn.as_backend(),
        schema,
        id,
        Ending::Cancel(how),
        &Deed::new(by, Some(reason)),
    )
}

/// Discards a job that has not ended, as if its last attempt had failed; whether there was one. The commit of a handler
/// that runs is refused.
///
/// # Errors
///
/// The database's.
///
/// ```
/// # include!("../doctest_setup.rs");
/// use leasehold::inspect::{self, State};
/// use leasehold::{Schema, manage};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (_url, mut conn) = doctest_database();
/// let id = Greet { name: "nobody".to_owned() }.enqueue(&mut conn)?.id();
/// assert!(manage::discard(&mut conn, &Schema::default(), id, "Ada", "no such person")?);
/// let job = inspect::job(&mut conn, &Schema::default(), id)?.expect("it is kept");
/// assert_eq!((job.state, job.generation), (State::Discarded, 1));
/// # Ok(())
/// # }
/// ```
pub fn discard(conn: &mut impl AsBackend, schema: &Schema, id: i64, by: &str, reason: &str) -> QueryResult<bool> {
    end(
        conn.as_backend(),
        schema,
        id,
        Ending::Discard,
        &Deed::new(by, Some(reason)),
    )
}

/// Cancels all jobs that match and have not ended; how many there were. One state among `Ready` and `Running` may be
/// chosen by the filter, others have nothing to cancel.
///
/// # Errors
///
/// The database's; what was cancelled before stays so, unless the caller's transaction is open.
pub fn cancel_all(
    conn: &mut impl AsBackend,
    schema: &Schema,
    filter: &Filter,
    how: Cancel,
    by: &str,
    reason: &str,
) -> QueryResult<u64> {
    let deed = Deed::new(by, Some(reason));
    end_all(conn.as_backend(), schema, filter, Ending::Cancel(how), &deed)
}

/// As [`discard`], all jobs that match and have not ended; how many there were. One state among `Ready` and `Running` may be
/// chosen by the filter, others have nothing to discard.
///
/// # Errors
///
/// The database's; what was discarded before stays so, unless the caller's transaction is open.
pub fn discard_all(
    conn: &mut impl AsBackend,
    schema: &Schema,
    filter: &Filter,
    by: &str,
    reason: &str,
) -> QueryResult<u64> {
    let deed = Deed::new(by, Some(reason));
    end_all(conn.as_backend(), schema, filter, Ending::Discard, &deed)
}

fn end<C: Backend>(conn: &mut C, schema: &Schema, id: i64, how: Ending, deed: &Deed) -> QueryResult<bool> {
    // As an enqueue does: a connection of the application's may be told to wait for no other writer.
    let ended = conn.patiently(|conn| end_and_follow(conn, schema, &[id], how, deed))??;
    Ok(ended > 0)
}

fn end_all<C: Backend>(conn: &mut C, schema: &Schema, filter: &Filter, how: Ending, deed: &Deed) -> QueryResult<u64> {
    let mut ended = 0;
    conn.patiently(|conn| {
        in_chunks(conn, schema, filter, &[State::Ready, State::Running], |conn, ids| {
            ended += end_and_follow(conn, schema, ids, how, deed)?;
            Ok(())
        })
    })??;
    Ok(ended)
}

/// Also does what follows: jobs that waited for these, and batches of which these were the last, need no worker for that.
fn end_and_follow<C: Backend>(
    conn: &mut C,
    schema: &Schema,
    ids: &[i64],
    how: Ending,
    deed: &Deed,
) -> QueryResult<u64> {
    let count = end_these(conn, schema, ids, how, deed)?;
    let mut ended = Ended::default();
    ended.awaited.extend(ids);
    ended.batches.extend(conn.batches_of(schema, ids)?);
    let mut followed = Followed::default();
    follow(&mut Direct(conn), schema, &mut ended, &mut followed)?;
    if followed.changed {
        crate::wake::expect_local();
    }
    Ok(count)
}

/// The number of those that were there to end.
pub(crate) fn end_these<C: Backend>(
    conn: &mut C,
    schema: &Schema,
    ids: &[i64],
    how: Ending,
    deed: &Deed,
) -> QueryResult<u64> {
    let asks = how == Ending::Cancel(Cancel::Soft);
    let mut done: HashSet<i64> = HashSet::new();
    let mut rest = ids.to_vec();
    while !rest.is_empty() {
        if asks {
            let asked = deed.to_jobs(conn, schema, ("request cancel", 0), |conn| {
                all_of(conn.request_cancel(schema, &rest)?)
            })?;
            done.extend(asked);
            rest.retain(|id| !done.contains(id));
        }
        let ended = deed.to_jobs(conn, schema, (how.action(), 1), |conn| {
            all_of(conn.end_open(schema, &rest, !asks, how.state(), deed.reason())?)
        })?;
        done.extend(ended);
        rest.retain(|id| !done.contains(id));
        // A job may be claimed or put back between the two statements, but not for ever.
        rest = still_open(conn, schema, rest)?;
    }
    crate::wake::beat_local();
    Ok(u64::try_from(done.len()).unwrap_or(u64::MAX))
}

fn still_open<C: Backend>(conn: &mut C, schema: &Schema, ids: Vec<i64>) -> QueryResult<Vec<i64>> {
    let mut open = Vec::new();
    for id in ids {
        let row = conn.ownership(schema, id)?;
        if row.is_some_and(|row| row.state == "ready" || row.state == "running") {
            open.push(id);
        }
    }
    Ok(open)
}
