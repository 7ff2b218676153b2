//! How a lease and the thread of its handler stand, as several threads note it.

use super::fence::Refusal;
use crate::sync::{AtomicU8, OnceLock, Ordering};

/// The handler has returned.
const RETURNED: u8 = 1;
/// The handler ran past its timeout before it returned.
const TIMED_OUT: u8 = 2;
/// Another thread has the place of the one whose handler is stuck.
const REPLACED: u8 = 4;

const HOLDS: u8 = 0;
const LOST: u8 = 1;
const COMMITTED: u8 = 2;

#[derive(Debug)]
pub(crate) struct Standing {
    lease: AtomicU8,
    refusal: OnceLock<Refusal>,
    /// Bits: how the handler and its thread stand.
    place: AtomicU8,
}

impl Standing {
    pub(crate) fn new() -> Self {
        Self {
            lease: AtomicU8::new(HOLDS),
            refusal: OnceLock::new(),
            place: AtomicU8::new(0),
        }
    }

    /// Whether the handler has neither returned nor been timed out.
    pub(crate) fn is_in_time(&self) -> bool {
        self.place.load(Ordering::Acquire) == 0
    }

    /// Notes that the handler ran past its timeout; false when it has returned, or was timed out before.
    pub(crate) fn time_out(&self) -> bool {
        let timed_out = |place| (place == 0).then_some(TIMED_OUT);
        self.place
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, timed_out)
            .is_ok()
    }

    pub(crate) fn is_timed_out(&self) -> bool {
        self.place.load(Ordering::Acquire) & TIMED_OUT != 0
    }

    /// Gives the place of a timed-out handler's thread away; false when the handler has returned.
    pub(crate) fn replace(&self) -> bool {
        let replaced = |place| (place == TIMED_OUT).then_some(TIMED_OUT | REPLACED);
        self.place
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, replaced)
            .is_ok()
    }

    pub(crate) fn is_replaced(&self) -> bool {
        self.place.load(Ordering::Acquire) & REPLACED != 0
    }

    /// The handler has returned: from now on it neither times out nor is its thread replaced.
    pub(crate) fn mark_returned(&self) {
        self.place.fetch_or(RETURNED, Ordering::AcqRel);
    }

    /// Notes why the lease is lost; whether that is news. A committed lease stays committed: a late answer must not turn
    /// it into a lost one.
    pub(crate) fn mark_lost(&self, refusal: Refusal) -> bool {
        let _ = self.refusal.set(refusal);
        self.lease
            .compare_exchange(HOLDS, LOST, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// The database's word, so it overrides what was assumed.
    pub(crate) fn mark_committed(&self) {
        // Not a plain store: loom lets a `compare_exchange` overlook one, which the language does not.
        self.lease.swap(COMMITTED, Ordering::AcqRel);
    }

    pub(crate) fn is_committed(&self) -> bool {
        self.lease.load(Ordering::Acquire) == COMMITTED
    }

    /// Why the lease is not to be trusted any more, if it is not.
    pub(crate) fn lost(&self, has_run_out: impl FnOnce() -> bool) -> Option<Refusal> {
        match self.lease.load(Ordering::Acquire) {
            LOST => self.refusal.get().cloned(),
            HOLDS if has_run_out() => Some(Refusal::Expired),
            _ => None,
        }
    }
}
