//! A load that is kept up: as much is enqueued as is worked off.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use leasehold::{EnqueueOptions, Hooks, Job, JobInfo, Running};

use super::jobs::{Noop, worker};
use crate::samples::Samples;
use crate::statements::{self, Which};
use crate::{Answer, Bench};

/// Jobs in one enqueue, whatever lies there already.
const BULK: usize = 500;

/// What an interval saw.
#[derive(Debug, Clone, Default)]
pub(super) struct Figures {
    pub(super) jobs: u64,
    pub(super) seconds: f64,
    /// The claims that were made, each in one statement.
    pub(super) claims: Samples,
    pub(super) finishes: Samples,
}

impl Figures {
    #[expect(clippy::cast_precision_loss, reason = "a count of jobs")]
    pub(super) fn rate(&self) -> f64 {
        self.jobs as f64 / self.seconds
    }

    /// Jobs in a claim that took any; of those that took none there are few under load.
    #[expect(clippy::cast_precision_loss, reason = "counts")]
    pub(super) fn batch(&self) -> f64 {
        self.jobs as f64 / self.claims.len().max(1) as f64
    }
}

/// Who works off.
pub(super) trait Team {
    /// Jobs completed so far.
    fn done(&self) -> Arc<AtomicU64>;

    /// The claims and completions since the last call.
    fn statements(&mut self) -> (Samples, Samples);
}

/// Keeps so many jobs ready, on a connection of its own, until it is dropped.
pub(super) struct Feeder {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Answer>>,
}

impl Feeder {
    /// `there`: how many are ready now.
    pub(super) fn start<C: Bench>(url: &str, there: usize, backlog: usize, done: Arc<AtomicU64>) -> Answer<Self> {
        let mut conn = C::establish(url)?;
        if C::ONE_WRITER {
            conn.batch_execute("PRAGMA busy_timeout = 10000; PRAGMA synchronous = FULL")?;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (jobs, options) = (Noop::many(BULK), EnqueueOptions::new());
            let backlog = u64::try_from(backlog)?;
            let mut enqueued = u64::try_from(there)?;
            while !stopped.load(Ordering::Relaxed) {
                if enqueued < done.load(Ordering::Relaxed) + backlog {
                    Noop::enqueue_all(&jobs, &mut conn, &options)?;
                    enqueued += u64::try_from(BULK)?;
                } else {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            Ok(())
        });
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Feeder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && let Ok(Err(error)) = thread.join()
        {
            log::error!("nothing was enqueued any more: {error}");
        }
    }
}

/// Lets a team work for so long.
pub(super) fn measure(team: &mut impl Team, time: Duration) -> Figures {
    let done = team.done();
    team.statements();
    let (began, before) = (Instant::now(), done.load(Ordering::Relaxed));
    std::thread::sleep(time);
    let jobs = done.load(Ordering::Relaxed) - before;
    let seconds = began.elapsed().as_secs_f64();
    let (claims, finishes) = team.statements();
    Figures {
        jobs,
        seconds,
        claims,
        finishes,
    }
}

/// The library's worker.
pub(super) struct Library<C: Bench> {
    /// Until it is shut down.
    running: Option<Running<C, ()>>,
    done: Arc<AtomicU64>,
}

struct Count(Arc<AtomicU64>);

impl Hooks for Count {
    fn completed(&self, _: &JobInfo<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl<C: Bench> Library<C> {
    pub(super) fn start(url: &str, threads: usize) -> Answer<Self> {
        let done = Arc::new(AtomicU64::new(0));
        let running = worker::<C>(url, threads).hooks(Count(Arc::clone(&done))).start()?;
        Ok(Self {
            running: Some(running),
            done,
        })
    }
}

impl<C: Bench> Drop for Library<C> {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.shutdown(Duration::from_secs(10));
        }
    }
}

impl<C: Bench> Team for Library<C> {
    fn done(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.done)
    }

    fn statements(&mut self) -> (Samples, Samples) {
        let ran = statements::take();
        let of = |which| {
            let mine = ran.iter().filter(|ran| ran.which == which);
            mine.map(|ran| Duration::from_nanos(ran.ended.saturating_sub(ran.began)))
                .collect()
        };
        (of(Which::Claim), of(Which::Finish))
    }
}
