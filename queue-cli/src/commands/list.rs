//! `list`: jobs, one a line.

use std::time::SystemTime;

use leasehold::AsBackend;
use leasehold::inspect::{self, JobRecord};
use serde::Serialize;

use crate::cli::List;
use crate::database::Session;
use crate::failure::Failure;
use crate::output;

/// A job without its payload. These names are what programs read: add to them, change none.
#[derive(Serialize)]
pub(super) struct Job {
    pub(super) id: i64,
    pub(super) queue: String,
    pub(super) kind: String,
    pub(super) version: u32,
    pub(super) state: &'static str,
    pub(super) priority: i16,
    pub(super) run_at: String,
    pub(super) attempt: u32,
    pub(super) max_attempts: u32,
    pub(super) generation: i64,
    pub(super) idempotency_key: String,
    pub(super) cancel_requested: bool,
    pub(super) created_at: String,
    pub(super) finished_at: Option<String>,
    pub(super) reason: Option<String>,
}

impl From<&JobRecord> for Job {
    fn from(job: &JobRecord) -> Self {
        Self {
            id: job.id,
            queue: job.queue.clone(),
            kind: job.kind.clone(),
            version: job.version,
            state: job.state.as_str(),
            priority: job.priority,
            run_at: output::time(job.run_at),
            attempt: job.attempt,
            max_attempts: job.max_attempts,
            generation: job.generation,
            idempotency_key: job.idempotency_key.clone(),
            cancel_requested: job.cancel_requested,
            created_at: output::time(job.created_at),
            finished_at: job.finished_at.map(output::time),
            reason: job.reason.clone(),
        }
    }
}

pub(super) fn run<C: AsBackend>(session: &mut Session<'_, C>, list: &List) -> Result<(), Failure> {
    let filter = list.which.filter();
    let records = inspect::list(session.conn, &session.schema, &filter, list.after, list.limit)?;
    let jobs: Vec<Job> = records.iter().map(Into::into).collect();
    session.output.say(&jobs, |_| {
        let rows = records.iter().map(row);
        let mut text = output::table(["ID", "STATE", "QUEUE", "KIND", "ATTEMPT", "WHEN", "REASON"], rows);
        if let Some(last) = records.last().filter(|_| records.len() == list.limit as usize) {
            text += &format!("\nThere may be more: --after {}", last.id);
        }
        text
    })
}

fn row(job: &JobRecord) -> [String; 7] {
    [
        job.id.to_string(),
        job.state.to_string(),
        output::line(&job.queue),
        output::line(&job.kind),
        format!("{}/{}", job.attempt, job.max_attempts),
        output::distance(when(job)),
        output::short(job.reason.as_deref().unwrap_or_default(), 60),
    ]
}

/// When it ended, or may run.
fn when(job: &JobRecord) -> SystemTime {
    job.finished_at.unwrap_or(job.run_at)
}
