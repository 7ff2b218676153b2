//! Which jobs are meant.

use std::time::Duration;

use super::State;
use crate::backend::Matching;
use crate::settle::millis;

/// Which jobs are meant. Every condition that is set must hold.
///
/// ```
/// use std::time::Duration;
/// use leasehold::inspect::{Filter, State};
///
/// let failed_mails = Filter::new().state(State::Discarded).queue("mail").error("connection refused");
/// let old = failed_mails.older_than(Duration::from_secs(3600));
/// # let _ = old;
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    state: Option<State>,
    matching: Matching,
}

impl Filter {
    /// All jobs.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// In this state.
    #[must_use]
    pub fn state(mut self, state: State) -> Self {
        self.state = Some(state);
        self.matching.state = Some(state.as_str());
        self
    }

    /// Of this kind.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.matching.kind = Some(kind.into());
        self
    }

    /// Of this queue.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.matching.queue = Some(queue.into());
        self
    }

    /// Of this batch.
    #[must_use]
    pub fn batch(mut self, id: i64) -> Self {
        self.matching.batch_id = Some(id);
        self
    }

    /// Ended at least so long ago; enqueued at least so long ago if they have not ended.
    #[must_use]
    pub fn older_than(mut self, age: Duration) -> Self {
        self.matching.older_than_ms = Some(millis(age));
        self
    }

    /// With this text in the reason of their end or in the error of an attempt, letter for letter.
    #[must_use]
    pub fn error(mut self, text: impl Into<String>) -> Self {
        self.matching.error = Some(text.into());
        self
    }

    pub(crate) fn chosen_state(&self) -> Option<State> {
        self.state
    }

    pub(crate) fn conditions(&self) -> &Matching {
        &self.matching
    }

    pub(crate) fn matching(self) -> Matching {
        self.matching
    }
}
