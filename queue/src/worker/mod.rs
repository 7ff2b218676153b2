//! The runtime: threads that claim, run, renew, settle and sweep.
//!
//! | thread | does | connection |
//! | --- | --- | --- |
//! | workers, as many as asked for | run handlers | at most one of the handlers' pool, when first asked for |
//! | claimer | claims for idle workers | its own |
//! | callers that choose jobs, on threads of their own | claim | one for all of them |
//! | settler | writes what becomes of jobs, completions in groups | its own |
//! | heartbeat | renews leases, fences handlers past their timeout | its own, shared with maintenance |
//! | maintenance | sweeps expired leases, fires schedules | shared with the heartbeat |
//! | checker | finishes batches, lets go jobs that waited for others | shared with the heartbeat |
//! | relays, as many as asked for | deliver events of the outbox | shared with the heartbeat, and none during a delivery |
//! | listener (PostgreSQL) | wakes the claimer | its own |
//!
//! [`Worker::unbatched`] does without claimer and settler: there each worker thread has a connection for both.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use diesel::r2d2::{ConnectionManager, Pool};

use crate::backend::{Backend, ConnectionSettings, CountedKind, Served, WorkerRow};
use crate::events::Reporter;
use crate::lease::Held;
use crate::manage::Retention;
use crate::registry::Registry;
use crate::schema::Schema;
use crate::settle::Settlement;

mod admitter;

mod batch;
pub use batch::{Progress, Summary};

mod builder;
mod cap;
pub use builder::{StartError, Worker};

mod checker;
mod claimer;
mod control;
mod cursor;
mod executor;

mod health;
pub(crate) use health::{Doing, during};
pub use health::{Health, HealthLimits, Probe, Problem};

mod heartbeat;

mod idle;
pub use idle::Idle;

mod lanes;
mod leases;
mod line;
#[cfg(feature = "postgres")]
pub(crate) mod listener;
mod maintenance;
mod pace;
#[cfg(feature = "progress")]
mod progress;

mod relay;
mod retention;

mod running;
pub use running::{Running, ShutdownReport};

#[cfg(feature = "signals")]
mod signals;
mod slot;

#[cfg(feature = "schedules")]
mod schedules;
pub mod selected;
mod settler;
mod source;
mod threads;
mod turns;
mod unbatched;

use admitter::Admitter;
use checker::FollowUps;
pub(crate) use control::{Control, masked};
use executor::Ends;
use health::Signs;
use lanes::Lane;
use leases::Leases;
use line::Line;
use pace::Pace;
use relay::Topic;
use selected::Choosing;
use turns::InTurn;

/// What the threads of one worker share.
pub(crate) struct Shared<C: Backend, A> {
    url: String,
    settings: ConnectionSettings,
    schema: Schema,
    worker: WorkerRow,
    registry: Registry<C, A>,
    app: A,
    pool: Pool<ConnectionManager<C>>,
    serves: Vec<Served>,
    /// The same, by what is claimed together.
    lanes: Vec<Lane>,
    /// Kinds whose starts are counted for their rate.
    counted: Vec<CountedKind>,
    admitter: Admitter,
    threads: usize,
    line: Line,
    pace: Pace,
    unbatched: bool,
    poll: Duration,
    sweep_every: Duration,
    retention: Retention,
    relays: Vec<Topic>,
    /// Whether somebody waits for the queue to be empty: then the claimer looks after every settlement.
    batch: bool,
    reporter: Reporter,
    /// What the runtime's threads say of themselves.
    signs: Arc<Signs>,
    leases: Leases,
    follow_ups: FollowUps,
    /// What callers choose themselves.
    choosing: Choosing<C>,
    /// Whether nothing else is claimed than what callers choose.
    selected_only: bool,
    /// Whether a job was put back, which may be behind the place where claims begin.
    behind: AtomicBool,
    /// Claimed jobs that no handler began before the worker stopped.
    unbegun: Locked<Vec<Arc<Held>>>,
    /// The connection of the heartbeat and of maintenance.
    beats: InTurn<Control<C>>,
    /// The connection of relays, opened when there are any: what their tables make them wait for holds up no heartbeat.
    outbox: InTurn<Control<C>>,
    /// Handlers that run past their timeout and whose thread was replaced.
    stuck: AtomicUsize,
    /// Worker threads that have not ended, stuck ones included.
    alive: AtomicUsize,
    stop: Stop,
    wake: Sender<()>,
    /// Makes the heartbeat ask at once: somebody has cancelled running jobs.
    cancels: (Sender<()>, Receiver<()>),
    look: batch::Look,
    /// Whether claimers wait to be told of jobs.
    idle: Arc<Idle>,
    /// Whether relays wait to be told of events.
    idle_relays: Arc<Idle>,
}

