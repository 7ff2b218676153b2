//! What happens to jobs in this process: one log line, one count and one hook for each event.

mod outbox;
pub use outbox::EventInfo;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::inspect::State;
use crate::lease::{Held, Refusal};
use crate::metrics;
use crate::panics::drop_contained;
use crate::trace::SpanRef;
use crate::worker::{Doing, during};

/// A job as events show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobInfo<'a> {
    /// Its id.
    pub id: i64,
    /// Its queue.
    pub queue: &'a str,
    /// Its kind.
    pub kind: &'a str,
    /// The attempt, the first being 1.
    pub attempt: u32,
    /// The generation of the lease.
    pub generation: i64,
    /// How long its handler has run, or ran; `None` before it begins, and for a job that this process did not run.
    pub ran: Option<Duration>,
    pub(crate) span: SpanRef<'a>,
}

/// The fields that every log line about a job has, and `ran` once its handler runs.
impl fmt::Display for JobInfo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            id,
            queue,
            kind,
            attempt,
            generation,
            ran,
            span: _,
        } = self;
        write!(
            f,
            "job={id} queue={queue:?} kind={kind:?} attempt={attempt} generation={generation}"
        )?;
        match ran {
            Some(ran) => write!(f, " ran={ran:?}"),
            None => Ok(()),
        }
    }
}

