//! A running worker, and how it stops.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;

use super::control::Failure;
use super::threads::Threads;
use super::{Shared, StartError};
use crate::backend::{Backend, Listening, PutBack};
use crate::events::Counts;
use crate::lease::{Held, Refusal};
#[cfg(feature = "metrics")]
use crate::metrics;

/// How long a heartbeat may hold up the end of a shutdown.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// A worker whose threads run. Dropping it stops the worker as [`Running::shutdown`] with no time to wait does.
///
/// ```
/// # include!("../doctest_setup.rs");
/// use std::time::Duration;
/// use leasehold::Worker;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (url, mut conn) = doctest_database();
/// let running = Worker::<SqliteConnection, _>::new(&url, ()).register::<Greet>().start()?;
/// Greet { name: "you".to_owned() }.enqueue(&mut conn)?;
/// while running.counts().completed < 1 {
///     std::thread::yield_now();
/// }
/// let report = running.shutdown(Duration::from_secs(30));
/// assert_eq!(report.abandoned, 0);
/// # Ok(())
/// # }
/// ```
pub struct Running<C: Backend, A: Send + Sync + 'static> {
    pub(super) shared: Arc<Shared<C, A>>,
    /// `None` once it was shut down.
    threads: Option<Threads>,
    pub(super) at_once: Arc<AtomicBool>,
}

/// How a shutdown went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Jobs that this process completed while it shut down.
    pub completed: u64,
    /// Claimed jobs that were given back before a handler began, their attempt with them.
    pub released: u64,
    /// Handlers that still ran at the deadline: their jobs were put back without using up an attempt, and their commits
    /// are refused from then on.
    pub abandoned: u64,
}

