//! What was seen, by whether a heartbeat was under way.

use std::time::Duration;

use super::jobs::{Completion, How};
use crate::samples::Samples;
use crate::statements::{Ran, Which};

/// Statements of one heartbeat follow each other at once; two heartbeats are a second apart at least.
const GAP: u64 = 200_000_000;

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

    /// The heartbeats of so many chunks at least; smaller ones are of jobs that were claimed a moment ago.
    pub(super) fn all(statements: &[Ran], least: usize) -> Vec<Self> {
        let mut beats: Vec<Self> = Vec::new();
        for ran in statements.iter().filter(|ran| ran.which == Which::Heartbeat) {
            match beats.last_mut() {
                Some(beat) if ran.began.saturating_sub(beat.ended) < GAP => {
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