/// Told of each event, on the thread where it happens: return quickly. Every method defaults to nothing.
///
/// ```
/// # include!("doctest_setup.rs");
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use leasehold::{Hooks, JobInfo, Worker};
///
/// struct Metrics(Arc<AtomicU64>);
///
/// impl Hooks for Metrics {
///     fn completed(&self, _job: &JobInfo<'_>) {
///         self.0.fetch_add(1, Ordering::Relaxed);
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (url, mut conn) = doctest_database();
/// let completed = Arc::new(AtomicU64::new(0));
/// let worker = Worker::<SqliteConnection, _>::new(url, ()).register::<Greet>().hooks(Metrics(Arc::clone(&completed)));
/// # Greet { name: "you".to_owned() }.enqueue(&mut conn)?;
/// worker.run_until_empty()?;
/// assert_eq!(completed.load(Ordering::Relaxed), 1);
/// # Ok(())
/// # }
/// ```
#[expect(unused_variables, reason = "the names document what the methods are given")]
pub trait Hooks: Send + Sync + 'static {
    /// A job was claimed: its lease runs, and its handler begins soon.
    fn claimed(&self, job: &JobInfo<'_>) {}
    /// A handler begins.
    fn begun(&self, job: &JobInfo<'_>) {}
    /// The completion is in the database.
    fn completed(&self, job: &JobInfo<'_>) {}
    /// An attempt failed, by `cause`: `error`, `panic`, `timeout` or `lease expired`. What follows from it is told next.
    fn failed(&self, job: &JobInfo<'_>, cause: &str, error: &str) {}
    /// The attempt failed; another one follows after the given time.
    fn retried(&self, job: &JobInfo<'_>, error: &str, after: Duration) {}
    /// The job was put off by its handler, without using up an attempt.
    fn snoozed(&self, job: &JobInfo<'_>, after: Duration) {}
    /// No attempt is left, or none would help, or the job has expired: however it comes to be discarded, by this process's
    /// handlers or its maintenance. The job is kept among the finished ones.
    fn discarded(&self, job: &JobInfo<'_>, reason: &str) {}
    /// The job was cancelled by its handler, after a request, or because a job that it waited for did not complete.
    fn cancelled(&self, job: &JobInfo<'_>, reason: &str) {}
    /// The job was no longer this worker's, and its write was refused.
    fn lost(&self, job: &JobInfo<'_>, refusal: &Refusal) {}
    /// A claimed job was released without using up an attempt: no handler had begun on it, or the database was away.
    fn released(&self, job: &JobInfo<'_>) {}
    /// An expired lease was taken back; `state` is what the job is now: ready, discarded or cancelled. If it ended by that,
    /// `discarded` or `cancelled` is called next.
    fn swept(&self, job: &JobInfo<'_>, state: State) {}
    /// An event of the outbox was delivered, and is deleted.
    fn delivered(&self, event: &EventInfo<'_>) {}
    /// A delivery failed; another one follows after the given time at the earliest.
    fn delivery_failed(&self, event: &EventInfo<'_>, error: &str, after: Duration) {}
    /// An event is not delivered any more: no attempt is left, or none would help. It is kept.
    fn dead(&self, event: &EventInfo<'_>, error: &str) {}
    /// A schedule enqueued its job.
    #[cfg(feature = "schedules")]
    fn fired(&self, fire: &crate::schedule::FireInfo<'_>) {}
}

/// How many jobs ended in which way in this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Completed, by a commit or a finish.
    pub completed: u64,
    /// Attempts that failed and are followed by another.
    pub retried: u64,
    /// Put off by their handler, without using up an attempt.
    pub snoozed: u64,
    /// Discarded, by this process's handlers or its maintenance.
    pub discarded: u64,
    /// Cancelled by their handler, or failed or swept after a cancel was asked for.
    pub cancelled: u64,
    /// Writes refused because the job was no longer this process's.
    pub lost: u64,
    /// Released without using up an attempt: before a handler began, or because the database was away.
    pub released: u64,
    /// Events of the outbox that were delivered.
    pub delivered: u64,
    /// Deliveries that failed and are followed by another.
    pub delivery_failed: u64,
    /// Events that are not delivered any more.
    pub dead: u64,
}

impl Counts {
    /// Jobs that ended here, in whatever way.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.completed + self.discarded + self.cancelled
    }
}

/// The reason of a job that the sweep ended.
const LEASE_EXPIRED: &str = "lease expired";

/// Where the runtime reports every event: first to the log and the metrics, so that whoever sees a count finds them there.
#[derive(Default)]
pub(crate) struct Reporter {
    hooks: Option<Box<dyn Hooks>>,
    completed: AtomicU64,
    retried: AtomicU64,
    snoozed: AtomicU64,
    discarded: AtomicU64,
    cancelled: AtomicU64,
    lost: AtomicU64,
    released: AtomicU64,
    delivered: AtomicU64,
    delivery_failed: AtomicU64,
    dead: AtomicU64,
}

impl Held {
    pub(crate) fn info(&self) -> JobInfo<'_> {
        JobInfo {
            id: self.fence.id,
            queue: &self.queue,
            kind: &self.kind,
            attempt: self.attempt,
            generation: self.fence.generation,
            ran: self.ran(),
            span: self.span.get(),
        }
    }
}

impl Reporter {
    pub(crate) fn new(hooks: Option<Box<dyn Hooks>>) -> Self {
        Self {
            hooks,
            ..Self::default()
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            completed: read(&self.completed),
            retried: read(&self.retried),
            snoozed: read(&self.snoozed),
            discarded: read(&self.discarded),
            cancelled: read(&self.cancelled),
            lost: read(&self.lost),
            released: read(&self.released),
            delivered: read(&self.delivered),
            delivery_failed: read(&self.delivery_failed),
            dead: read(&self.dead),
        }
    }

    /// A hook that panics must not end the thread that settles everybody's jobs.
    fn hook(&self, tell: impl FnOnce(&dyn Hooks)) {
        if let Some(hooks) = &self.hooks
            && let Err(panic) = during(Doing::Hook, || catch_unwind(AssertUnwindSafe(|| tell(hooks.as_ref()))))
        {
            log::error!("a hook panicked");
            drop_contained(panic);
        }
    }

    /// `waited`: from the job's run time to the claim.
    pub(crate) fn claimed(&self, job: &JobInfo<'_>, waited: Duration) {
        log::debug!("claimed {job} waited={waited:?}");
        metrics::count("leasehold_claimed_total", job);
        metrics::record("leasehold_wait_seconds", job, waited);
        self.hook(|hooks| hooks.claimed(job));
    }

    pub(crate) fn begun(&self, job: &JobInfo<'_>) {
        let _in = job.span.enter();
        let job = &JobInfo { ran: None, ..*job };
        log::debug!("begun {job}");
        self.hook(|hooks| hooks.begun(job));
    }

    pub(crate) fn completed(&self, job: &JobInfo<'_>) {
        let _in = job.span.enter();
        log::debug!("completed {job}");
        metrics::count("leasehold_completed_total", job);
        count(&self.completed);
        self.hook(|hooks| hooks.completed(job));
    }

    /// A handler has returned, well or not.
    pub(crate) fn ran(&self, job: &JobInfo<'_>, took: Duration) {
        metrics::record("leasehold_run_seconds", job, took);
    }

    /// Without a line of its own in the log: the line of what follows has the error.
    pub(crate) fn failed(&self, job: &JobInfo<'_>, cause: &'static str, error: &str) {
        let _in = job.span.enter();
        metrics::failed(job, cause);
        self.hook(|hooks| hooks.failed(job, cause, error));
    }

    pub(crate) fn retried(&self, job: &JobInfo<'_>, error: &str, after: Duration) {
        let _in = job.span.enter();
        log::warn!("retried {job} after={after:?}: {error}");
        metrics::count("leasehold_retried_total", job);
        count(&self.retried);
        self.hook(|hooks| hooks.retried(job, error, after));
    }

    pub(crate) fn snoozed(&self, job: &JobInfo<'_>, after: Duration) {
        let _in = job.span.enter();
        log::debug!("snoozed {job} after={after:?}");
        metrics::count("leasehold_snoozed_total", job);
        count(&self.snoozed);
        self.hook(|hooks| hooks.snoozed(job, after));
    }

    pub(crate) fn discarded(&self, job: &JobInfo<'_>, reason: &str) {
        let _in = job.span.enter();
        log::error!("discarded {job}: {reason}");
        metrics::count("leasehold_discarded_total", job);
        count(&self.discarded);
        self.hook(|hooks| hooks.discarded(job, reason));
    }

    pub(crate) fn cancelled(&self, job: &JobInfo<'_>, reason: &str) {
        let _in = job.span.enter();
        log::info!("cancelled {job}: {reason}");
        metrics::count("leasehold_cancelled_total", job);
        count(&self.cancelled);
        self.hook(|hooks| hooks.cancelled(job, reason));
    }

    pub(crate) fn lost(&self, job: &JobInfo<'_>, refusal: &Refusal) {
        let _in = job.span.enter();
        log::error!("lost {job}: {refusal}");
        metrics::count("leasehold_lost_total", job);
        count(&self.lost);
        if matches!(refusal, Refusal::DurabilityLoss { .. }) {
            metrics::count("leasehold_durability_losses_total", job);
        }
        self.hook(|hooks| hooks.lost(job, refusal));
    }

    pub(crate) fn released(&self, job: &JobInfo<'_>) {
        let _in = job.span.enter();
        log::debug!("released {job}");
        metrics::count("leasehold_released_total", job);
        count(&self.released);
        self.hook(|hooks| hooks.released(job));
    }

    pub(crate) fn swept(&self, job: &JobInfo<'_>, state: State) {
        log::warn!("swept {job}: its lease ran out; it is {state} now");
        self.hook(|hooks| hooks.swept(job, state));
        match state {
            State::Discarded => {
                metrics::count("leasehold_discarded_total", job);
                count(&self.discarded);
                self.hook(|hooks| hooks.discarded(job, LEASE_EXPIRED));
            }
            State::Cancelled => {
                metrics::count("leasehold_cancelled_total", job);
                count(&self.cancelled);
                self.hook(|hooks| hooks.cancelled(job, LEASE_EXPIRED));
            }
            _ => {}
        }
    }

    #[cfg(feature = "schedules")]
    pub(crate) fn fired(&self, fire: &crate::schedule::FireInfo<'_>) {
        log::info!("fired {fire}");
        self.hook(|hooks| hooks.fired(fire));
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporter")
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}
