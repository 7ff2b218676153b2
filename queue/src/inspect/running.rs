//! Running jobs at a glance.

use std::time::{Duration, SystemTime};

use diesel::result::QueryResult;
use uuid::Uuid;

use super::{ProgressRecord, time};
use crate::backend::{AsBackend, HeldMatching, HeldRow, HeldStatements};
use crate::schema::Schema;

/// Running jobs that are looked at.
const AT_MOST: i64 = 10_000;

/// A running job with its lease.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunningRecord {
    /// Its id.
    pub id: i64,
    /// Its queue.
    pub queue: String,
    /// Its kind.
    pub kind: String,
    /// The attempt, the first being 1.
    pub attempt: u32,
    /// How often it may be begun.
    pub max_attempts: u32,
    /// The generation of its lease.
    pub generation: i64,
    /// The id of the worker process that holds the lease; see [`workers`](super::workers()).
    pub worker: Uuid,
    /// How long a lease of it holds, if nobody renews it.
    pub lease: Duration,
    /// How long this one still holds, by the database's clock; `None` when it has expired and nobody has taken it back.
    pub left: Option<Duration>,
    /// Whether the handler has begun. Else the job is prefetched.
    pub begun: bool,
    /// When somebody asked it to stop.
    pub cancel_requested_at: Option<SystemTime>,
    /// When it was enqueued.
    pub created_at: SystemTime,
    /// How far its handler says it has come, under this lease.
    pub progress: Option<ProgressRecord>,
}

impl From<HeldRow> for RunningRecord {
    fn from(row: HeldRow) -> Self {
        let left = u64::try_from(row.left_ms).ok().filter(|ms| *ms > 0);
        Self {
            progress: progress(&row),
            id: row.id,
            queue: row.queue,
            kind: row.kind,
            attempt: row.attempt.unsigned_abs(),
            max_attempts: row.max_attempts.unsigned_abs(),
            generation: row.generation,
            worker: Uuid::parse_str(&row.worker).unwrap_or_default(),
            lease: Duration::from_millis(row.lease_ms.unsigned_abs()),
            left: left.map(Duration::from_millis),
            begun: row.begun,
            cancel_requested_at: row.cancel_requested_at_ms.map(time),
            created_at: time(row.created_at_ms),
        }
    }
}

fn progress(row: &HeldRow) -> Option<ProgressRecord> {
    Some(ProgressRecord {
        generation: row.generation,
        done: row.done?.unsigned_abs(),
        total: row.total?.unsigned_abs(),
        text: row.text.clone()?,
        at: time(row.progress_at_ms?),
    })
}

/// Which running jobs are meant. Every condition that is set must hold.
///
/// ```
/// use leasehold::inspect::Held;
///
/// let mails = Held::new().queue("mail").kind("send-email");
/// # let _ = mails;
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Held {
    matching: HeldMatching,
}

impl Held {
    /// All of them.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Of this kind.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.matching.kind = Some(kind.into());
        self
    }

    /// Of this queue.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.matching.queue = Some(queue.into());
        self
    }

    /// Of this worker process.
    #[must_use]
    pub fn worker(mut self, id: Uuid) -> Self {
        self.matching.worker = Some(id.to_string());
        self
    }
}

/// The running jobs that match and have an id above `after`, in the order of their ids, `limit` at the most: for the next page
/// give the last id. The first page begins after 0.
///
/// It looks at the first 10,000 running jobs after that id, and tells none behind them.
///
/// # Errors
///
/// The database's.
///
/// ```
/// # include!("../doctest_setup.rs");
/// use leasehold::inspect::{self, Held};
/// use leasehold::Schema;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (_url, mut conn) = doctest_database();
/// for job in inspect::running(&mut conn, &Schema::default(), &Held::new().kind("greet"), 0, 100)? {
///     println!("{} attempt {} holds its lease for {:?}", job.id, job.attempt, job.left);
/// }
/// # Ok(())
/// # }
/// ```
pub fn running(
    conn: &mut impl AsBackend,
    schema: &Schema,
    held: &Held,
    after: i64,
    limit: u32,
) -> QueryResult<Vec<RunningRecord>> {
    let rows = conn
        .as_backend()
        .held_jobs(schema, &held.matching, after, i64::from(limit), AT_MOST)?;
    Ok(rows.into_iter().map(Into::into).collect())
}
