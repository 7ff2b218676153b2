//! For batch programs: run until the queue is empty, then say how it went.

use std::process::{ExitCode, Termination};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::builder::ProgressFn;
use super::control::Control;
use super::{Running, Shared, StartError, Worker};
use crate::backend::{Backend, Waiting};
use crate::events::Counts;

/// How often progress is shown at the most.
const SHOW_EVERY: Duration = Duration::from_millis(100);
/// How often what is left is counted at the most.
const COUNT_EVERY: Duration = Duration::from_millis(500);
/// How often a batch looks for what other processes left, at the least.
const BATCH_POLL: Duration = Duration::from_millis(250);

/// What the claimer saw when it last found nothing to claim.
#[derive(Debug, Default)]
pub(super) struct Look {
    seen: Mutex<(u64, Waiting, Option<Duration>)>,
    looked: Condvar,
}

impl Look {
    /// `room_in`: how long until a rate lets the next one through.
    pub(super) fn publish(&self, waiting: Waiting, room_in: Option<Duration>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        *seen = (seen.0 + 1, waiting, room_in);
        self.looked.notify_all();
    }

    /// The last look and its number, after waiting for a newer one than `than`, `timeout` at the most.
    fn newer(&self, than: u64, timeout: Duration) -> (u64, Waiting, Option<Duration>) {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        *self
            .looked
            .wait_timeout_while(seen, timeout, |seen| seen.0 <= than)
            .unwrap_or_else(PoisonError::into_inner)
            .0
    }
}

/// How far a batch has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// What happened in this process so far.
    pub counts: Counts,
    /// Jobs that are ready, blocked or running, in any process, when last counted; `None` before the first count.
    pub left: Option<u64>,
    /// Since the start.
    pub elapsed: Duration,
}

/// How a batch went in this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// What happened to jobs in this process.
    pub counts: Counts,
    /// Jobs whose run time is further away than the worker's patience.
    pub scheduled: u64,
    /// Jobs that wait for a limit or for other jobs to end.
    pub blocked: u64,
    /// Jobs that are paused.
    pub paused: u64,
    /// Whether a signal ended it before the queue was empty.
    pub interrupted: bool,
    /// From start to end.
    pub elapsed: Duration,
}

impl Summary {
    /// Whether nothing was discarded, no event is dead, and the end was reached. Lost leases are no failure: their jobs ran
    /// again.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.counts.discarded == 0 && self.counts.dead == 0 && !self.interrupted
    }

    /// Success, 1 when jobs were discarded or events are dead, or 130 when a signal ended it.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        match self {
            summary if summary.is_success() => ExitCode::SUCCESS,
            Self { interrupted: true, .. } => ExitCode::from(130),
            _ => ExitCode::FAILURE,
        }
    }
}

/// So that `main` can return a summary.
impl Termination for Summary {
    fn report(self) -> ExitCode {
        self.exit_code()
    }
}

impl<C: Backend, A: Send + Sync + 'static> Worker<C, A> {
    /// How far away a run time may be for [`Worker::run_until_empty`] to wait for it; one minute by default.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Is told how far [`Worker::run_until_empty`] has come, about ten times a second while that changes.
    #[must_use]
    pub fn on_progress(mut self, show: impl FnMut(&Progress) + Send + 'static) -> Self {
        self.progress.push(Box::new(show));
        self
    }

    /// Runs until what the worker serves is empty, then stops: no job is ready, none runs in any process, and none comes
    /// due within [`Worker::patience`]; the same holds for the events of its relays. Paused jobs are not waited for, and jobs that
    /// wait for a limit or for others no longer than the patience once nothing else is left.
    ///
    /// # Errors
    ///
    /// [`StartError`]. Once it runs, it waits out a database that is away.
    ///
    /// ```
    /// # include!("../doctest_setup.rs");
    /// use leasehold::{Summary, Worker};
    ///
    /// /// Ends with 1 if jobs were discarded.
    /// fn main() -> Result<Summary, Box<dyn std::error::Error>> {
    ///     # let (url, mut conn) = doctest_database();
    ///     # Greet { name: "you".to_owned() }.enqueue(&mut conn)?;
    ///     let worker = Worker::<SqliteConnection, _>::new(url, ()).register::<Greet>();
    ///     Ok(worker.on_progress(|progress| println!("{} done", progress.counts.ended())).run_until_empty()?)
    /// }
    /// ```
    pub fn run_until_empty(mut self) -> Result<Summary, StartError> {
        if self.selected_only {
            return Err(StartError::SelectedOnly);
        }
        let started = Instant::now();
        let patience = self.patience;
        let mut show = Show {
            callbacks: std::mem::take(&mut self.progress),
            started,
            shown: None,
            counted: None,
        };
        self.batch = true;
        self.poll = self.poll.min(BATCH_POLL);
        #[cfg(feature = "signals")]
        let signals = self.signals;
        let mut running = self.start()?;
        #[cfg(feature = "signals")]
        let _signals = if signals {
            Some(super::signals::watch(&running)?)
        } else {
            None
        };
        let mut counter = Counter::new(&running);

        let mut number = 0;
        let mut blocked_since = None;
        let interrupted = loop {
            show.update(&running, &mut counter);
            let held = running.leases_held();
            let (newer, waiting, room_in) = running.shared.look.newer(number, SHOW_EVERY);
            let is_news = newer > number;
            number = newer;
            if running.shared.stop.is_stopping() {
                break true;
            }
            // A look that began while this process held nothing, and that found nothing elsewhere.
            let is_idle = held == 0 && running.leases_held() == 0 && running.shared.follow_ups.is_idle();
            if is_news && is_idle && is_empty(&waiting, patience) {
                let is_over = waiting.blocked == 0 || is_hopeless(&mut blocked_since, room_in, patience);
                // What is delivered may enqueue jobs, and jobs may emit events: the one is looked at on both sides of the other.
                let relays_idle = || super::relay::is_idle(&running.shared, patience);
                if is_over && relays_idle() && nothing_follows(&running.shared, patience) && relays_idle() {
                    break false;
                }
            } else if is_news {
                blocked_since = None;
            }
        };
        running.stop(if interrupted {
            Duration::MAX
        } else {
            Duration::from_secs(10)
        });
        let shared = &running.shared;
        let waiting = shared
            .beats
            .lock()
            .read(|conn| conn.waiting(&shared.schema, &shared.serves, i64::MAX));
        let waiting = waiting.unwrap_or_default();
        show.counted = Some((running.counts().ended(), left(&waiting)));
        show.tell(&running);
        Ok(Summary {
            counts: running.counts(),
            scheduled: waiting.scheduled.unsigned_abs(),
            blocked: waiting.blocked.unsigned_abs(),
            paused: waiting.paused.unsigned_abs(),
            interrupted,
            elapsed: started.elapsed(),
        })
    }
}

