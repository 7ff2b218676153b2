//! Jobs without their payload.

use std::time::SystemTime;

use super::{State, time};
use crate::backend::SummaryRow;

/// One job, whether it has ended or not, without its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobSummary {
    /// Its id.
    pub id: i64,
    /// Its queue.
    pub queue: String,
    /// Its kind.
    pub kind: String,
    /// Its state.
    pub state: State,
    /// Ready, with a run time that is still to come.
    pub scheduled: bool,
    /// Ready, and kept by a limit or by jobs that have to end first.
    pub blocked: bool,
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
    /// The batch that it belongs to.
    pub batch: Option<i64>,
    /// When it was enqueued.
    pub created_at: SystemTime,
    /// When it ended.
    pub finished_at: Option<SystemTime>,
    /// Why it was discarded or cancelled.
    pub reason: Option<String>,
}

impl From<SummaryRow> for JobSummary {
    fn from(row: SummaryRow) -> Self {
        Self {
            id: row.id,
            queue: row.queue,
            kind: row.kind,
            state: State::parse(&row.state),
            scheduled: row.scheduled,
            blocked: row.blocked,
            priority: i16::try_from(row.priority).unwrap_or_default(),
            run_at: time(row.run_at_ms),
            attempt: row.attempt.unsigned_abs(),
            max_attempts: row.max_attempts.unsigned_abs(),
            generation: row.generation,
            batch: row.batch_id,
            created_at: time(row.created_at_ms),
            finished_at: row.finished_at_ms.map(time),
            reason: row.reason,
        }
    }
}