impl<C: Backend, A> Shared<C, A> {
    /// A job is through with: its lease is not renewed any more.
    fn settled(&self, held: &Held) {
        // Before it counts as settled: whoever waits until nothing is left must see that something may follow.
        self.follow_ups.note(held);
        let last = self.leases.remove(&held.fence);
        if let Some(key) = &held.limit_key {
            self.admitter.free(&held.kind, key);
            self.wake();
        }
        if last && self.batch || self.lanes.iter().any(|lane| lane.caps(&held.queue)) {
            self.wake();
        }
        crate::wake::ended();
    }

    /// Makes the claimer look again.
    fn wake(&self) {
        let _ = self.wake.try_send(());
    }

    /// A job was put back: when it is due may be before the claimer looks again.
    fn more_may_be_due(&self, settlement: &Settlement) {
        if settlement.leaves_ready() {
            self.behind.store(true, Ordering::Release);
            self.wake();
        }
    }

    /// Counts one more stuck handler, unless as many are stuck as there are threads.
    fn may_replace_a_thread(&self) -> bool {
        let limit = self.threads;
        self.stuck
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |stuck| {
                (stuck < limit).then_some(stuck + 1)
            })
            .is_ok()
    }
}

impl<C: Backend, A> fmt::Debug for Shared<C, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("worker", &self.worker.id)
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

/// Starts a thread that runs handlers. It is not joined: a stuck handler would keep us for ever.
fn spawn_executor<C: Backend, A: Send + Sync + 'static>(shared: &Arc<Shared<C, A>>, ends: Ends) {
    let shared = Arc::clone(shared);
    shared.alive.fetch_add(1, Ordering::AcqRel);
    let spawned = std::thread::Builder::new().name("leasehold-worker".to_owned()).spawn({
        let shared = Arc::clone(&shared);
        move || {
            if shared.unbatched {
                unbatched::run(&shared, &ends)
            } else {
                executor::run(&shared, &ends)
            }
            shared.alive.fetch_sub(1, Ordering::AcqRel);
        }
    });
    if let Err(error) = spawned {
        shared.alive.fetch_sub(1, Ordering::AcqRel);
        log::error!("cannot start a worker thread: {error}");
    }
}

/// Tells every thread of a worker to stop.
pub(crate) struct Stop {
    stopping: AtomicBool,
    /// Dropped at the stop, which closes the channel for everybody who waits.
    open: Locked<Option<Sender<()>>>,
    stopped: Receiver<()>,
}

impl Stop {
    fn new() -> Self {
        let (open, stopped) = bounded(0);
        Self {
            stopping: AtomicBool::new(false),
            open: Locked::new(Some(open)),
            stopped,
        }
    }

    fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.open.lock().take();
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Closes at the stop.
    fn stopped(&self) -> &Receiver<()> {
        &self.stopped
    }
}

/// A mutex that goes on after a panic: what it guards here is whole at every instant.
pub(crate) struct Locked<T>(Mutex<T>);

impl<T> Locked<T> {
    fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
