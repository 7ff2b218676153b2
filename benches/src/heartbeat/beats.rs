//! What was seen, by whether a heartbeat was under way.

use std::time::Duration;

use super::jobs::{Completion, How};
use crate::samples::Samples;
use crate::statements::{Ran, Which};

/// All leases renewed, chunk by chunk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beat {
    pub(super) began: u64,
    pub(super) ended: u64,
    pub(super) chunks: usize,
}

impl Beat {
    pub(super) fn time(&self) -> Duration {
        Duration::from_nanos(self.ended - self.began)
    }

    /// The heartbeats of so many chunks at least; smaller ones are of jobs that were claimed a moment ago. Each is due a
    /// third of the lease after the last, so what is nearer than a sixth belongs to one.
    pub(super) fn all(statements: &[Ran], least: usize, lease: Duration) -> Vec<Self> {
        let gap = u64::try_from(lease.as_nanos() / 6).unwrap_or(u64::MAX);
        let mut beats: Vec<Self> = Vec::new();
        for ran in statements.iter().filter(|ran| ran.which == Which::Heartbeat) {
            match beats.last_mut() {
                Some(beat) if ran.began.saturating_sub(beat.ended) < gap => {
                    beat.ended = ran.ended;
                    beat.chunks += 1;
                }
                _ => beats.push(Self {
                    began: ran.began,
                    ended: ran.ended,
                    chunks: 1,
                }),
            }
        }
        beats.retain(|beat| beat.chunks >= least);
        beats
    }

    fn meets(&self, completion: &Completion) -> bool {
        completion.began < self.ended && self.began < completion.ended
    }
}

/// How long the statements took by themselves, without what they waited for before they began.
pub(super) fn chunks(statements: &[Ran], beats: &[Beat]) -> Samples {
    let is_in = |ran: &&Ran| {
        beats
            .iter()
            .any(|beat| beat.began <= ran.began && ran.ended <= beat.ended)
    };
    let heartbeats = statements.iter().filter(|ran| ran.which == Which::Heartbeat);
    let times = heartbeats
        .filter(is_in)
        .map(|ran| Duration::from_nanos(ran.ended - ran.began));
    times.collect()
}

/// How long completions of one sort took while a heartbeat was under way, and while none was.
pub(super) fn split(completions: &[Completion], how: How, beats: &[Beat]) -> (Samples, Samples) {
    let (mut during, mut outside) = (Samples::default(), Samples::default());
    for completion in completions.iter().filter(|completion| completion.how == how) {
        let time = Duration::from_nanos(completion.ended.saturating_sub(completion.began));
        if beats.iter().any(|beat| beat.meets(completion)) {
            during.add(time);
        } else {
            outside.add(time);
        }
    }
    (during, outside)
}