/// Tells the callbacks how far it has come.
struct Show {
    callbacks: Vec<ProgressFn>,
    started: Instant,
    shown: Option<(Counts, Option<u64>)>,
    /// How many had ended here when it was counted, and what was left then.
    counted: Option<(u64, u64)>,
}

impl Show {
    fn update<C: Backend, A: Send + Sync + 'static>(&mut self, running: &Running<C, A>, counter: &mut Counter<C>) {
        if self.callbacks.is_empty() {
            return;
        }
        let ended = running.counts().ended();
        if let Some(waiting) = counter.count_if_due(&running.shared) {
            self.counted = Some((ended, left(&waiting)));
        }
        self.tell(running);
    }

    fn tell<C: Backend, A: Send + Sync + 'static>(&mut self, running: &Running<C, A>) {
        let counts = running.counts();
        // What ended here since the count is not left any more.
        let left = self
            .counted
            .map(|(ended, left)| left.saturating_sub(counts.ended() - ended));
        if self.shown == Some((counts, left)) {
            return;
        }
        self.shown = Some((counts, left));
        let progress = Progress {
            counts,
            left,
            elapsed: self.started.elapsed(),
        };
        self.callbacks.iter_mut().for_each(|show| show(&progress));
    }
}

/// Counts what is left, for callbacks: on a connection of its own, since that takes longer the more there is.
struct Counter<C: Backend> {
    control: Control<C>,
    due: Instant,
}

impl<C: Backend> Counter<C> {
    fn new<A: Send + Sync + 'static>(running: &Running<C, A>) -> Self {
        let shared = &running.shared;
        Self {
            control: Control::new("count", &shared.url, &shared.settings),
            due: Instant::now(),
        }
    }

    fn count_if_due<A>(&mut self, shared: &Shared<C, A>) -> Option<Waiting> {
        let started = Instant::now();
        if started < self.due {
            return None;
        }
        let waiting = self.count(shared);
        // No more than a twentieth of the time goes into counting.
        self.due = Instant::now() + (started.elapsed() * 20).max(COUNT_EVERY);
        waiting
    }

    fn count<A>(&mut self, shared: &Shared<C, A>) -> Option<Waiting> {
        self.control
            .read(|conn| conn.waiting(&shared.schema, &shared.serves, i64::MAX))
            .ok()
    }
}

/// What the last jobs let go may have come after the look; and other processes may not have looked yet.
fn nothing_follows<C: Backend, A: Send + Sync + 'static>(shared: &Shared<C, A>, patience: Duration) -> bool {
    if super::checker::finds_more(shared) {
        return false;
    }
    let read = |conn: &mut C| conn.waiting(&shared.schema, &shared.serves, 1);
    let waiting = shared.beats.lock().read(read);
    waiting.is_ok_and(|waiting| is_empty(&waiting, patience))
}

fn left(waiting: &Waiting) -> u64 {
    waiting.ready.unsigned_abs() + waiting.blocked.unsigned_abs() + waiting.running.unsigned_abs()
}

fn is_empty(waiting: &Waiting, patience: Duration) -> bool {
    let due_soon = waiting
        .next_due_ms
        .is_some_and(|ms| Duration::from_millis(ms.unsigned_abs()) <= patience);
    waiting.ready == 0 && waiting.running == 0 && !due_soon
}

/// Whether blocked jobs, and there is nothing else, have kept the batch waiting for longer than its patience or will.
fn is_hopeless(since: &mut Option<Instant>, room_in: Option<Duration>, patience: Duration) -> bool {
    let since = since.get_or_insert_with(Instant::now);
    room_in.map_or_else(|| since.elapsed() >= patience, |room_in| room_in > patience)
}