impl<C: Backend, A: Send + Sync + 'static> Running<C, A> {
    pub(super) fn start(
        shared: Arc<Shared<C, A>>,
        wanted: Receiver<()>,
        wakes: Receiver<()>,
    ) -> Result<Self, StartError> {
        #[cfg(feature = "metrics")]
        metrics::begin(
            shared
                .serves
                .iter()
                .map(|served| (served.queue.as_str(), served.kind.as_str())),
            shared.relays.iter().map(|topic| topic.name.as_str()),
        );
        let threads = Threads::start(&shared, wanted, wakes).inspect_err(|_| {
            shared.stop.stop();
            shared.choosing.settle_no_more();
        })?;
        Ok(Self {
            shared,
            threads: Some(threads),
            at_once: Arc::default(),
        })
    }

    /// What happened to jobs in this process so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.shared.reporter.counts()
    }

    /// How many leases this process holds at the moment.
    #[must_use]
    pub fn leases_held(&self) -> usize {
        self.shared.leases.all().len()
    }

    /// How many handlers run on after their timeout, each on a thread that another one replaced.
    #[must_use]
    pub fn stuck_handlers(&self) -> usize {
        self.shared.stuck.load(Ordering::Acquire)
    }

    /// Stops: claims nothing more, gives back what no handler has begun, and waits for the running handlers, whose leases
    /// are renewed meanwhile. What still runs after `patience` is fenced and put back without using up an attempt.
    pub fn shutdown(mut self, patience: Duration) -> ShutdownReport {
        self.stop(patience)
    }

    pub(super) fn stop(&mut self, patience: Duration) -> ShutdownReport {
        let Some(threads) = self.threads.take() else {
            return ShutdownReport::default();
        };
        let shared = &self.shared;
        let before = shared.reporter.counts();
        shared.stop.stop();
        log::info!("stopping worker={}: nothing more is claimed", shared.worker.id);
        shared.wake();
        super::relay::release(shared, &threads.relays);
        let deadline = Instant::now().checked_add(patience);
        // It may wait for a database that is away; what it claims after this wait is left to the lease.
        join_until(
            threads.claimer,
            deadline.map(|deadline| deadline.max(Instant::now() + LAST_WORDS)),
            || self.at_once.load(Ordering::Acquire),
        );
        let mut done = false;
        while !done {
            self.release();
            let step = Instant::now() + Duration::from_millis(100);
            let until = deadline.map_or(step, |deadline| deadline.min(step));
            // A thread without a lease may be about to get one: its claim is under way.
            done = shared
                .leases
                .wait_until_none(Some(until), || self.at_once.load(Ordering::Acquire))
                && self.is_quiet();
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) || self.at_once.load(Ordering::Acquire) {
                break;
            }
        }
        let abandoned = if done { 0 } else { self.abandon() };
        shared.choosing.settle_no_more();
        super::relay::stop(threads.relays, deadline, &self.at_once);
        // The heartbeat ends last: before it, peers could take over what still runs here.
        drop(threads.heartbeat_stop);
        join_within(threads.heartbeat, LAST_WORDS);
        join_within(threads.maintenance, LAST_WORDS);
        if abandoned == 0 && self.stuck_handlers() == 0 {
            // Its channel closes once the worker threads are gone; a stuck one never goes, and nothing is left to settle.
            join_within(threads.settler, LAST_WORDS);
        }
        join_within(threads.checker, LAST_WORDS);
        super::checker::follow_last(shared);
        super::selected::resolve(shared);
        if let Some(Listening { thread, stop }) = threads.listener {
            drop(stop);
            join_within(thread, LAST_WORDS);
        }
        let _ = shared
            .beats
            .lock()
            .run(|conn| conn.hide_worker(&shared.schema, shared.worker.id));
        let after = shared.reporter.counts();
        let report = ShutdownReport {
            completed: after.completed - before.completed,
            released: after.released - before.released,
            abandoned,
        };
        log::info!(
            "stopped worker={}: {} more completed, {} released, {} abandoned",
            shared.worker.id,
            report.completed,
            report.released,
            report.abandoned
        );
        report
    }

    /// Whether every worker thread has ended, but for those stuck in a handler that is fenced already.
    fn is_quiet(&self) -> bool {
        let quiet =
            self.shared.alive.load(Ordering::Acquire) <= self.stuck_handlers() && self.shared.choosing.is_quiet();
        if !quiet {
            std::thread::sleep(Duration::from_millis(1));
        }
        quiet
    }

    /// Gives back what was claimed and not begun.
    fn release(&self) {
        let shared = &self.shared;
        let mut unbegun: Vec<Arc<Held>> = std::mem::take(&mut *shared.unbegun.lock());
        unbegun.extend(shared.choosing.take_unbegun());
        if unbegun.is_empty() {
            return;
        }
        let mut fences: Vec<_> = unbegun.iter().map(|held| held.fence).collect();
        fences.sort_unstable();
        let released = shared.beats.lock().run(|conn| conn.release(&shared.schema, &fences));
        match released {
            Ok(released) => {
                for held in &unbegun {
                    if released.contains(&held.fence.id) {
                        shared.reporter.released(&held.info());
                    }
                    shared.settled(held);
                }
            }
            // Tried again in the next round; past the deadline their leases run out.
            Err(_) => shared.unbegun.lock().extend(unbegun),
        }
    }

    /// Fences what still runs and puts it back.
    fn abandon(&self) -> u64 {
        let shared = &self.shared;
        let how = PutBack {
            delay_ms: 0,
            uses_attempt: false,
            takes_away: true,
            error: None,
        };
        let (mut abandoned, mut away) = (0, 0);
        for held in shared.leases.all() {
            if away > 1 {
                // Each try may wait for a connection for seconds. The heartbeat ends in any case, and the leases after it.
                shared.settled(&held);
                continue;
            }
            // One that commits at this moment wins: its row is locked or gone, and ours is refused.
            let put_back = shared
                .beats
                .lock()
                .run(|conn| conn.put_back(&shared.schema, &held.fence, &how));
            away = if matches!(put_back, Err(Failure::Away)) {
                away + 1
            } else {
                0
            };
            if matches!(put_back, Ok(1)) {
                held.mark_lost(Refusal::Lost {
                    generation: held.fence.generation + 1,
                });
                abandoned += 1;
                log::warn!("abandoned {}: its handler still ran at the deadline", held.info());
            }
            shared.settled(&held);
        }
        abandoned
    }
}

/// Joins a thread, unless it takes too long: it may wait for a database that is away.
fn join_within(thread: JoinHandle<()>, limit: Duration) {
    join_until(thread, Some(Instant::now() + limit), || false);
}

pub(super) fn join_until(thread: JoinHandle<()>, deadline: Option<Instant>, give_up: impl Fn() -> bool) {
    while !thread.is_finished() && deadline.is_none_or(|deadline| Instant::now() < deadline) && !give_up() {
        std::thread::sleep(Duration::from_millis(2));
    }
    if thread.is_finished() {
        let _ = thread.join();
    }
}

impl<C: Backend, A: Send + Sync + 'static> Drop for Running<C, A> {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
    }
}

impl<C: Backend, A: Send + Sync + 'static> fmt::Debug for Running<C, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("shared", &self.shared)
            .finish_non_exhaustive()
    }
}
