//! Claimed jobs on their way from the claimer to the worker threads.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded, unbounded};

use super::executor::Claimed;

/// What the worker threads see. Its sender is the claimer's, so that the line ends with the claimer.
pub(crate) struct Line {
    jobs: Receiver<Claimed>,
    /// Threads that wait for a job.
    waiting: AtomicUsize,
    /// Jobs taken since the start.
    taken: AtomicU64,
    /// With fewer jobs in line the claimer is told.
    low: AtomicUsize,
    tell: Sender<()>,
}

/// The claimer's end of the line.
pub(crate) struct Entry {
    pub(crate) jobs: Sender<Claimed>,
    /// Received from when the claimer should look at the line.
    pub(crate) wanted: Receiver<()>,
}

impl Line {
    pub(crate) fn new() -> (Self, Entry) {
        let (entry, jobs) = unbounded();
        let (tell, wanted) = bounded(1);
        let line = Self {
            jobs,
            waiting: AtomicUsize::new(0),
            taken: AtomicU64::new(0),
            low: AtomicUsize::new(0),
            tell,
        };
        (line, Entry { jobs: entry, wanted })
    }

    /// The next job, waited for; `None` once the claimer is gone and the line empty.
    pub(crate) fn next(&self) -> Option<Claimed> {
        let job = match self.jobs.try_recv() {
            Ok(job) => Some(job),
            Err(TryRecvError::Disconnected) => None,
            Err(TryRecvError::Empty) => {
                self.waiting.fetch_add(1, Ordering::SeqCst);
                self.tell();
                let job = self.jobs.recv().ok();
                self.waiting.fetch_sub(1, Ordering::SeqCst);
                job
            }
        };
        self.taken.fetch_add(1, Ordering::Relaxed);
        if self.jobs.len() < self.low.load(Ordering::Relaxed) {
            self.tell();
        }
        job
    }

    /// Takes a job out again that no thread has taken.
    pub(crate) fn take_back(&self) -> Option<Claimed> {
        self.jobs.try_recv().ok()
    }

    /// Makes the claimer look at the line.
    pub(crate) fn tell(&self) {
        let _ = self.tell.try_send(());
    }

    pub(crate) fn tell_below(&self, low: usize) {
        self.low.store(low, Ordering::Relaxed);
    }

    pub(crate) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Threads for which there is no job in line.
    pub(crate) fn idle(&self) -> usize {
        self.waiting.load(Ordering::SeqCst).saturating_sub(self.jobs.len())
    }

    /// Jobs taken since the start: how far the threads have come.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }
}
