//! Claims of rows.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use diesel::Connection;
use diesel::query_builder::{Query, QueryFragment};
use uuid::Uuid;

use super::{IdOf, OwnedRow, RowError, RowLease, RowOn, RowTable, TypeOf, by_itself, milliseconds};
use crate::backend::{AsBackend, RowClaim, RowFence, RowFound, RowStatements};

/// How many distinct ids one claim may ask for: 10,000. It is one statement, whose rows are locked until it commits.
pub const MOST: usize = 10_000;

/// What a claim says of one row.
#[must_use]
pub enum Answer<R: OwnedRow> {
    /// It is the caller's, and that is committed.
    Claimed(RowLease<R>),
    /// It could be claimed, but somebody has it locked or has taken it at this moment: ask again.
    Busy,
    /// Somebody else works on it, or it runs without a lease and needs [`adopt`].
    Running,
    /// Its status is not one of [`OwnedRow::READY`].
    NotReady {
        /// Its status.
        status: String,
    },
    /// There is no such row.
    Missing,
}

impl<R: OwnedRow> Answer<R> {
    /// The lease, if there is one.
    #[must_use]
    pub fn claimed(self) -> Option<RowLease<R>> {
        match self {
            Self::Claimed(lease) => Some(lease),
            _ => None,
        }
    }
}

/// One answer for each id, in the order in which they were given.
pub type Answers<R> = Vec<(IdOf<R>, Answer<R>)>;

// Not derived, which would ask the same of the row type.
impl<R: OwnedRow> fmt::Debug for Answer<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claimed(lease) => f.debug_tuple("Claimed").field(lease).finish(),
            Self::Busy => f.write_str("Busy"),
            Self::Running => f.write_str("Running"),
            Self::NotReady { status } => f.debug_struct("NotReady").field("status", status).finish(),
            Self::Missing => f.write_str("Missing"),
        }
    }
}

/// Claims those of the given rows that can be, in one statement, and says of each what it found: ids that are repeated
/// are answered once, in the order in which they were first given.
///
/// A row can be claimed when its status is one of [`OwnedRow::READY`], or when it is running and its lease has ended. Locked
/// rows are skipped, so a claim never waits for one, and claims that overlap cannot deadlock. The claim is durable whatever
/// the session's `synchronous_commit` says. On SQLite a claim waits for its turn to write, as every write does.
///
/// When the database's answer is lost, rows may have been claimed for nobody: they can be claimed again when the lease has
/// ended.
///
/// ```
/// # include!("doctest_setup.rs");
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (_, mut conn) = doctest_issues();
/// let answers = rows::claim::<Issue, _>(&mut conn, &[1, 3, 99, 1], Duration::from_secs(60))?;
/// assert!(matches!(
///     answers[..],
///     [(1, Answer::Claimed(_)), (3, Answer::NotReady { .. }), (99, Answer::Missing)]
/// ));
/// assert!(matches!(rows::claim::<Issue, _>(&mut conn, &[1], Duration::from_secs(60))?[0].1, Answer::Running));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`RowError::InTransaction`] and [`RowError::TooMany`], before anything is asked; else the database's.
pub fn claim<R, C>(conn: &mut C, ids: &[IdOf<R>], lease: Duration) -> Result<Answers<R>, RowError>
where
    C: AsBackend,
    R: RowOn<C::Connection>,
{
    let mut seen = HashSet::new();
    let ids: Vec<&IdOf<R>> = ids.iter().filter(|id| seen.insert(*id)).collect();
    match ids.len() {
        0 => return Ok(Vec::new()),
        asked if asked > MOST => return Err(RowError::TooMany { asked }),
        _ => {}
    }
    let asked = Asked::new(R::table(), lease);
    let texts: Vec<String> = ids.iter().map(ToString::to_string).collect();
    let found = by_itself(conn.as_backend(), |conn| {
        Ok(conn.claim_rows(&asked.table, &asked.claim, &texts)?)
    })?;
    let mut found: HashMap<String, RowFound> = found.into_iter().map(|row| (row.id.clone(), row)).collect();
    let answers = ids.into_iter().zip(texts).map(|(id, text)| {
        let answer = found.remove(&text).map_or(Answer::Missing, |row| asked.answer(id, row));
        (id.clone(), answer)
    });
    Ok(answers.collect())
}

