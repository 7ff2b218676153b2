//! What happens to jobs in this process: one log line, one count and one hook for each event.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::inspect::State;
use crate::lease::{Held, Refusal};
use crate::panics::drop_contained;

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
}

impl fmt::Display for JobInfo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            id,
            queue,
            kind,
            attempt,
            generation,
        } = self;
        write!(
            f,
            "job={id} queue={queue:?} kind={kind:?} attempt={attempt} generation={generation}"
        )
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
    /// A handler begins.
    fn begun(&self, job: &JobInfo<'_>) {}
    /// The completion is in the database.
    fn completed(&self, job: &JobInfo<'_>) {}
    /// The attempt failed; another one follows after the given time.
    fn retried(&self, job: &JobInfo<'_>, error: &str, after: Duration) {}
    /// The job was put off without using up an attempt: by its handler, or because the database was away.
    fn snoozed(&self, job: &JobInfo<'_>, after: Duration) {}
    /// No attempt is left, or none would help. The job is kept among the finished ones.
    fn discarded(&self, job: &JobInfo<'_>, reason: &str) {}
    /// The job was ended because it is not needed.
    fn cancelled(&self, job: &JobInfo<'_>, reason: &str) {}
    /// The job was no longer this worker's, and its write was refused.
    fn lost(&self, job: &JobInfo<'_>, refusal: &Refusal) {}
    /// A claimed job was released without using up an attempt: no handler had begun on it, or the database was away.
    fn released(&self, job: &JobInfo<'_>) {}
    /// An expired lease was taken back; `state` is what the job is now: ready, discarded or cancelled.
    fn swept(&self, job: &JobInfo<'_>, state: State) {}
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
    /// Put off without using up an attempt: by their handler, or because the database was away.
    pub snoozed: u64,
    /// Discarded, by this process's handlers or its sweep.
    pub discarded: u64,
    /// Cancelled by their handler, or failed or swept after a cancel was asked for.
    pub cancelled: u64,
    /// Writes refused because the job was no longer this process's.
    pub lost: u64,
    /// Released without using up an attempt: before a handler began, or because the database was away.
    pub released: u64,
}

impl Counts {
    /// Jobs that ended here, in whatever way.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.completed + self.discarded + self.cancelled
    }
}

/// Where the runtime reports every event.
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
}

impl Held {
    pub(crate) fn info(&self) -> JobInfo<'_> {
        JobInfo {
            id: self.fence.id,
            queue: &self.queue,
            kind: &self.kind,
            attempt: self.attempt,
            generation: self.fence.generation,
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
        }
    }

    /// A hook that panics must not end the thread that settles everybody's jobs.
    fn hook(&self, tell: impl FnOnce(&dyn Hooks)) {
        if let Some(hooks) = &self.hooks
            && let Err(panic) = catch_unwind(AssertUnwindSafe(|| tell(hooks.as_ref())))
        {
            log::error!("a hook panicked");
            drop_contained(panic);
        }
    }

    pub(crate) fn begun(&self, job: &JobInfo<'_>) {
        log::debug!("begun {job}");
        self.hook(|hooks| hooks.begun(job));
    }

    pub(crate) fn completed(&self, job: &JobInfo<'_>) {
        log::debug!("completed {job}");
        count(&self.completed);
        self.hook(|hooks| hooks.completed(job));
    }

    pub(crate) fn retried(&self, job: &JobInfo<'_>, error: &str, after: Duration) {
        log::warn!("retried {job} after={after:?}: {error}");
        count(&self.retried);
        self.hook(|hooks| hooks.retried(job, error, after));
    }

    pub(crate) fn snoozed(&self, job: &JobInfo<'_>, after: Duration) {
        log::debug!("snoozed {job} after={after:?}");
        count(&self.snoozed);
        self.hook(|hooks| hooks.snoozed(job, after));
    }

    pub(crate) fn discarded(&self, job: &JobInfo<'_>, reason: &str) {
        log::error!("discarded {job}: {reason}");
        count(&self.discarded);
        self.hook(|hooks| hooks.discarded(job, reason));
    }

    pub(crate) fn cancelled(&self, job: &JobInfo<'_>, reason: &str) {
        log::info!("cancelled {job}: {reason}");
        count(&self.cancelled);
        self.hook(|hooks| hooks.cancelled(job, reason));
    }

    pub(crate) fn lost(&self, job: &JobInfo<'_>, refusal: &Refusal) {
        log::error!("lost {job}: {refusal}");
        count(&self.lost);
        self.hook(|hooks| hooks.lost(job, refusal));
    }

    pub(crate) fn released(&self, job: &JobInfo<'_>) {
        log::debug!("released {job}");
        count(&self.released);
        self.hook(|hooks| hooks.released(job));
    }

    pub(crate) fn swept(&self, job: &JobInfo<'_>, state: State) {
        log::warn!("swept {job}: its lease ran out; it is {state} now");
        match state {
            State::Discarded => count(&self.discarded),
            State::Cancelled => count(&self.cancelled),
            _ => {}
        }
        self.hook(|hooks| hooks.swept(job, state));
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
