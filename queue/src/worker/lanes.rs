//! What a worker claims together: the queues with a number of threads of their own each by itself, the others at once.

use super::Worker;
use super::cap::Cap;
use super::leases::Leases;
use crate::backend::{Backend, Served};

impl<C: Backend, A: Send + Sync + 'static> Worker<C, A> {
    /// Lets no more than so many of the worker's threads run jobs of this queue at the same time; at least one. The other
    /// threads are always left to the other queues, and no more of such a queue are claimed. Each queue
    /// with a number of its own is claimed by itself, and which is claimed first goes round, so that none is always
    /// last.
    ///
    /// ```
    /// # include!("../doctest_setup.rs");
    /// use leasehold::{EnqueueOptions, Worker};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (url, mut conn) = doctest_database();
    /// let to_mail = EnqueueOptions::new().queue("mail");
    /// Greet { name: "you".to_owned() }.enqueue_with(&mut conn, &to_mail)?;
    /// let worker = Worker::<SqliteConnection, _>::new(url, ()).threads(8).queues(["default", "mail"]);
    /// let summary = worker.queue_threads("mail", 2).register::<Greet>().run_until_empty()?;
    /// assert_eq!(summary.counts.completed, 1);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn queue_threads(mut self, queue: impl Into<String>, threads: usize) -> Self {
        let queue = queue.into();
        self.queue_threads.retain(|(other, _)| *other != queue);
        self.queue_threads.push((queue, threads.max(1)));
        self
    }
}

/// What one claim looks up.
pub(crate) struct Lane {
    pub(super) serves: Vec<Served>,
    cap: Option<Cap>,
}

impl Lane {
    /// One for each queue in `caps`, and one for the rest.
    pub(super) fn of(serves: &[Served], caps: &[(String, usize)]) -> Vec<Self> {
        let capped = caps.iter().map(|(queue, threads)| Self {
            serves: serves.iter().filter(|served| served.queue == *queue).cloned().collect(),
            cap: Some(Cap::new(queue, *threads)),
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
        match &self.cap {
            Some(cap) => cap.claim(leases, wanted, claim),
            None => claim(wanted),
        }
    }
}
