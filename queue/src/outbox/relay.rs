//! How a topic's events are delivered.

use std::fmt;
use std::time::Duration;

use super::Deliver;
use crate::job::Backoff;

/// How a topic's events are delivered; see [`Worker::relay_with`](crate::Worker::relay_with).
///
/// ```
/// use std::time::Duration;
/// use leasehold::Backoff;
/// use leasehold::outbox::{Delivery, Relay};
///
/// let relay = Relay::new(|_: &Delivery<'_>| Ok(()))
///     .backoff(Backoff::exponential(Duration::from_secs(5), Duration::from_secs(600)))
///     .batch(20)
///     .halt_on_dead();
/// # let _ = relay;
/// ```
pub struct Relay {
    pub(crate) deliver: Box<dyn Deliver>,
    pub(crate) backoff: Backoff,
    pub(crate) lease: Duration,
    pub(crate) batch: usize,
    pub(crate) threads: usize,
    pub(crate) halt: bool,
}

impl Relay {
    /// Delivers with one thread, up to 100 events a claim, and tries again after 1 s and then twice as long each time, up
    /// to an hour.
    pub fn new(deliver: impl Deliver) -> Self {
        Self {
            deliver: Box::new(deliver),
            backoff: Backoff::exponential(Duration::from_secs(1), Duration::from_secs(3600)).jitter(20),
            lease: Duration::from_secs(90),
            batch: 100,
            threads: 1,
            halt: false,
        }
    }

    /// How long an event waits after a failed delivery.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// How long claimed events are this relay's, 1 ms to a day; 90 seconds by default. The lease is renewed between two
    /// deliveries, not during one: no delivery begins in its last third, so one that takes less than a third of it
    /// never runs beside a second one of the same event, or of a later one of its key.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease.clamp(Duration::from_millis(1), Duration::from_secs(24 * 3600));
        self
    }

    /// How many events are claimed at once, 1 to 1,000; 100 by default.
    #[must_use]
    pub fn batch(mut self, events: usize) -> Self {
        self.batch = events.clamp(1, 1000);
        self
    }

    /// How many deliveries of this process run at the same time, each of other keys; one by default.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// Keeps the later events of a key back while it has a dead one, until somebody
    /// [redelivers](crate::outbox::redeliver) or [drops](crate::outbox::drop_dead) that. By default they go on without it.
    /// Every relay of the topic has to say the same.
    #[must_use]
    pub fn halt_on_dead(mut self) -> Self {
        self.halt = true;
        self
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay")
            .field("backoff", &self.backoff)
            .field("lease", &self.lease)
            .field("batch", &self.batch)
            .field("threads", &self.threads)
            .field("halt_on_dead", &self.halt)
            .finish_non_exhaustive()
    }
}
