//! What at most one job may have.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::inspect::State;
use crate::settle::millis;

/// How long a job keeps its unique key, and what an enqueue does that finds the key with another job.
///
/// The derive writes it from `unique(…)`; the key itself is [`Job::unique_key`](crate::Job::unique_key).
///
/// A key belongs to its holder while that job is in one of the key's states, and for no longer than
/// [`Unique::within`]. This is looked at when a job is enqueued, and only then: a job whose key went to another in the
/// meantime still runs when it is ready again, so that a conflict never fails a retry or a sweep.
///
/// ```
/// use std::time::Duration;
/// use leasehold::inspect::State;
/// use leasehold::{Job, OnConflict, Unique};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, Job)]
/// #[job(kind = "index", unique(by = "page", states = "ready, running, completed", within = "1h", on_conflict = "reject"))]
/// struct Index {
///     page: String,
/// }
///
/// let same = Unique::new()
///     .states(&[State::Ready, State::Running, State::Completed])
///     .within(Duration::from_secs(3600))
///     .on_conflict(OnConflict::Reject);
/// assert_eq!(Index::UNIQUE, same);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unique {
    /// Added up; 0 for the default.
    states: u8,
    within: Option<Duration>,
    per_queue: bool,
    on_conflict: OnConflict,
}

/// What an enqueue does whose unique key another job has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum OnConflict {
    /// Leaves the other job as it is: [`Enqueued::Existing`](crate::Enqueued::Existing).
    #[default]
    Keep,
    /// Gives the other job the new payload, if it is ready: [`Enqueued::Updated`](crate::Enqueued::Updated). One that is
    /// not ready is left as it is.
    Replace,
    /// Gives the other job the new run time, in the same way.
    Reschedule,
    /// Gives the other job both.
    ReplaceAndReschedule,
    /// Enqueues nothing: [`EnqueueError::UniqueConflict`](crate::EnqueueError::UniqueConflict).
    Reject,
}

impl OnConflict {
    pub(crate) fn replaces(self) -> bool {
        matches!(self, Self::Replace | Self::ReplaceAndReschedule)
    }

    pub(crate) fn reschedules(self) -> bool {
        matches!(self, Self::Reschedule | Self::ReplaceAndReschedule)
    }
}

impl Unique {
    /// While the job is ready or running, over all queues; the other job is kept.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            states: 0,
            within: None,
            per_queue: false,
            on_conflict: OnConflict::Keep,
        }
    }

    /// One job in each queue.
    #[must_use]
    pub const fn per_queue(mut self) -> Self {
        self.per_queue = true;
        self
    }

    /// The states in which a job keeps its key. `Ready` is always among them.
    ///
    /// By default `Ready` and `Running`, with [`Unique::within`] `Completed`, too; and `Ready` alone when a conflict
    /// replaces or reschedules: a running job cannot be changed, so a new one is enqueued then.
    #[must_use]
    pub const fn states(mut self, states: &[State]) -> Self {
        self.states = State::Ready.bit();
        let mut rest = states;
        while let [state, others @ ..] = rest {
            self.states |= state.bit();
            rest = others;
        }
        self
    }

    /// How long a job keeps its key at the most, counted from its enqueue: a hundred years if need be.
    #[must_use]
    pub const fn within(mut self, period: Duration) -> Self {
        self.within = Some(period);
        self
    }

    /// What an enqueue does that finds the key with another job.
    #[must_use]
    pub const fn on_conflict(mut self, action: OnConflict) -> Self {
        self.on_conflict = action;
        self
    }

    pub(crate) fn is_per_queue(&self) -> bool {
        self.per_queue
    }

    pub(crate) fn action(&self) -> OnConflict {
        self.on_conflict
    }

    pub(crate) fn keep_ms(&self) -> Option<i64> {
        self.within.map(millis)
    }

    /// The states, added up as the tables have them.
    pub(crate) fn mask(&self) -> i16 {
        let open = State::Ready.bit() | State::Running.bit();
        i16::from(match (self.states, self.within) {
            (0, _) if self.on_conflict.replaces() || self.on_conflict.reschedules() => State::Ready.bit(),
            (0, None) => open,
            (0, Some(_)) => open | State::Completed.bit(),
            (given, _) => given,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_states_follow_from_what_else_is_asked_for() {
        let hour = Duration::from_secs(3600);
        let all = [
            State::Ready,
            State::Running,
            State::Completed,
            State::Discarded,
            State::Cancelled,
        ];
        assert_eq!(Unique::new().mask(), 3);
        assert_eq!(Unique::new().within(hour).mask(), 7);
        assert_eq!(Unique::new().on_conflict(OnConflict::Reject).mask(), 3);
        for action in [
            OnConflict::Replace,
            OnConflict::Reschedule,
            OnConflict::ReplaceAndReschedule,
        ] {
            assert_eq!(Unique::new().on_conflict(action).within(hour).mask(), 1);
            assert_eq!(Unique::new().on_conflict(action).states(&[State::Running]).mask(), 3);
        }
        assert_eq!(Unique::new().states(&all).mask(), 31);
        assert_eq!(Unique::new().states(&[]).mask(), 1);
    }
}
