//! How long the library's statements take, seen by Diesel's instrumentation from inside this process: so the worker's own
//! claims, heartbeats and completions are measured, and not others beside them.

use std::fmt::{self, Write};
use std::sync::{Mutex, PoisonError};

use diesel::connection::{Instrumentation, InstrumentationEvent, set_default_instrumentation};
use serde::{Deserialize, Serialize};

use crate::clock::now_ns;

/// Which statement it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names of the statements")]
pub enum Which {
    Promote,
    BlockedKinds,
    Claim,
    Waiting,
    Begin,
    Heartbeat,
    Complete,
    Finish,
    Commit,
    Insert,
    Other,
}

/// What the texts of both backends have in their beginnings. The first that fits counts.
const MARKS: [(&str, Which); 14] = [
    ("SET scheduled = false, blocked_by", Which::Promote),
    ("SET scheduled = 0, blocked_by", Which::Promote),
    ("SELECT asked.kind", Which::BlockedKinds),
    ("SELECT asked.value", Which::BlockedKinds),
    ("state = 'running', generation =", Which::Claim),
    ("WITH served AS MATERIALIZED", Which::Waiting),
    ("SET lease_until =", Which::Heartbeat),
    ("AS asked (id, generation, lease_token)", Which::Heartbeat),
    ("SET begun", Which::Begin),
    ("WITH ended AS", Which::Complete),
    ("ended AS", Which::Finish),
    ("DELETE FROM leasehold_jobs", Which::Finish),
    ("COMMIT", Which::Commit),
    ("WITH clock AS", Which::Insert),
];

/// A statement that ran, on the clock of [`now_ns`].
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Ran {
    /// Which one.
    pub which: Which,
    /// When it was sent.
    pub began: u64,
    /// When its answer was read to the end.
    pub ended: u64,
}

static RAN: Mutex<Vec<Ran>> = Mutex::new(Vec::new());

/// Records the statements of every connection that is opened from now on.
///
/// # Errors
///
/// Another thread holds Diesel's default.
pub fn record() -> diesel::QueryResult<()> {
    set_default_instrumentation(|| Some(Box::new(Recorder::default())))
}

/// Connections that are opened from now on are left alone.
///
/// # Errors
///
/// As [`record`].
pub fn record_no_more() -> diesel::QueryResult<()> {
    set_default_instrumentation(|| None)
}

/// What ran since the last call, in the order in which it ended.
pub fn take() -> Vec<Ran> {
    std::mem::take(&mut *RAN.lock().unwrap_or_else(PoisonError::into_inner))
}

#[derive(Default)]
struct Recorder {
    began: u64,
}

impl Instrumentation for Recorder {
    fn on_connection_event(&mut self, event: InstrumentationEvent<'_>) {
        match event {
            InstrumentationEvent::StartQuery { .. } => self.began = now_ns(),
            InstrumentationEvent::FinishQuery { query, .. } => {
                let ended = now_ns();
                let mut head = Head(String::new());
                // It ends with an error once the beginning is there, which is all that is wanted.
                let _ = write!(head, "{query}");
                let ran = Ran {
                    which: which(&head.0),
                    began: self.began,
                    ended,
                };
                RAN.lock().unwrap_or_else(PoisonError::into_inner).push(ran);
            }
            _ => {}
        }
    }
}

fn which(text: &str) -> Which {
    MARKS
        .iter()
        .find(|(mark, _)| text.contains(mark))
        .map_or(Which::Other, |(_, which)| *which)
}

/// The beginning of a text; the rest, with what is bound, is never made.
struct Head(String);

impl Write for Head {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.push_str(text);
        if self.0.len() < 900 { Ok(()) } else { Err(fmt::Error) }
    }
}
