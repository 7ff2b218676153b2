//! `edit`: a ready job.

use leasehold::AsBackend;
use leasehold::inspect::{self, State};
use leasehold::manage;
use serde::Serialize;

use super::enqueue::payload;
use crate::cli::Edit;
use crate::database::Session;
use crate::failure::Failure;

#[derive(Serialize)]
struct Edited {
    id: i64,
    /// As it is now; in a dry run, as it was found.
    generation: i64,
    dry_run: bool,
}

pub(super) fn run<C: AsBackend>(session: &mut Session<'_, C>, edit: &Edit) -> Result<(), Failure> {
    let id = edit.id;
    let job = inspect::job(session.conn, &session.schema, id)?.ok_or_else(|| Failure::no_job(id))?;
    if job.state != State::Ready {
        return Err(Failure::wrong_state(id, job.state, "only ready jobs are edited"));
    }
    let mut change = manage::Edit::new();
    if let Some(priority) = edit.priority {
        change = change.priority(priority);
    }
    if let Some(delay) = edit.delay {
        change = change.delay(delay);
    }
    if let Some(text) = &edit.payload {
        change = change.untyped_payload(&job.kind, &payload(text)?)?;
    }
    let generation = edit.generation.unwrap_or(job.generation);
    let generation = match edit.dry_run {
        true => generation,
        false => manage::edit(session.conn, &session.schema, id, generation, &change, &edit.by.name())?,
    };
    let edited = Edited {
        id,
        generation,
        dry_run: edit.dry_run,
    };
    session.output.say(&edited, |edited| match edited.dry_run {
        true => format!("job {id} would be edited"),
        false => format!("job {id} edited, its generation is {} now", edited.generation),
    })
}
