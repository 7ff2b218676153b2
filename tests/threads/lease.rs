//! The library's standing of a lease.

use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) use leasehold::__private::Fence;
use uuid::Uuid;

#[path = "../../queue/src/lease/standing.rs"]
mod standing;
pub(crate) use standing::Standing;

mod fence {
    pub(crate) use leasehold::Refusal;
}

/// As much of a lease as the registry looks at.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) fence: Fence,
    pub(crate) queue: String,
}

impl Held {
    pub(crate) fn of(id: i64) -> Arc<Self> {
        Arc::new(Self {
            fence: Fence {
                id,
                generation: 1,
                lease_token: Uuid::nil(),
            },
            queue: "mail".to_owned(),
        })
    }

    pub(crate) fn beat_due_in(&self, _: Instant) -> Duration {
        Duration::from_secs(1)
    }
}
