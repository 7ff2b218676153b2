//! When a lease ends and when its next heartbeat is due, by this process's monotonic clock.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Counted from when the last accepted claim or heartbeat was *sent*, so that the local end is never later than the
/// database's.
#[derive(Debug)]
pub(crate) struct LeaseClock {
    lease_ms: AtomicU64,
    /// Milliseconds on [`clock_ms`].
    expires_at: AtomicU64,
    beaten_at: AtomicU64,
}

/// Milliseconds on the monotonic clock, from a fixed point in this process.
fn clock_ms(at: Instant) -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let start = START.get_or_init(|| Instant::now() - Duration::from_secs(1));
    millis(at.saturating_duration_since(*start))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl LeaseClock {
    pub(crate) fn new(lease: Duration, sent: Instant) -> Self {
        let clock = Self {
            lease_ms: AtomicU64::new(0),
            expires_at: AtomicU64::new(0),
            beaten_at: AtomicU64::new(0),
        };
        clock.renewed(lease, sent);
        clock
    }

    /// The length of the lease as last claimed or renewed.
    pub(crate) fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms.load(Ordering::Acquire))
    }

    /// The lease runs anew from when the accepted heartbeat was *sent*.
    pub(crate) fn renewed(&self, lease: Duration, sent: Instant) {
        let sent = clock_ms(sent);
        self.lease_ms.store(millis(lease), Ordering::Release);
        self.beaten_at.store(sent, Ordering::Release);
        self.expires_at
            .store(sent.saturating_add(millis(lease)), Ordering::Release);
    }

    /// A heartbeat was sent that neither renewed the lease nor lost it: the next one comes earlier, but not at once.
    pub(crate) fn asked(&self, sent: Instant) {
        let sixth = self.lease_ms.load(Ordering::Acquire) / 6;
        self.beaten_at
            .fetch_max(clock_ms(sent).saturating_sub(sixth), Ordering::AcqRel);
    }

    /// When the next heartbeat is due: a third of the lease after the last.
    pub(crate) fn beat_due_in(&self, now: Instant) -> Duration {
        let third = self.lease_ms.load(Ordering::Acquire) / 3;
        let due = self.beaten_at.load(Ordering::Acquire).saturating_add(third);
        Duration::from_millis(due.saturating_sub(clock_ms(now)))
    }

    pub(crate) fn remaining(&self, now: Instant) -> Duration {
        Duration::from_millis(self.expires_at.load(Ordering::Acquire).saturating_sub(clock_ms(now)))
    }
}
