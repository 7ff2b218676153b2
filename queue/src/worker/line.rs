//! Claimed jobs on their way from the claimer to the worker threads.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crossbeam_channel::{Receiver, Sender, bounded};

use super::executor::Claimed;

/// Threads that wait are woken one after the other, each by the one before it: short jobs are done by the first before the
/// others were awake, and waking all of them for each batch cost more than the jobs.
pub(crate) struct Line<J = Claimed> {
    state: Mutex<State<J>>,
    more: Condvar,
    tell: Sender<()>,
}

struct State<J> {
    jobs: VecDeque<J>,
    /// Threads that wait for a job.
    waiting: usize,
    /// Jobs taken since the start.
    taken: u64,
    /// With fewer jobs in line the claimer is told.
    low: usize,
    closed: bool,
}

/// The claimer's end of the line, which ends with it.
pub(crate) struct Entry<'l, J = Claimed>(pub(crate) &'l Line<J>);

impl<J> Drop for Entry<'_, J> {
    fn drop(&mut self) {
        self.0.state().closed = true;
        self.0.more.notify_all();
    }
}

impl<J> Line<J> {
    /// The line, and what is received from when the claimer should look at it.
    pub(crate) fn new() -> (Self, Receiver<()>) {
        let (tell, wanted) = bounded(1);
        let state = State {
            jobs: VecDeque::new(),
            waiting: 0,
            taken: 0,
            low: 0,
            closed: false,
        };
        let line = Self {
            state: Mutex::new(state),
            more: Condvar::new(),
            tell,
        };
        (line, wanted)
    }

    fn state(&self) -> MutexGuard<'_, State<J>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job, waited for; `None` once the claimer is gone and the line empty.
    pub(crate) fn next(&self) -> Option<J> {
        let mut state = self.state();
        if state.jobs.is_empty() && !state.closed {
            state.waiting += 1;
            self.tell();
            while state.jobs.is_empty() && !state.closed {
                state = self.more.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.waiting -= 1;
        }
        let job = state.jobs.pop_front()?;
        state.taken += 1;
        let wakes = state.waiting > 0 && !state.jobs.is_empty();
        let low = state.jobs.len() < state.low;
        drop(state);
        if wakes {
            self.more.notify_one();
        }
        if low {
            self.tell();
        }
        Some(job)
    }

    /// Puts jobs in, at the end.
    pub(crate) fn put(&self, jobs: impl IntoIterator<Item = J>) {
        self.state().jobs.extend(jobs);
        self.more.notify_one();
    }

    /// Takes a job out again that no thread has taken.
    pub(crate) fn take_back(&self) -> Option<J> {
        self.state().jobs.pop_front()
    }

    /// Makes the claimer look at the line.
    pub(crate) fn tell(&self) {
        let _ = self.tell.try_send(());
    }

    pub(crate) fn tell_below(&self, low: usize) {
        self.state().low = low;
    }

    pub(crate) fn len(&self) -> usize {
        self.state().jobs.len()
    }

    /// Threads for which there is no job in line.
    pub(crate) fn idle(&self) -> usize {
        let state = self.state();
        state.waiting.saturating_sub(state.jobs.len())
    }

    /// Jobs taken since the start: how far the threads have come.
    pub(crate) fn taken(&self) -> u64 {
        self.state().taken
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
        let (line, _wanted) = Line::new();
        let entry = Entry(&line);
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
                line.put([job]);
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
        let (line, _wanted) = Line::new();
        let _entry = Entry(&line);
        line.put([1]);
        line.put([2]);
        // Its thread is replaced then.
        assert_eq!(line.next(), Some(1));
        assert_eq!((line.idle(), line.len(), line.taken()), (0, 1, 1));
        assert_eq!((line.take_back(), line.take_back()), (Some(2), None));
        assert_eq!((line.idle(), line.len(), line.taken()), (0, 0, 1));
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..64).map(|_| scope.spawn(|| line.next())).collect();
            wait_for_idle(&line, 64);
            line.put(0..600);
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
