//! What the parent tells a child to measure, and the child's answer: each one line of JSON, in Rust and in Node alike.

use serde::{Deserialize, Serialize};

/// One measurement of one system, on an empty database of its own.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) system: String,
    pub(crate) url: String,
    pub(crate) shape: Shape,
    pub(crate) jobs: usize,
    /// Jobs in one call of a bulk enqueue.
    pub(crate) chunk: usize,
    /// Connections that enqueue one by one.
    pub(crate) connections: usize,
    /// The text that makes a payload of about 200 bytes.
    pub(crate) filler: String,
    /// Counts the jobs that are not completed yet.
    pub(crate) left: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Shape {
    /// Only the tables are made: what is measured runs on a copy.
    Prepare,
    /// Enqueued in bulk, then run to the last one, with the system's best documented settings.
    Work,
    /// Run with so many at a time, each job claimed and completed by commits of its own.
    Unbatched(usize),
    /// Enqueued one by one.
    Single,
    /// One job at a time for a worker that is idle.
    Pickup,
}

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Answer {
    /// Jobs per second, of the shape.
    pub(crate) rate: Option<f64>,
    /// Jobs per second enqueued in bulk, before the work.
    pub(crate) bulk: Option<f64>,
    /// From the call of enqueue to the begin of the handler, in milliseconds.
    pub(crate) p50: Option<f64>,
    pub(crate) p99: Option<f64>,
    /// How many handlers began.
    pub(crate) begun: usize,
    /// What the child ran on, if the parent cannot know it.
    pub(crate) version: Option<String>,
}
