//! What happens to events of the outbox.

use std::fmt;
use std::time::Duration;

use uuid::Uuid;

use super::{Reporter, count};
use crate::metrics;

/// An event of the outbox as hooks see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventInfo<'a> {
    /// Its id.
    pub event_id: Uuid,
    /// Its topic.
    pub topic: &'a str,
    /// Its key.
    pub key: Option<&'a str>,
    /// The attempt, the first being 1.
    pub attempt: u32,
    /// The generation of the lease.
    pub generation: i64,
}

impl fmt::Display for EventInfo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the key, which may name a person.
        let Self {
            event_id,
            topic,
            attempt,
            generation,
            ..
        } = self;
        write!(
            f,
            "event={event_id} topic={topic:?} attempt={attempt} generation={generation}"
        )
    }
}

impl Reporter {
    pub(crate) fn delivered(&self, event: &EventInfo<'_>) {
        log::debug!("delivered {event}");
        metrics::count_event("leasehold_delivered_total", event.topic);
        count(&self.delivered);
        self.hook(|hooks| hooks.delivered(event));
    }

    pub(crate) fn delivery_failed(&self, event: &EventInfo<'_>, error: &str, after: Duration) {
        log::warn!("delivery failed {event} after={after:?}: {error}");
        metrics::count_event("leasehold_delivery_failed_total", event.topic);
        count(&self.delivery_failed);
        self.hook(|hooks| hooks.delivery_failed(event, error, after));
    }

    pub(crate) fn dead(&self, event: &EventInfo<'_>, error: &str) {
        log::error!("dead {event}: {error}");
        metrics::count_event("leasehold_dead_total", event.topic);
        count(&self.dead);
        self.hook(|hooks| hooks.dead(event, error));
    }
}
