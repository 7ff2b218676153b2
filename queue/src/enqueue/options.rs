//! What a single enqueue sets differently.

use std::time::{Duration, SystemTime};

use super::EnqueueError;
use crate::backend::RunAt;
use crate::job::{Job, OnConflict, Unique};
use crate::schema::Schema;

/// What a single enqueue sets differently from its kind.
///
/// ```
/// use std::time::Duration;
/// use leasehold::EnqueueOptions;
///
/// let tonight = EnqueueOptions::new().delay(Duration::from_secs(8 * 3600)).priority(-10).queue("night");
/// # let _ = tonight;
/// ```
///
/// # Example: once, however often the caller asks
///
/// ```
/// # include!("../doctest_setup.rs");
/// use leasehold::EnqueueOptions;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (_url, mut conn) = doctest_database();
/// let greet = Greet { name: "you".to_owned() };
/// let request = EnqueueOptions::new().idempotency_key("request 4711");
/// let first = greet.enqueue_with(&mut conn, &request)?;
/// let again = greet.enqueue_with(&mut conn, &request)?;
/// assert!(!again.is_new());
/// assert_eq!(again.id(), first.id());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct EnqueueOptions {
    pub(super) delay: Option<Duration>,
    pub(super) run_at: Option<SystemTime>,
    pub(super) priority: Option<i16>,
    pub(super) queue: Option<String>,
    pub(super) max_attempts: Option<u32>,
    pub(super) lease: Option<Duration>,
    pub(super) expires: Option<Duration>,
    pub(super) idempotency_key: Option<String>,
    pub(super) remember_key: Option<Duration>,
    pub(super) on_conflict: Option<OnConflict>,
    pub(super) unique_within: Option<Duration>,
    pub(super) schema: Schema,
}

impl EnqueueOptions {
    /// The largest payload, in bytes of JSON.
    pub const MAX_PAYLOAD_BYTES: usize = super::MAX_PAYLOAD_BYTES;

    /// The deepest nesting of a payload, in levels; the decoder refuses more than 127.
    pub const MAX_PAYLOAD_DEPTH: usize = super::MAX_PAYLOAD_DEPTH;

    /// How long an idempotency key is remembered unless the kind or [`EnqueueOptions::remember_key`] says otherwise: a week.
    pub const KEY_RETENTION: Duration = Duration::from_secs(7 * 24 * 3600);

