//! What became of a job that its caller worked off.

use std::time::Duration;

use crate::backend::{End, PutBack};
use crate::lease::{Held, Refusal};
use crate::settle::{Settlement, delay};

/// What became of a job, as the database has it now.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settled {
    /// Completed.
    Completed,
    /// It failed, and is ready again.
    Retried {
        /// What went wrong.
        error: String,
        /// How long it waits.
        after: Duration,
    },
    /// Put off.
    Snoozed {
        /// How long it waits.
        after: Duration,
    },
    /// Ended without success: no further attempt.
    Discarded {
        /// Why.
        reason: String,
    },
    /// Cancelled, by its own run or because somebody asked for that.
    Cancelled {
        /// Why.
        reason: String,
    },
    /// Ready again, without an attempt used up: the database was away, or the worker stopped before the run began.
    Released,
    /// The closure takes another type of job than this one is. It was not called; the job is ready again, without an
    /// attempt used up.
    OtherType,
    /// [`work`](super::ClaimedJob::work) was called inside the commit of another lease on SQLite, which keeps every other
    /// writer waiting, so that neither would have ended. The closure was not called; the job is ready again, without an
    /// attempt used up.
    InCommit,
    /// The database refused: it was not this process's job any more. What the run wrote through its lease is undone.
    Lost(Refusal),
    /// The database did not say in time. The lease decides: the job is completed, or runs again.
    Unknown,
}

impl Settled {
    /// Once it is written.
    pub(in crate::worker) fn by(settlement: &Settlement) -> Self {
        match settlement {
            Settlement::Finish => Self::Completed,
            Settlement::Snooze(how) => Self::Snoozed { after: delay(how) },
            Settlement::Retry(how @ PutBack { error, .. }) => Self::Retried {
                error: error.as_ref().map(|error| error.error.clone()).unwrap_or_default(),
                after: delay(how),
            },
            Settlement::Release(_) | Settlement::GiveBack => Self::Released,
            Settlement::End(End { state, reason, .. }) => {
                let reason = reason.clone().unwrap_or_default();
                match *state {
                    "discarded" => Self::Discarded { reason },
                    _ => Self::Cancelled { reason },
                }
            }
        }
    }

    /// After a run that left nothing to write.
    pub(in crate::worker) fn without_a_write(held: &Held, refusal: Option<Refusal>) -> Self {
        if held.is_committed() {
            return Self::Completed;
        }
        if held.is_timed_out() {
            return Self::Lost(Refusal::TimedOut);
        }
        refusal.map_or(Self::Unknown, Self::Lost)
    }
}
