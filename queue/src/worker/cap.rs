//! A queue of which only so many threads run jobs.

use super::Locked;
use super::leases::Leases;

pub(crate) struct Cap {
    pub(crate) queue: String,
    threads: usize,
    /// Held from the count of what runs to the end of the claim: threads that claim for themselves must not count the
    /// same room twice.
    claiming: Locked<()>,
}

impl Cap {
    pub(crate) fn new(queue: &str, threads: usize) -> Self {
        Self {
            queue: queue.to_owned(),
            threads,
            claiming: Locked::new(()),
        }
    }

    /// Claims with as much room as there is, `wanted` at the most. What is claimed is among the leases when `claim`
    /// returns.
    pub(crate) fn claim<T>(&self, leases: &Leases, wanted: usize, claim: impl FnOnce(usize) -> T) -> T {
        let _claiming = self.claiming.lock();
        let room = self.threads.saturating_sub(leases.held_in(&self.queue));
        claim(room.min(wanted))
    }
}
