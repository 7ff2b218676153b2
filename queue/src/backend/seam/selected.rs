//! A caller gets the rows that it chose.

use diesel::result::QueryResult;
use uuid::Uuid;

use super::{ClaimedRow, CountedKind};
use crate::schema::Schema;

/// What a caller asks for; the answers come in this order.
#[derive(Debug, Clone, Copy)]
pub enum Chosen<'a> {
    Ids(&'a [i64]),
    /// Keys as they are stored in `unique_keys`.
    Keys(&'a [String]),
}

/// A kind that a program runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunsKind {
    pub kind: String,
    /// The highest payload version that it can decode.
    pub version: i32,
}

/// What a chosen claim asks for.
#[derive(Debug, Clone)]
pub struct SelectedRequest<'a> {
    /// Each no more than once.
    pub chosen: Chosen<'a>,
    /// What the program runs, whatever the queue: a caller who names a job has chosen its queue, too.
    pub runs: &'a [RunsKind],
    /// Fresh from the operating system's random source for this call.
    pub lease_token: Uuid,
    pub worker: Uuid,
    /// Kinds whose starts are counted.
    pub counted: &'a [CountedKind],
}

/// What became of one that was asked for.
#[derive(Debug, Clone)]
pub struct SelectedRow {
    /// The job, as far as there is one.
    pub id: Option<i64>,
    pub found: SelectedAs,
}

/// How a chosen claim found a job.
#[derive(Debug, Clone)]
pub enum SelectedAs {
    /// It is the caller's, and that is committed.
    Claimed(Box<ClaimedRow>),
    /// It could be claimed, and somebody else has its row locked.
    Busy,
    /// Running, with its generation and worker; milliseconds since 1970 at which its lease ends.
    Running {
        generation: i64,
        worker: String,
        lease_until_ms: i64,
    },
    /// Milliseconds since 1970 at which it comes due.
    NotDue {
        run_at_ms: i64,
    },
    /// Kept by a limit, with what the limit counts by.
    ByLimit {
        kind: String,
        limit_key: String,
    },
    /// Kept by other jobs.
    ByJobs,
    Paused,
    /// The program does not run it, or its numbers are used up.
    NotServed {
        kind: String,
        version: i32,
    },
    /// Too old to begin.
    Expired,
    /// `completed`, `discarded` or `cancelled`, and milliseconds since 1970.
    Ended {
        state: String,
        finished_at_ms: i64,
    },
    Missing,
}

/// A job that was not claimed, as both statements tell of it: `found` is a word for how it was found, or its last state.
#[derive(Debug)]
pub struct Unclaimed {
    pub found: String,
    /// What the word is about: the end of the lease, the run time, the end of the job.
    pub at_ms: i64,
    pub worker: String,
    pub generation: i64,
    pub kind: String,
    pub version: i32,
    pub limit_key: String,
}

impl From<Unclaimed> for SelectedAs {
    fn from(job: Unclaimed) -> Self {
        let at_ms = job.at_ms;
        match job.found.as_str() {
            "running" => Self::Running {
                generation: job.generation,
                worker: job.worker,
                lease_until_ms: at_ms,
            },
            "not due" => Self::NotDue { run_at_ms: at_ms },
            "limit" => Self::ByLimit {
                kind: job.kind,
                limit_key: job.limit_key,
            },
            "jobs" => Self::ByJobs,
            "paused" => Self::Paused,
            "not served" => Self::NotServed {
                kind: job.kind,
                version: job.version,
            },
            "expired" => Self::Expired,
            "missing" => Self::Missing,
            "free" => Self::Busy,
            _ => Self::Ended {
                state: job.found,
                finished_at_ms: at_ms,
            },
        }
    }
}

pub trait SelectedStatements {
    /// Claims those of the chosen rows that can be claimed and says of each what it is: committed when it returns. The
    /// caller has made sure that no transaction is open. It waits for no row's lock. The answers are in the order of what
    /// was asked for.
    fn claim_selected(&mut self, schema: &Schema, request: &SelectedRequest<'_>) -> QueryResult<Vec<SelectedRow>>;
}
