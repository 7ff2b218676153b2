//! `batch`: one batch.

use leasehold::{AsBackend, batch};
use serde::Serialize;

use crate::database::Session;
use crate::failure::Failure;
use crate::output;

#[derive(Serialize)]
struct Shown {
    id: i64,
    name: String,
    created_at: String,
    discarded_at: Option<String>,
    cancelled_at: Option<String>,
    finished_at: Option<String>,
    ready: u64,
    scheduled: u64,
    blocked: u64,
    running: u64,
    completed: u64,
    discarded: u64,
    cancelled: u64,
}

pub(super) fn run<C: AsBackend>(session: &mut Session<'_, C>, id: i64) -> Result<(), Failure> {
    let record = batch::record(session.conn, &session.schema, id)?
        .ok_or_else(|| Failure::Nothing(format!("there is no batch {id}: it may have been purged")))?;
    let counts = record.counts;
    let shown = Shown {
        id,
        name: record.name,
        created_at: output::time(record.created_at),
        discarded_at: record.discarded_at.map(output::time),
        cancelled_at: record.cancelled_at.map(output::time),
        finished_at: record.finished_at.map(output::time),
        ready: counts.ready,
        scheduled: counts.scheduled,
        blocked: counts.blocked,
        running: counts.running,
        completed: counts.completed,
        discarded: counts.discarded,
        cancelled: counts.cancelled,
    };
    session.output.say(&shown, |shown| {
        let times = [
            ("enqueued", Some(&shown.created_at)),
            ("first discarded", shown.discarded_at.as_ref()),
            ("cancelled", shown.cancelled_at.as_ref()),
            ("finished", shown.finished_at.as_ref()),
        ];
        let times = times
            .into_iter()
            .filter_map(|(what, at)| Some(format!("{what:<16} {}", at?)));
        let head = [
            "READY",
            "SCHEDULED",
            "BLOCKED",
            "RUNNING",
            "COMPLETED",
            "DISCARDED",
            "CANCELLED",
        ];
        let counts = [
            shown.ready,
            shown.scheduled,
            shown.blocked,
            shown.running,
            shown.completed,
            shown.discarded,
            shown.cancelled,
        ];
        format!(
            "{:<16} {}\n{}\n\n{}",
            "batch",
            output::line(&shown.name),
            times.collect::<Vec<_>>().join("\n"),
            output::table(head, [counts.map(|count| count.to_string())])
        )
    })
}
