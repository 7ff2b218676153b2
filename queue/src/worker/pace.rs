//! How many jobs are claimed ahead of the worker threads: as many as they get through in a moment.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Jobs in one claim, and in one statement of the settler.
pub(crate) const BATCH: usize = 500;
/// One claim in line and one on its way.
const MOST_AHEAD: usize = 2 * BATCH;
/// The moment is so many claims long, so that the next jobs have come before the threads run out of these; but a job that
/// another process could begin at once does not lie here for long.
const CLAIMS: u64 = 4;
const LEAST: Duration = Duration::from_millis(10);
const MOST: Duration = Duration::from_millis(100);
/// One job moves the mean by this part of the difference.
const WEIGHT: u64 = 8;

pub(crate) struct Pace {
    threads: u64,
    /// Always so many ahead, whatever jobs take.
    fixed: Option<usize>,
    /// What a job takes on its thread and a claim on its way: means of the last ones, nanoseconds; 0: none yet.
    job: AtomicU64,
    claim: AtomicU64,
}

impl Pace {
    pub(crate) fn new(threads: usize, fixed: Option<usize>) -> Self {
        Self {
            threads: u64::try_from(threads).unwrap_or(u64::MAX),
            fixed,
            job: AtomicU64::new(0),
            claim: AtomicU64::new(0),
        }
    }

    /// A handler took so long, its commit included.
    pub(crate) fn ran(&self, took: Duration) {
        note(&self.job, took);
    }

    /// A claim took so long.
    pub(crate) fn claimed(&self, took: Duration) {
        note(&self.claim, took);
    }

    /// Whether what lies in line too long is given back.
    pub(crate) fn is_adaptive(&self) -> bool {
        self.fixed.is_none()
    }

    /// Jobs to have in line for threads that are at work.
    pub(crate) fn ahead(&self) -> usize {
        if let Some(fixed) = self.fixed {
            return fixed;
        }
        let job = self.job.load(Ordering::Relaxed);
        if job == 0 {
            return 0;
        }
        let moment = Duration::from_nanos(self.claim.load(Ordering::Relaxed).saturating_mul(CLAIMS));
        let moment = nanos(moment.clamp(LEAST, MOST));
        let jobs = self.threads.saturating_mul(moment) / job;
        usize::try_from(jobs).unwrap_or(MOST_AHEAD).min(MOST_AHEAD)
    }

    /// With so many in line, or fewer, it is time for the next claim.
    pub(crate) fn low(&self) -> usize {
        match self.fixed {
            Some(fixed) => fixed,
            None => self.ahead() / 2,
        }
    }
}

/// Threads may overwrite each other's: it is a mean.
fn note(mean: &AtomicU64, took: Duration) {
    let took = nanos(took).max(1);
    let next = match mean.load(Ordering::Relaxed) {
        0 => took,
        was => was - was / WEIGHT + took / WEIGHT,
    };
    mean.store(next.max(1), Ordering::Relaxed);
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(job: Duration, claim: Duration) -> Pace {
        let pace = Pace::new(8, None);
        pace.ran(job);
        pace.claimed(claim);
        pace
    }

    #[test]
    fn nothing_is_claimed_ahead_before_a_job_has_run() {
        assert_eq!(Pace::new(8, None).ahead(), 0);
    }

    #[test]
    fn as_many_jobs_are_ahead_as_the_threads_get_through_in_a_moment() {
        assert_eq!(pace(Duration::from_millis(2), Duration::from_millis(5)).ahead(), 80);
        assert_eq!(pace(Duration::from_secs(1), Duration::from_millis(5)).ahead(), 0);
        assert_eq!(
            pace(Duration::from_micros(1), Duration::from_millis(1)).ahead(),
            MOST_AHEAD
        );
    }

    #[test]
    fn a_slow_server_lets_no_more_than_a_tenth_of_a_second_be_claimed_ahead() {
        assert_eq!(pace(Duration::from_millis(100), Duration::from_secs(60)).ahead(), 8);
    }

    #[test]
    fn jobs_that_become_slow_are_not_claimed_ahead_for_long() {
        let pace = pace(Duration::from_micros(10), Duration::from_millis(1));
        (0..8).for_each(|_| pace.ran(Duration::from_secs(10)));
        assert_eq!(pace.ahead(), 0);
    }

    #[test]
    fn no_time_and_all_of_time_are_times() {
        let pace = pace(Duration::ZERO, Duration::MAX);
        assert_eq!(pace.ahead(), MOST_AHEAD);
        pace.ran(Duration::MAX);
        assert_eq!(pace.ahead(), 0);
    }
}
