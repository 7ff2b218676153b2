//! What a worker claims together: the queues with a number of threads of their own each by itself, the others at once.

use super::Locked;
use super::leases::Leases;
use crate::backend::Served;

/// What one claim looks up.
pub(crate) struct Lane {
    pub(super) serves: Vec<Served>,
    cap: Option<Cap>,
}

/// A queue of which only so many threads run jobs.
struct Cap {
    queue: String,
    threads: usize,
    /// Held from the count of what runs to the end of the claim: threads that claim for themselves must not count the
    /// same room twice.
    claiming: Locked<()>,
}

impl Lane {
    /// One for each queue in `caps`, and one for the rest.
    pub(super) fn of(serves: &[Served], caps: &[(String, usize)]) -> Vec<Self> {
        let capped = caps.iter().map(|(queue, threads)| Self {
            serves: serves.iter().filter(|served| served.queue == *queue).cloned().collect(),
            cap: Some(Cap {
                queue: queue.clone(),
                threads: *threads,
                claiming: Locked::new(()),
            }),
        });
        let is_capped = |served: &&Served| caps.iter().any(|(queue, _)| *queue == served.queue);
        let rest = Self {
            serves: serves.iter().filter(|served| !is_capped(served)).cloned().collect(),
            cap: None,
        };
        let mut lanes: Vec<Self> = capped.collect();
        if !rest.serves.is_empty() {
            lanes.push(rest);
        }
        lanes
    }

    /// Whether jobs of this queue have threads of their own.
    pub(super) fn caps(&self, queue: &str) -> bool {
        self.cap.as_ref().is_some_and(|cap| cap.queue == queue)
    }

    /// Claims with as much room as there is for this lane, `wanted` at the most. What is claimed is among the leases when
    /// `claim` returns.
    pub(super) fn claim<T>(&self, leases: &Leases, wanted: usize, claim: impl FnOnce(usize) -> T) -> T {
        let Some(cap) = &self.cap else { return claim(wanted) };
        let _claiming = cap.claiming.lock();
        let room = cap.threads.saturating_sub(leases.held_in(&cap.queue));
        claim(room.min(wanted))
    }
}
