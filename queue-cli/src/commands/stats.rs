//! `stats`: jobs by queue and state.

use std::collections::BTreeMap;

use leasehold::inspect::{self, State};
use leasehold::{AsBackend, manage};
use serde::Serialize;

use crate::database::Session;
use crate::failure::Failure;
use crate::output;

#[derive(Default, Serialize)]
struct Queue {
    queue: String,
    ready: u64,
    scheduled: u64,
    blocked: u64,
    running: u64,
    completed: u64,
    discarded: u64,
    cancelled: u64,
    /// Its jobs, or all, are paused; a pause of a kind is not told here.
    paused: bool,
}

pub(super) fn run<C: AsBackend>(session: &mut Session<'_, C>) -> Result<(), Failure> {
    let counts = inspect::counts(session.conn, &session.schema)?;
    let pauses = manage::pauses(session.conn, &session.schema)?;
    let mut queues: BTreeMap<String, Queue> = BTreeMap::new();
    for count in counts {
        let paused = pauses.iter().any(|pause| match pause.scope() {
            manage::Scope::All => true,
            manage::Scope::Queue(name) => name == count.queue,
            manage::Scope::Kind(_) => false,
        });
        let queue = queues.entry(count.queue.clone()).or_default();
        queue.queue = count.queue;
        queue.paused = paused;
        *match count.state {
            State::Ready if count.scheduled => &mut queue.scheduled,
            State::Ready if count.blocked => &mut queue.blocked,
            State::Ready => &mut queue.ready,
            State::Running => &mut queue.running,
            State::Completed => &mut queue.completed,
            State::Discarded => &mut queue.discarded,
            State::Cancelled => &mut queue.cancelled,
            // A later library's.
            _ => continue,
        } += count.jobs;
    }
    let queues: Vec<Queue> = queues.into_values().collect();
    session.output.say(&queues, |queues| {
        let head = [
            "QUEUE",
            "READY",
            "SCHEDULED",
            "BLOCKED",
            "RUNNING",
            "COMPLETED",
            "DISCARDED",
            "CANCELLED",
            "PAUSED",
        ];
        let rows = queues.iter().map(|queue| {
            [
                output::line(&queue.queue),
                queue.ready.to_string(),
                queue.scheduled.to_string(),
                queue.blocked.to_string(),
                queue.running.to_string(),
                queue.completed.to_string(),
                queue.discarded.to_string(),
                queue.cancelled.to_string(),
                if queue.paused { "yes" } else { "" }.to_owned(),
            ]
        });
        output::table(head, rows)
    })
}
