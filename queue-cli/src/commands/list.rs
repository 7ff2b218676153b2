//! `list`: jobs, one a line, the newest first.

use std::time::SystemTime;

use leasehold::AsBackend;
use leasehold::inspect::{self, JobSummary, State};
use serde::Serialize;

use crate::cli::List;
use crate::database::Session;
use crate::failure::Failure;
use crate::output;

/// These names are what programs read: add to them, change none.
#[derive(Serialize)]
struct Shown {
    jobs: Vec<Job>,
    /// For `--from`; null when all were looked at.
    next: Option<String>,
}

#[derive(Serialize)]
struct Job {
    id: i64,
    queue: String,
    kind: String,
    state: &'static str,
    scheduled: bool,
    blocked: bool,
    priority: i16,
    run_at: String,
    attempt: u32,
    max_attempts: u32,
    generation: i64,
    batch: Option<i64>,
    created_at: String,
    finished_at: Option<String>,
    reason: Option<String>,
}

impl From<&JobSummary> for Job {
    fn from(job: &JobSummary) -> Self {
        Self {
            id: job.id,
            queue: job.queue.clone(),
            kind: job.kind.clone(),
            state: job.state.as_str(),
            scheduled: job.scheduled,
            blocked: job.blocked,
            priority: job.priority,
            run_at: output::time(job.run_at),
            attempt: job.attempt,
            max_attempts: job.max_attempts,
            generation: job.generation,
            batch: job.batch,
            created_at: output::time(job.created_at),
            finished_at: job.finished_at.map(output::time),
            reason: job.reason.clone(),
        }
    }
}

pub(super) fn run<C: AsBackend>(session: &mut Session<'_, C>, list: &List) -> Result<(), Failure> {
    let (found, next) = match list.idempotency_key.is_some() || list.unique_key.is_some() {
        true => (holder(session, list)?, None),
        false => {
            let filter = list.which.filter();
            let page = inspect::search(session.conn, &session.schema, &filter, list.from, list.limit)?;
            (page.jobs, page.next)
        }
    };
    let shown = Shown {
        jobs: found.iter().map(Into::into).collect(),
        next: next.map(|place| place.to_string()),
    };
    session.output.say(&shown, |shown| {
        let rows = found.iter().map(row);
        let mut text = output::table(["ID", "STATE", "QUEUE", "KIND", "ATTEMPT", "WHEN", "REASON"], rows);
        if let Some(next) = &shown.next {
            text += &format!("\nThere may be more: --from {next}");
        }
        text
    })
}

/// The one job that has the key, if any.
fn holder<C: AsBackend>(session: &mut Session<'_, C>, list: &List) -> Result<Vec<JobSummary>, Failure> {
    let (conn, schema) = (&mut *session.conn, &session.schema);
    let id = match (&list.idempotency_key, &list.unique_key, list.which.kind()) {
        (Some(key), ..) => inspect::by_idempotency_key(conn, schema, key)?,
        (_, Some(key), Some(kind)) => inspect::by_unique_key(conn, schema, kind, list.which.queue(), key)?,
        _ => None,
    };
    let life = match id {
        Some(id) => inspect::life(conn, schema, id)?,
        None => None,
    };
    Ok(life.map(|life| life.job).into_iter().collect())
}

fn row(job: &JobSummary) -> [String; 7] {
    [
        job.id.to_string(),
        state(job).to_owned(),
        output::line(&job.queue),
        output::line(&job.kind),
        format!("{}/{}", job.attempt, job.max_attempts),
        output::distance(when(job)),
        output::short(job.reason.as_deref().unwrap_or_default(), 60),
    ]
}

/// What keeps a ready job from being claimed, or its state.
fn state(job: &JobSummary) -> &'static str {
    match job.state {
        State::Ready if job.blocked => "blocked",
        State::Ready if job.scheduled => "scheduled",
        state => state.as_str(),
    }
}

/// When it ended, or may run.
fn when(job: &JobSummary) -> SystemTime {
    job.finished_at.unwrap_or(job.run_at)
}
