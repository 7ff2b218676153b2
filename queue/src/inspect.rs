//! Looking at jobs, for people and tests. Nothing here writes or takes a lock; see [`manage`](crate::manage) for that.
//!
//! What a page or a terminal shows all the time reads a bounded number of rows, however many there are, and no payload:
//! [`queues()`], [`ended()`], [`workers()`], [`running()`], [`rates()`], [`failures()`], [`life()`], [`actions()`], [`waits()`],
//! [`search()`], [`batch::list`](crate::batch::list) and [`batch::glance`](crate::batch::glance()). [`counts`] and [`list`] read as
//! many rows as it takes.
//!
//! ```
//! # include!("doctest_setup.rs");
//! use leasehold::inspect::{self, Filter, State};
//! use leasehold::Schema;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (_url, mut conn) = doctest_database();
//! let schema = Schema::default();
//! let id = Greet { name: "you".to_owned() }.enqueue(&mut conn)?.id();
//! for count in inspect::counts(&mut conn, &schema)? {
//!     println!("{} {}: {}", count.queue, count.state, count.jobs);
//! }
//!
//! let job = inspect::job(&mut conn, &schema, id)?.expect("it is kept");
//! assert_eq!(job.state, State::Ready);
//! assert_eq!(inspect::list(&mut conn, &schema, &Filter::new().kind("greet"), 0, 100)?.len(), 1);
//! assert!(inspect::errors(&mut conn, &schema, id)?.is_empty());
//! # Ok(())
//! # }
//! ```

mod actions;
pub use actions::{ActionFilter, ActionRecord, Target, actions};

mod count;
pub use count::Count;

mod ended;
pub use ended::{EndedRecord, ended};

mod filter;
pub use filter::Filter;

mod life;
pub use life::{FailureRecord, Happening, Life, Moment, failures, life};

mod queues;
pub use queues::{QueueRecord, queues};

mod rates;
pub use rates::{Latency, Rate, rates};

mod results;
pub(crate) use results::decode;
pub use results::{ProgressRecord, ReadResultError, progress, result};

mod served;
pub use served::{ServedKind, served};

mod running;
pub use running::{Held, RunningRecord, running};

mod search;
pub use search::{Page, Place, PlaceError, by_idempotency_key, by_unique_key, search};

mod steps;
pub use steps::{StepRecord, steps};

mod summary;
pub use summary::JobSummary;

mod wait;
pub(crate) use wait::{Look, wait_until};
pub use wait::{WaitError, wait_for};

mod waits;
pub use waits::{WaitRecord, Waits, waits};

mod workers;
pub use workers::{WorkerRecord, workers};

use std::fmt;
use std::time::{Duration, SystemTime};

use diesel::result::QueryResult;

use crate::backend::{AsBackend, CountRow, ErrorRow, InspectStatements, JobRow, ManageStatements};
use crate::job::Hidden;
use crate::schema::Schema;

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum State {
    /// No worker has it. It is claimed when it is due, not blocked and not paused.
    Ready,
    /// A worker holds its lease.
    Running,
    /// Ended well.
    Completed,
    /// Ended without success; kept with its errors.
    Discarded,
    /// Ended by its handler, by hand, or because a job that it waited for did not complete.
    Cancelled,
}

impl State {
    pub(crate) fn parse(text: &str) -> Self {
        match text {
            "running" => Self::Running,
            "completed" => Self::Completed,
            "discarded" => Self::Discarded,
            "cancelled" => Self::Cancelled,
            _ => Self::Ready,
        }
    }

    /// As a unique key's states add up.
    pub(crate) const fn bit(self) -> u8 {
        match self {
            Self::Ready => 1,
            Self::Running => 2,
            Self::Completed => 4,
            Self::Discarded => 8,
            Self::Cancelled => 16,
        }
    }

