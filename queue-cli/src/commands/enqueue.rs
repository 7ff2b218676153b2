//! `enqueue`: a job of a kind that this program has no type for.

use std::io::{self, Read};

use leasehold::inspect::{self, ServedKind};
use leasehold::{AsBackend, EnqueueError, EnqueueOptions, UntypedJob};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::cli::Enqueue;
use crate::database::Session;
use crate::failure::Failure;
use crate::output;

#[derive(Serialize)]
struct Enqueued {
    /// In a dry run there is none.
    id: Option<i64>,
    /// False: one with the same idempotency key was there.
    new: bool,
    dry_run: bool,
}

pub(super) fn run<C: AsBackend>(session: &mut Session<'_, C>, enqueue: &Enqueue) -> Result<(), Failure> {
    let payload = payload(&enqueue.payload)?;
    let job = UntypedJob::new(&enqueue.kind, &payload)?.version(enqueue.version);
    let mut options = EnqueueOptions::new()
        .schema(&session.schema)
        .queue(&enqueue.queue)
        .priority(enqueue.priority)
        .max_attempts(enqueue.max_attempts);
    if let Some(delay) = enqueue.delay {
        options = options.delay(delay);
    }
    if let Some(key) = &enqueue.idempotency_key {
        options = options.idempotency_key(key);
    }
    if !enqueue.force {
        let served = inspect::served(session.conn, &session.schema)?;
        is_served(enqueue, &served)?;
    }
    let enqueued = match enqueue.dry_run {
        true => Enqueued {
            id: None,
            new: true,
            dry_run: true,
        },
        false => {
            let answer = job.enqueue(session.conn, &options)?;
            Enqueued {
                id: Some(answer.id()),
                new: answer.is_new(),
                dry_run: false,
            }
        }
    };
    session
        .output
        .say(&enqueued, |enqueued| match (enqueued.id, enqueued.new) {
            (None, _) => "1 job would be enqueued".to_owned(),
            (Some(id), true) => format!("job {id} enqueued"),
            (Some(id), false) => format!("job {id} was enqueued before with this idempotency key"),
        })
}

/// Letter for letter: numbers and the order of keys stay as they were written.
pub(super) fn payload(text: &str) -> Result<Box<RawValue>, Failure> {
    let mut read = String::new();
    let text = match text {
        "-" => {
            io::stdin().lock().read_to_string(&mut read)?;
            read.trim()
        }
        text => text,
    };
    serde_json::from_str(text).map_err(|error| Failure::Usage(format!("the payload is not JSON: {error}")))
}

/// A mistyped kind would wait for ever.
fn is_served(enqueue: &Enqueue, served: &[ServedKind]) -> Result<(), Failure> {
    let kind = output::line(&enqueue.kind);
    match served.iter().find(|one| one.kind == enqueue.kind) {
        Some(one) if one.version >= enqueue.version => Ok(()),
        Some(one) => Err(Failure::Refused(format!(
            "live workers take `{kind}` up to version {}: say --force if newer ones are to come",
            one.version
        ))),
        None => Err(Failure::Refused(format!(
            "no live worker serves the kind `{kind}`: say --force if one is to come"
        ))),
    }
}

impl From<EnqueueError> for Failure {
    fn from(error: EnqueueError) -> Self {
        match error {
            EnqueueError::Database(error) => Self::Database(error),
            EnqueueError::KeyConflict { .. } | EnqueueError::KeysContended => Self::Refused(error.to_string()),
            _ => Self::Usage(error.to_string()),
        }
    }
}
