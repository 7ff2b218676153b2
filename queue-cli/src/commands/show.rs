//! `show`: one job.

use std::fmt::Write as _;

use leasehold::AsBackend;
use leasehold::inspect::{self, ActionFilter, ErrorRecord, JobRecord, ProgressRecord, StepRecord};
use serde::Serialize;
use serde_json::Value;

use super::actions::{self, Action};
use crate::cli::Show;
use crate::database::Session;
use crate::failure::Failure;
use crate::output;

#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    job: Job,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Value>,
    progress: Option<Progress>,
    errors: Vec<Error>,
    steps: Vec<Step>,
    /// The newest 100, the oldest of them first.
    actions: Vec<Action>,
}

/// A job without its payload. These names are what programs read: add to them, change none.
#[derive(Serialize)]
struct Job {
    id: i64,
    queue: String,
    kind: String,
    version: u32,
    state: &'static str,
    priority: i16,
    run_at: String,
    attempt: u32,
    max_attempts: u32,
    generation: i64,
    idempotency_key: String,
    cancel_requested: bool,
    created_at: String,
    finished_at: Option<String>,
    reason: Option<String>,
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

#[derive(Serialize)]
struct Progress {
    generation: i64,
    done: u64,
    total: u64,
    text: String,
    at: String,
}

#[derive(Serialize)]
struct Error {
    attempt: u32,
    generation: i64,
    at: String,
    cause: String,
    error: String,
}

#[derive(Serialize)]
struct Step {
    name: String,
    position: u32,
    generation: i64,
    at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Value>,
}

impl From<ProgressRecord> for Progress {
    fn from(record: ProgressRecord) -> Self {
        Self {
            generation: record.generation,
            done: record.done,
            total: record.total,
            text: record.text,
            at: output::time(record.at),
        }
    }
}

impl From<ErrorRecord> for Error {
    fn from(record: ErrorRecord) -> Self {
        Self {
            attempt: record.attempt,
            generation: record.generation,
            at: output::time(record.at),
            cause: record.cause,
            error: record.error,
        }
    }
}

impl Step {
    fn of(record: StepRecord, with_result: bool) -> Self {
        Self {
            name: record.name,
            position: record.position,
            generation: record.generation,
            at: output::time(record.at),
            result: with_result.then(|| json(&record.result)),
        }
    }
}

/// What is stored is JSON; what is not after all is shown as it is.
fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// Actions that are shown.
const ACTIONS: u32 = 100;

pub(super) fn run<C: AsBackend>(session: &mut Session<'_, C>, show: &Show) -> Result<(), Failure> {
    let (conn, schema) = (&mut *session.conn, &session.schema);
    let record = inspect::job(conn, schema, show.id)?.ok_or_else(|| Failure::no_job(show.id))?;
    let acted = inspect::actions(conn, schema, &ActionFilter::new().job(show.id), None, ACTIONS)?;
    let shown = Shown {
        job: Job::from(&record),
        payload: show.payload.then(|| json(&record.payload)),
        progress: inspect::progress(conn, schema, show.id)?.map(Into::into),
        errors: inspect::errors(conn, schema, show.id)?
            .into_iter()
            .map(Into::into)
            .collect(),
        steps: inspect::steps(conn, schema, show.id)?
            .into_iter()
            .map(|step| Step::of(step, show.payload))
            .collect(),
        actions: acted.into_iter().rev().map(Into::into).collect(),
    };
    session.output.say(&shown, text)
}

fn text(shown: &Shown) -> String {
    let mut text = String::new();
    for (name, value) in facts(shown) {
        let _ = writeln!(text, "{name:<16} {}", output::line(&value));
    }
    if !shown.steps.is_empty() {
        let rows = shown.steps.iter().map(|step| {
            [
                output::line(&step.name),
                step.generation.to_string(),
                step.at.clone(),
                output::line(&step.result.as_ref().map(Value::to_string).unwrap_or_default()),
            ]
        });
        let _ = write!(
            text,
            "\n{}\n",
            output::table(["STEP", "GENERATION", "AT", "RESULT"], rows)
        );
    }
    if !shown.actions.is_empty() {
        let _ = write!(text, "\n{}\n", actions::table(&shown.actions));
    }
    for error in &shown.errors {
        let _ = write!(
            text,
            "\nattempt {} (generation {}) at {}: {}\n{}\n",
            error.attempt,
            error.generation,
            error.at,
            output::line(&error.cause),
            output::lines(&error.error)
        );
    }
    text
}

fn facts(shown: &Shown) -> Vec<(&'static str, String)> {
    let job = &shown.job;
    let mut facts = vec![
        ("id", job.id.to_string()),
        ("state", job.state.to_owned()),
        ("queue", job.queue.clone()),
        ("kind", format!("{}, version {}", job.kind, job.version)),
        ("priority", job.priority.to_string()),
        ("attempt", format!("{} of {}", job.attempt, job.max_attempts)),
        ("generation", job.generation.to_string()),
        ("idempotency key", job.idempotency_key.clone()),
        ("enqueued", job.created_at.clone()),
        ("may run from", job.run_at.clone()),
    ];
    let further = [
        ("cancel", job.cancel_requested.then(|| "requested".to_owned())),
        ("ended", job.finished_at.clone()),
        ("reason", job.reason.clone()),
        ("payload", shown.payload.as_ref().map(Value::to_string)),
        (
            "progress",
            shown.progress.as_ref().map(|progress| {
                format!(
                    "{} of {} {} ({})",
                    progress.done, progress.total, progress.text, progress.at
                )
            }),
        ),
    ];
    facts.extend(further.into_iter().filter_map(|(name, value)| Some((name, value?))));
    facts
}
