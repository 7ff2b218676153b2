//! What a call answers, in the words of the model: jobs by the order of their enqueue.

use leasehold::Refusal;
use leasehold::inspect::State;

#[derive(Debug, PartialEq)]
pub(crate) enum Answer {
    /// Nothing to tell.
    Done,
    New(usize),
    Existing(usize),
    Updated(usize),
    KeyConflict(usize),
    UniqueConflict(usize),
    /// Job, generation and attempt of each, in the order of the jobs.
    Claimed(Vec<(usize, i64, i32)>),
    Found(Vec<usize>),
    /// For each fence that was presented.
    Fenced(Vec<(usize, Written)>),
    /// In the order of the jobs.
    TakenBack(Vec<TakenBack>),
    Waiting {
        ready: i64,
        running: i64,
        scheduled: i64,
        blocked: i64,
        paused: i64,
        next: bool,
    },
    Count(usize),
    Was(bool),
    KeyTaken,
    Edited(i64),
    Missing,
    State(State),
    Conflict(i64),
    Identity,
}

/// What became of a fenced write.
#[derive(Debug, PartialEq)]
pub(crate) enum Written {
    Yes,
    /// A heartbeat's further word.
    AskedToStop,
    /// `None`: the job is its worker's, and was left as it is for another reason.
    Refused(Option<Refusal>),
}

#[derive(Debug, PartialEq)]
pub(crate) struct TakenBack {
    pub(crate) job: usize,
    pub(crate) generation: i64,
    pub(crate) attempt: i32,
    pub(crate) begun: bool,
    pub(crate) state: String,
}