    /// As the tables spell it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Discarded => "discarded",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One job as it is stored, whether it has ended or not.
#[derive(Clone)]
#[non_exhaustive]
pub struct JobRecord {
    /// Its id.
    pub id: i64,
    /// Its queue.
    pub queue: String,
    /// Its kind.
    pub kind: String,
    /// The payload's version.
    pub version: u32,
    /// The payload, as JSON. Not shown by `Debug`: it may hold secrets.
    pub payload: String,
    /// Its state.
    pub state: State,
    /// Larger numbers are claimed first.
    pub priority: i16,
    /// When it may run, or might have run first.
    pub run_at: SystemTime,
    /// How often it was begun.
    pub attempt: u32,
    /// How often it may be begun.
    pub max_attempts: u32,
    /// Its generation.
    pub generation: i64,
    /// Its idempotency key.
    pub idempotency_key: String,
    /// Whether somebody asked the running job to stop.
    pub cancel_requested: bool,
    /// When it was enqueued.
    pub created_at: SystemTime,
    /// When it ended.
    pub finished_at: Option<SystemTime>,
    /// Why it was discarded or cancelled.
    pub reason: Option<String>,
}

impl From<JobRow> for JobRecord {
    fn from(row: JobRow) -> Self {
        Self {
            id: row.id,
            queue: row.queue,
            kind: row.kind,
            version: row.version.unsigned_abs(),
            payload: row.payload,
            state: State::parse(&row.state),
            priority: i16::try_from(row.priority).unwrap_or_default(),
            run_at: time(row.run_at_ms),
            attempt: row.attempt.unsigned_abs(),
            max_attempts: row.max_attempts.unsigned_abs(),
            generation: row.generation,
            idempotency_key: row.idempotency_key,
            cancel_requested: row.cancel_requested,
            created_at: time(row.created_at_ms),
            finished_at: row.finished_at_ms.map(time),
            reason: row.reason,
        }
    }
}

impl fmt::Debug for JobRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobRecord")
            .field("id", &self.id)
            .field("queue", &self.queue)
            .field("kind", &self.kind)
            .field("payload", &Hidden(&self.payload))
            .field("state", &self.state)
            .field("attempt", &self.attempt)
            .field("generation", &self.generation)
            .field("reason", &self.reason)
            .finish_non_exhaustive()
    }
}

/// One failed attempt of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ErrorRecord {
    /// The attempt, the first being 1.
    pub attempt: u32,
    /// The generation under which it ran.
    pub generation: i64,
    /// When it was recorded.
    pub at: SystemTime,
    /// `error`, `panic`, `timeout` or `lease expired`.
    pub cause: String,
    /// The error's text, 8 KiB at the most.
    pub error: String,
}

impl From<ErrorRow> for ErrorRecord {
    fn from(row: ErrorRow) -> Self {
        Self {
            attempt: row.attempt.unsigned_abs(),
            generation: row.generation,
            at: time(row.at_ms),
            cause: row.cause,
            error: row.error,
        }
    }
}

pub(crate) fn time(ms: i64) -> SystemTime {
    let distance = Duration::from_millis(ms.unsigned_abs());
    if ms >= 0 {
        SystemTime::UNIX_EPOCH + distance
    } else {
        SystemTime::UNIX_EPOCH - distance
    }
}

/// How many jobs of one queue are in one state. Scheduled and blocked ones are told apart from those
/// that are due.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueCount {
    /// The queue.
    pub queue: String,
    /// Their state.
    pub state: State,
    /// Ready, with a run time that is still to come.
    pub scheduled: bool,
    /// Ready, and kept by a limit or by jobs that have to end first.
    pub blocked: bool,
    /// How many.
    pub jobs: u64,
}

impl From<CountRow> for QueueCount {
    fn from(row: CountRow) -> Self {
        let scheduled = row.state == "scheduled";
        let blocked = row.state == "blocked";
        Self {
            queue: row.queue,
            state: State::parse(&row.state),
            scheduled,
            blocked,
            jobs: row.jobs.unsigned_abs(),
        }
    }
}

/// One job, wherever it is; `None` when there is none with this id.
///
/// # Errors
///
/// The database's.
pub fn job(conn: &mut impl AsBackend, schema: &Schema, id: i64) -> QueryResult<Option<JobRecord>> {
    Ok(conn.as_backend().job(schema, id)?.map(Into::into))
}

/// The failed attempts of a job, oldest first; the newest 100 are kept.
///
/// # Errors
///
/// The database's.
pub fn errors(conn: &mut impl AsBackend, schema: &Schema, id: i64) -> QueryResult<Vec<ErrorRecord>> {
    Ok(conn
        .as_backend()
        .job_errors(schema, id)?
        .into_iter()
        .map(Into::into)
        .collect())
}

/// Jobs by queue and state. It counts rows, so it takes longer the more there are.
///
/// # Errors
///
/// The database's.
pub fn counts(conn: &mut impl AsBackend, schema: &Schema) -> QueryResult<Vec<QueueCount>> {
    Ok(conn.as_backend().counts(schema)?.into_iter().map(Into::into).collect())
}

/// The jobs that match and have an id above `after`, in the order of their ids, `limit` at the most: for the next page give
/// the last id. The first page begins after 0.
///
/// It reads from id to id until it has found so many, so it takes longer the fewer match; [`search()`] ends in any case.
///
/// # Errors
///
/// The database's.
pub fn list(
    conn: &mut impl AsBackend,
    schema: &Schema,
    filter: &Filter,
    after: i64,
    limit: u32,
) -> QueryResult<Vec<JobRecord>> {
    let jobs = conn
        .as_backend()
        .jobs(schema, filter.conditions(), after, i64::from(limit))?;
    Ok(jobs.into_iter().map(Into::into).collect())
}