    /// The settings of the kind.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The job may run this long after its enqueue, by the database's clock. Replaces [`EnqueueOptions::run_at`].
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        (self.delay, self.run_at) = (Some(delay), None);
        self
    }

    /// The job may run from this time on. Replaces [`EnqueueOptions::delay`].
    #[must_use]
    pub fn run_at(mut self, time: SystemTime) -> Self {
        (self.run_at, self.delay) = (Some(time), None);
        self
    }

    /// Larger numbers are claimed first.
    #[must_use]
    pub fn priority(mut self, priority: i16) -> Self {
        self.priority = Some(priority);
        self
    }

    /// The queue: 1 to 128 bytes without control characters. A worker must be told to serve it.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// How often the job may be begun before a failure discards it, 1 or more.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = Some(attempts);
        self
    }

    /// How long a claim of this job lasts without a heartbeat: 1 ms to 365 days.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// The age, counted from this enqueue by the database's clock, at which the job is discarded instead of run. A hundred
    /// years at the most. Its delay counts, too: a job that may run after two hours and expires after one never runs.
    ///
    /// A job that is claimed too late is discarded with the reason "expired" before its handler begins; the claim counts
    /// as an attempt, as every claim does. One that nobody claims (there is no worker for it, it waits for a retry, a
    /// limit or other jobs) is discarded by the maintenance of any worker. An attempt that runs when the job expires goes
    /// on, and may complete the job; another one does not begin.
    #[must_use]
    pub fn expires(mut self, age: Duration) -> Self {
        self.expires = Some(age);
        self
    }

    /// A key of the caller's, 1 to 255 bytes. The same key enqueues one job only, for as long as it is remembered, and
    /// handlers get it from [`LeaseGuard::idempotency_key`](crate::LeaseGuard::idempotency_key).
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// How long the idempotency key is remembered, from its enqueue on; otherwise as its kind says ([`Job::REMEMBER_KEY`]), a
    /// week by default. Afterwards the same key enqueues a new job.
    #[must_use]
    pub fn remember_key(mut self, retention: Duration) -> Self {
        self.remember_key = Some(retention);
        self
    }

    /// What this enqueue does when another job has the unique key; otherwise as its kind says ([`Job::UNIQUE`]). Nothing for
    /// a kind without a unique key.
    ///
    /// ```
    /// # include!("../doctest_setup.rs");
    /// use std::time::Duration;
    /// use leasehold::{EnqueueOptions, Enqueued, OnConflict};
    ///
    /// #[derive(serde::Serialize, serde::Deserialize, Job)]
    /// #[job(kind = "search-index", unique(by = "page"))]
    /// struct SearchIndex {
    ///     page: String,
    ///     text: String,
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (_url, mut conn) = doctest_database();
    /// let index = |text: &str| SearchIndex { page: "/".into(), text: text.into() };
    /// let quiet = EnqueueOptions::new().delay(Duration::from_secs(30)).on_conflict(OnConflict::ReplaceAndReschedule);
    /// let first = index("draft").enqueue_with(&mut conn, &quiet)?;
    /// // The same job, with the newer text, thirty seconds from now.
    /// let again = index("final").enqueue_with(&mut conn, &quiet)?;
    /// assert_eq!(again, Enqueued::Updated { id: first.id() });
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn on_conflict(mut self, action: OnConflict) -> Self {
        self.on_conflict = Some(action);
        self
    }

    /// How long the new job keeps its unique key at the most, from this enqueue on; otherwise as its kind says
    /// ([`Unique::within`](crate::Unique::within)).
    #[must_use]
    pub fn unique_within(mut self, period: Duration) -> Self {
        self.unique_within = Some(period);
        self
    }

    /// Enqueues into another schema than `leasehold`.
    #[must_use]
    pub fn schema(mut self, schema: &Schema) -> Self {
        self.schema = schema.clone();
        self
    }

    /// Whether they say what only one job can have: its time, or its key.
    #[cfg(feature = "schedules")]
    pub(crate) fn is_for_one_job(&self) -> bool {
        self.run_at.is_some() || self.delay.is_some() || self.idempotency_key.is_some()
    }

    /// The priority, if one is set.
    pub(crate) fn chosen_priority(&self) -> Option<i16> {
        self.priority
    }

    /// The run time, if one is set.
    pub(crate) fn chosen_run_at(&self) -> Result<Option<RunAt>, EnqueueError> {
        let chosen = self.run_at.is_some() || self.delay.is_some();
        chosen.then(|| self.run_at_ms()).transpose()
    }

    /// What the kind says of unique keys, with what this enqueue says.
    pub(super) fn unique<J: Job>(&self) -> Unique {
        let mut unique = J::UNIQUE;
        if let Some(action) = self.on_conflict {
            unique = unique.on_conflict(action);
        }
        if let Some(period) = self.unique_within {
            unique = unique.within(period);
        }
        unique
    }

    pub(super) fn run_at_ms(&self) -> Result<RunAt, EnqueueError> {
        const LATEST_MS: i64 = 253_402_300_799_000; // the end of the year 9999
        let out_of_range = || EnqueueError::RunAt;
        let millis = |duration: Duration| i64::try_from(duration.as_millis()).ok().filter(|ms| *ms <= LATEST_MS);
        match (self.run_at, self.delay) {
            (Some(time), _) => match time.duration_since(SystemTime::UNIX_EPOCH) {
                Ok(since) => millis(since).map(RunAt::At).ok_or_else(out_of_range),
                // Long past is due, however long.
                Err(_) => Ok(RunAt::At(0)),
            },
            (None, Some(delay)) => millis(delay)
                .filter(|ms| *ms <= LATEST_MS / 2)
                .map(RunAt::After)
                .ok_or_else(out_of_range),
            (None, None) => Ok(RunAt::After(0)),
        }
    }
}
