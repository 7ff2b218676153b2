//! The leases that this process holds.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::lease::{Fence, Held};
use crate::sync::{Condvar, Mutex, MutexGuard};

/// Every lease between its claim and its settlement. What is in here is renewed.
#[derive(Debug)]
pub(crate) struct Leases {
    held: Mutex<HashMap<Fence, Arc<Held>>>,
    /// When the heartbeat looks next by itself; `None` while it is looking.
    look_at: Mutex<Option<Instant>>,
    fewer: Condvar,
    poke: Sender<()>,
    poked: Receiver<()>,
}

impl Leases {
    pub(crate) fn new() -> Self {
        let (poke, poked) = bounded(1);
        Self {
            held: Mutex::new(HashMap::new()),
            look_at: Mutex::new(None),
            fewer: Condvar::new(),
            poke,
            poked,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Fence, Arc<Held>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, held: &Arc<Held>) {
        self.lock().insert(held.fence, Arc::clone(held));
        let now = Instant::now();
        self.look_by(now.checked_add(held.beat_due_in(now)));
    }

    /// Removes a settled lease; whether it was the last.
    pub(crate) fn remove(&self, fence: &Fence) -> bool {
        let mut held = self.lock();
        held.remove(fence);
        self.fewer.notify_all();
        held.is_empty()
    }

    pub(crate) fn contains(&self, fence: &Fence) -> bool {
        self.lock().contains_key(fence)
    }

    pub(crate) fn all(&self) -> Vec<Arc<Held>> {
        self.lock().values().map(Arc::clone).collect()
    }

    /// How many are of this queue.
    pub(crate) fn held_in(&self, queue: &str) -> usize {
        self.lock().values().filter(|held| held.queue == queue).count()
    }

    /// Makes the heartbeat look at what is due next by then at the latest.
    pub(crate) fn look_by(&self, at: Option<Instant>) {
        let planned = *self.look_at.lock().unwrap_or_else(PoisonError::into_inner);
        if planned.is_none_or(|planned| at.is_some_and(|at| at < planned)) {
            let _ = self.poke.try_send(());
        }
    }

    /// The heartbeat looks next at this time, unless it is poked; with `None` it looks now.
    pub(crate) fn looks_at(&self, at: Option<Instant>) {
        *self.look_at.lock().unwrap_or_else(PoisonError::into_inner) = at;
    }

    /// Received from when the leases changed.
    pub(crate) fn poked(&self) -> &Receiver<()> {
        &self.poked
    }

    /// Waits until no lease is left, until `deadline`, or until `give_up` says so; whether none is left.
    pub(crate) fn wait_until_none(&self, deadline: Option<Instant>, give_up: impl Fn() -> bool) -> bool {
        let mut held = self.lock();
        while !held.is_empty() {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) || give_up() {
                return false;
            }
            // In steps, because `give_up` (a second signal) notifies nobody.
            let step = Duration::from_millis(20);
            held = self
                .fewer
                .wait_timeout(held, step)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        true
    }
}
