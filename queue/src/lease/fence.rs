//! The fence, and how a write that meets another one is refused.

use uuid::Uuid;

use crate::backend::Ownership;
use crate::inspect::State;

/// What a claim gave to its worker, and what each later write of the job must present.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence {
    /// The job.
    pub id: i64,
    /// Grows by one whenever ownership is given or taken away; gaps are normal.
    pub generation: i64,
    /// Random, fresh for each claim call.
    pub lease_token: Uuid,
}

/// Why the database did not accept a write of a job's worker.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The job was taken away: its lease ran out, or it ran past its timeout.
    #[error("the lease was lost: the job is at generation {generation} now")]
    Lost {
        /// The row's generation now.
        generation: i64,
    },
    /// The lease is no longer trusted here: it could not be renewed in time, by this process's own clock.
    #[error("the lease ran out before it could be renewed")]
    Expired,
    /// The attempt ran past the kind's timeout.
    #[error("the attempt ran past its timeout")]
    TimedOut,
    /// The row is gone.
    #[error("the job does not exist any more")]
    Missing,
    /// The job has ended already.
    #[error("the job has ended already: it is {state}")]
    AlreadyFinished {
        /// `Completed` or `Discarded`.
        state: State,
    },
    /// The job was cancelled.
    #[error("the job was cancelled")]
    Cancelled,
    /// The database forgot a commit that it had acknowledged (a crash with `synchronous_commit = off`, a replica promoted
    /// that lagged, an older file put back): the row is at a lower generation than this lease, or at the same one with
    /// another token.
    #[error("the database lost a commit that it had acknowledged: the job is at generation {generation} again")]
    DurabilityLoss {
        /// The row's generation now.
        generation: i64,
    },
}

impl Refusal {
    /// What a row says about a fence that matched nothing; `None` when the row is running under that very fence.
    pub(crate) fn of(fence: &Fence, row: Option<&Ownership>) -> Option<Self> {
        let Some(row) = row else { return Some(Self::Missing) };
        let generation = row.generation;
        let same_token = row.has_token_of(fence);
        if generation < fence.generation || (generation == fence.generation && !same_token) {
            return Some(Self::DurabilityLoss { generation });
        }
        match row.state.as_str() {
            "running" if generation == fence.generation => None,
            "running" | "ready" => Some(Self::Lost { generation }),
            "cancelled" => Some(Self::Cancelled),
            _ => Some(Self::AlreadyFinished {
                state: State::parse(&row.state),
            }),
        }
    }
}

/// What the row, read under its lock, says about a COMMIT whose answer was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The job was completed under this fence.
    Committed,
    /// The job still runs under this fence.
    NotCommitted,
    /// Neither: the job is not this worker's any more.
    Refused(Refusal),
}

impl Verdict {
    /// The verdict of a row, wherever it is now.
    #[must_use]
    pub fn of(fence: &Fence, row: Option<&Ownership>) -> Self {
        match Refusal::of(fence, row) {
            None => Self::NotCommitted,
            Some(Refusal::AlreadyFinished {
                state: State::Completed,
            }) if row.map(|row| row.generation) == Some(fence.generation) => Self::Committed,
            Some(refusal) => Self::Refused(refusal),
        }
    }
}
