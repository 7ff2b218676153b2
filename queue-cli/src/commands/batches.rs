//! `batches`: one a line.

use leasehold::batch::{self, BatchSummary};
use leasehold::{AsBackend, inspect::Count};
use serde::Serialize;

use crate::cli::Batches;
use crate::database::Session;
use crate::failure::Failure;
use crate::output;

/// Each number is counted up to a bound; with `more` one of them may be larger.
#[derive(Serialize)]
struct Shown {
    id: i64,
    name: String,
    created_at: String,
    discarded_at: Option<String>,
    cancelled_at: Option<String>,
    finished_at: Option<String>,
    open: u64,
    completed: u64,
    discarded: u64,
    cancelled: u64,
    more: bool,
}

impl From<&BatchSummary> for Shown {
    fn from(batch: &BatchSummary) -> Self {
        Self {
            id: batch.id,
            name: batch.name.clone(),
            created_at: output::time(batch.created_at),
            discarded_at: batch.discarded_at.map(output::time),
            cancelled_at: batch.cancelled_at.map(output::time),
            finished_at: batch.finished_at.map(output::time),
            open: batch.open.rows,
            completed: batch.completed.rows,
            discarded: batch.discarded.rows,
            cancelled: batch.cancelled.rows,
            more: counts(batch).iter().any(|count| count.more),
        }
    }
}

fn counts(batch: &BatchSummary) -> [Count; 4] {
    [batch.open, batch.completed, batch.discarded, batch.cancelled]
}

pub(super) fn run<C: AsBackend>(session: &mut Session<'_, C>, batches: &Batches) -> Result<(), Failure> {
    let newest = &batches.newest;
    let found = batch::list(session.conn, &session.schema, newest.before, newest.limit)?;
    let shown: Vec<Shown> = found.iter().map(Into::into).collect();
    session.output.say(&shown, |_| {
        let head = [
            "ID",
            "NAME",
            "STATE",
            "ENQUEUED",
            "OPEN",
            "COMPLETED",
            "DISCARDED",
            "CANCELLED",
        ];
        let last = found.last().map(|batch| batch.id);
        output::table(head, found.iter().map(row)) + &newest.further(found.len(), last)
    })
}

fn row(batch: &BatchSummary) -> [String; 8] {
    let [open, completed, discarded, cancelled] = counts(batch).map(|count| count.to_string());
    [
        batch.id.to_string(),
        output::short(&batch.name, 40),
        state(batch).to_owned(),
        output::distance(batch.created_at),
        open,
        completed,
        discarded,
        cancelled,
    ]
}

fn state(batch: &BatchSummary) -> &'static str {
    match (batch.cancelled_at, batch.finished_at) {
        (Some(_), _) => "cancelled",
        (None, Some(_)) => "finished",
        (None, None) => "open",
    }
}
