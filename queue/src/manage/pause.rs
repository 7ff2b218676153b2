//! Pause and resume.

use std::time::SystemTime;

use diesel::result::{Error, QueryResult};

use super::deed::Deed;
use crate::backend::{AsBackend, PauseRow, PauseStatements};
use crate::commit::depth;
use crate::inspect::time;
use crate::migrate::Migrate;
use crate::schema::Schema;

/// What is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope<'a> {
    /// Every job.
    All,
    /// The jobs of one queue.
    Queue(&'a str),
    /// The jobs of one kind, whatever their queue.
    Kind(&'a str),
}

impl Scope<'_> {
    fn parts(&self) -> (&'static str, &str) {
        match self {
            Self::All => ("all", ""),
            Self::Queue(name) => ("queue", name),
            Self::Kind(name) => ("kind", name),
        }
    }
}

/// A pause that holds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pause {
    scope: String,
    name: String,
    /// Since when.
    pub at: SystemTime,
    /// Who asked for it.
    pub by: String,
    /// Why.
    pub reason: String,
}

impl Pause {
    /// What is paused.
    #[must_use]
    pub fn scope(&self) -> Scope<'_> {
        match self.scope.as_str() {
            "queue" => Scope::Queue(&self.name),
            "kind" => Scope::Kind(&self.name),
            _ => Scope::All,
        }
    }
}

impl From<PauseRow> for Pause {
    fn from(row: PauseRow) -> Self {
        Self {
            scope: row.scope,
            name: row.name,
            at: time(row.at_ms),
            by: row.by,
            reason: row.reason,
        }
    }
}

/// Pauses a queue, a kind or everything, in all processes and until [`resume`].
///
/// Once this is committed, no claim takes such a job. Jobs that were claimed before go on, also those that were prefetched, and
/// jobs can still be enqueued. A pause of what is paused already replaces its time, name and reason. Part of the transaction
/// that is open on `conn`, if any.
///
/// # Errors
///
/// The database's.
///
/// ```
/// # include!("../doctest_setup.rs");
/// use leasehold::manage::{self, Scope};
/// use leasehold::{Schema, Worker};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (url, mut conn) = doctest_database();
/// let schema = Schema::default();
/// Greet { name: "you".to_owned() }.enqueue(&mut conn)?;
///
/// manage::pause(&mut conn, &schema, Scope::Queue("default"), "ops", "the printer is out of paper")?;
/// let worker = || Worker::<SqliteConnection, _>::new(&url, ()).register::<Greet>();
/// let summary = worker().run_until_empty()?;
/// assert_eq!((summary.counts.completed, summary.paused), (0, 1));
/// assert_eq!(manage::pauses(&mut conn, &schema)?[0].reason, "the printer is out of paper");
///
/// manage::resume(&mut conn, &schema, Scope::Queue("default"), "ops")?;
/// assert_eq!(worker().run_until_empty()?.counts.completed, 1);
/// # Ok(())
/// # }
/// ```
pub fn pause(conn: &mut impl AsBackend, schema: &Schema, scope: Scope<'_>, by: &str, reason: &str) -> QueryResult<()> {
    let (kind, name) = scope.parts();
    let deed = Deed::new(by, Some(reason));
    conn.as_backend().patiently(|conn| {
        deed.to(conn, schema, "pause", (kind, name), |conn| {
            Ok::<_, Error>(conn.pause(schema, kind, name, &deed.by, deed.reason())? > 0)
        })
    })??;
    Ok(())
}

/// Ends a pause and wakes idle workers; whether there was one. Other pauses that hold the same jobs go on. Part of the
/// transaction that is open on `conn`, if any.
///
/// # Errors
///
/// The database's.
pub fn resume(conn: &mut impl AsBackend, schema: &Schema, scope: Scope<'_>, by: &str) -> QueryResult<bool> {
    let (kind, name) = scope.parts();
    let conn = conn.as_backend();
    let deed = Deed::new(by, None);
    let resumed = conn.patiently(|conn| {
        deed.to(conn, schema, "resume", (kind, name), |conn| {
            Ok::<_, Error>(conn.resume(schema, kind, name)? > 0)
        })
    })??;
    if depth(conn)? > 0 {
        crate::wake::expect_local();
    } else {
        crate::wake::wake_local();
    }
    Ok(resumed)
}

/// The pauses that hold, by scope and name.
///
/// # Errors
///
/// The database's.
pub fn pauses(conn: &mut impl AsBackend, schema: &Schema) -> QueryResult<Vec<Pause>> {
    let rows = conn.as_backend().pauses(schema)?;
    Ok(rows.into_iter().map(Into::into).collect())
}
