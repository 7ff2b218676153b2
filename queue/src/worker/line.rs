//! Claimed jobs on their way from the claimer to the worker threads.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded, unbounded};

use super::executor::Claimed;

/// What the worker threads see. Its sender is the claimer's, so that the line ends with the claimer.
pub(crate) struct Line<J = Claimed> {
    jobs: Receiver<J>,
    /// Jobs that threads have asked for since the start, and jobs put in for them: the first may be ahead, by the threads
    /// that wait. Nothing is counted when a job changes hands, so there is no moment at which it is counted twice.
    asked: AtomicU64,
    put: AtomicU64,
    /// Jobs taken since the start.
    taken: AtomicU64,
    /// With fewer jobs in line the claimer is told.
    low: AtomicUsize,
    tell: Sender<()>,
}

/// The claimer's end of the line.
pub(crate) struct Entry<J = Claimed> {
    jobs: Sender<J>,
    /// Received from when the claimer should look at the line.
    pub(crate) wanted: Receiver<()>,
}

impl<J> Line<J> {
    pub(crate) fn new() -> (Self, Entry<J>) {
        let (entry, jobs) = unbounded();
        let (tell, wanted) = bounded(1);
        let line = Self {
            jobs,
            asked: AtomicU64::new(0),
            put: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            low: AtomicUsize::new(0),
            tell,
        };
        (line, Entry { jobs: entry, wanted })
    }

    /// The next job, waited for; `None` once the claimer is gone and the line empty.
    pub(crate) fn next(&self) -> Option<J> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let job = match self.jobs.try_recv() {
            Ok(job) => Some(job),
            Err(TryRecvError::Disconnected) => None,
            Err(TryRecvError::Empty) => {
                self.tell();
                self.jobs.recv().ok()
            }
        };
        self.taken.fetch_add(1, Ordering::Relaxed);
        if self.jobs.len() < self.low.load(Ordering::Relaxed) {
            self.tell();
        }
        job
    }

    /// Puts a job in, at the end.
    pub(crate) fn put(&self, entry: &Entry<J>, job: J) {
        self.put.fetch_add(1, Ordering::SeqCst);
        let _ = entry.jobs.send(job);
    }

    /// Takes a job out again that no thread has taken.
    pub(crate) fn take_back(&self) -> Option<J> {
        let job = self.jobs.try_recv().ok()?;
        self.put.fetch_sub(1, Ordering::SeqCst);
        Some(job)
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
        let asked = self.asked.load(Ordering::SeqCst);
        let idle = asked.saturating_sub(self.put.load(Ordering::SeqCst));
        usize::try_from(idle).unwrap_or(usize::MAX)
    }

    /// Jobs taken since the start: how far the threads have come.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait_for_idle<J>(line: &Line<J>, threads: usize) {
        while line.idle() < threads {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_thread_is_idle_no_more_from_the_moment_its_job_was_put_in() {
        let (line, entry) = Line::new();
        let (done, ended) = bounded::<()>(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while line.next().is_some() {
                    let _ = ended.recv();
                }
            });
            let mut counted_twice = 0;
            for job in 0..20_000 {
                wait_for_idle(&line, 1);
                line.put(&entry, job);
                counted_twice += (0..50).map(|_| line.idle()).sum::<usize>();
                let _ = done.send(());
            }
            drop((entry, done));
            assert_eq!(
                counted_twice, 0,
                "it was at a job, and one more would be claimed for it"
            );
        });
    }

    #[test]
    fn what_was_taken_back_and_threads_that_do_not_come_again_leave_nothing_in_the_counts() {
        let (line, entry) = Line::new();
        line.put(&entry, 1);
        line.put(&entry, 2);
        // Its thread is replaced then.
        assert_eq!(line.next(), Some(1));
        assert_eq!((line.idle(), line.len(), line.taken()), (0, 1, 1));
        assert_eq!((line.take_back(), line.take_back()), (Some(2), None));
        assert_eq!((line.idle(), line.len(), line.taken()), (0, 0, 1));
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..64).map(|_| scope.spawn(|| line.next())).collect();
            wait_for_idle(&line, 64);
            (0..600).for_each(|job| line.put(&entry, job));
            assert_eq!(line.idle(), 0);
            assert!(
                threads
                    .into_iter()
                    .all(|thread| thread.join().is_ok_and(|job| job.is_some()))
            );
        });
        assert_eq!((line.idle(), line.len()), (0, 536));
    }
}