/// Claims up to `limit` of the rows whose ids a query selects, and [`MOST`] at the most, in its order: those that can be, as
/// [`claim`] does.
///
/// The query may join other tables: only the rows of the owned table are locked. Statuses need not be part of it. Its own
/// conditions are judged as of the start of the statement; what must hold at the end belongs into the commit.
///
/// ```
/// # include!("../doctest_setup.rs");
/// # use std::time::Duration;
/// # use leasehold::rows::{self, OwnedRow};
/// # diesel::table! { issue (id) { id -> BigInt, desk -> BigInt, status -> Text, generation -> BigInt,
/// #     lease_token -> Nullable<Text>, lease_until -> Nullable<BigInt> } }
/// # diesel::table! { desk (id) { id -> BigInt, open -> Bool } }
/// # diesel::joinable!(issue -> desk (desk));
/// # diesel::allow_tables_to_appear_in_same_query!(issue, desk);
/// # struct Issue;
/// # impl OwnedRow for Issue {
/// #     type Table = issue::table;
/// #     type Id = issue::id;
/// #     type Status = issue::status;
/// #     type Generation = issue::generation;
/// #     type LeaseToken = issue::lease_token;
/// #     type LeaseUntil = issue::lease_until;
/// #     const READY: &'static [&'static str] = &["PENDING"];
/// #     const RUNNING: &'static str = "IN_PROGRESS";
/// # }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (_, mut conn) = doctest_database();
/// # diesel::connection::SimpleConnection::batch_execute(&mut conn,
/// #     "CREATE TABLE desk (id INTEGER PRIMARY KEY, open BOOLEAN NOT NULL);
/// #      CREATE TABLE issue (id INTEGER PRIMARY KEY, desk INTEGER NOT NULL, status TEXT NOT NULL,
/// #         generation INTEGER NOT NULL DEFAULT 0, lease_token TEXT, lease_until INTEGER);
/// #      INSERT INTO desk VALUES (7, true); INSERT INTO issue (id, desk, status) VALUES (1, 7, 'PENDING')")?;
/// let of_open_desks = issue::table
///     .inner_join(desk::table)
///     .filter(desk::open.eq(true))
///     .order(issue::id)
///     .select(issue::id);
/// let leases = rows::claim_from::<Issue, _, _>(&mut conn, of_open_desks, 10, Duration::from_secs(60))?;
/// assert_eq!(leases[0].id(), &1);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`RowError::InTransaction`], before anything is asked; else the database's.
pub fn claim_from<R, C, Q>(conn: &mut C, query: Q, limit: usize, lease: Duration) -> Result<Vec<RowLease<R>>, RowError>
where
    C: AsBackend,
    R: RowOn<C::Connection>,
    Q: Query<SqlType = TypeOf<R::Id>> + QueryFragment<<C::Connection as Connection>::Backend>,
{
    let asked = Asked::new(R::table(), lease);
    let limit = i64::try_from(limit.min(MOST)).unwrap_or(i64::MAX);
    let claimed = by_itself(conn.as_backend(), |conn| {
        Ok(conn.claim_rows_from(&asked.table, &asked.claim, query, limit)?)
    })?;
    // An id is the database's text of what Diesel itself would have read from the same column.
    let leases = claimed.into_iter().filter_map(|row| {
        let id = row.id.parse().ok()?;
        Some(asked.granted(&id, row.id, row.generation))
    });
    Ok(leases.collect())
}

/// Gives running rows that have no end of a lease one, `grace` from now; how many there were.
///
/// Such rows were set running before the program knew leases, or by a program that does not know them, and nothing says
/// whether somebody works on them: a claim leaves them alone. Call this once those programs have stopped, or at every start
/// with a grace that is longer than their longest work. Locked rows are left for the next call.
///
/// ```
/// # include!("doctest_setup.rs");
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (_, mut conn) = doctest_issues();
/// // An older program set it running, and has stopped.
/// diesel::update(issue::table.find(2)).set(issue::status.eq("IN_PROGRESS")).execute(&mut conn)?;
/// assert_eq!(rows::adopt::<Issue, _>(&mut conn, Duration::from_secs(600))?, 1);
/// // In ten minutes it can be claimed.
/// assert!(matches!(rows::claim::<Issue, _>(&mut conn, &[2], Duration::from_secs(60))?[0].1, Answer::Running));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`RowError::InTransaction`], before anything is asked; else the database's.
pub fn adopt<R, C>(conn: &mut C, grace: Duration) -> Result<usize, RowError>
where
    C: AsBackend,
    R: RowOn<C::Connection>,
{
    by_itself(conn.as_backend(), |conn| {
        Ok(conn.adopt_rows(&R::table(), milliseconds(grace))?)
    })
}

/// One claim call.
struct Asked {
    table: Arc<RowTable>,
    claim: RowClaim,
    lease: Duration,
    sent: Instant,
}

impl Asked {
    fn new(table: Arc<RowTable>, lease: Duration) -> Self {
        let claim = RowClaim {
            lease_token: Uuid::new_v4(),
            lease_ms: milliseconds(lease),
        };
        Self {
            table,
            claim,
            lease,
            sent: Instant::now(),
        }
    }

    fn granted<R: OwnedRow>(&self, id: &IdOf<R>, text: String, generation: i64) -> RowLease<R> {
        let fence = RowFence {
            id: text,
            generation,
            lease_token: self.claim.lease_token,
        };
        RowLease::new(id.clone(), Arc::clone(&self.table), fence, self.lease, self.sent)
    }

    fn answer<R: OwnedRow>(&self, id: &IdOf<R>, row: RowFound) -> Answer<R> {
        match (row.claimed, row.status) {
            (Some(generation), _) => Answer::Claimed(self.granted(id, row.id, generation)),
            (None, None) => Answer::Missing,
            (None, Some(_)) if row.claimable => Answer::Busy,
            (None, Some(status)) if status == R::RUNNING => Answer::Running,
            (None, Some(status)) => Answer::NotReady { status },
        }
    }
}
