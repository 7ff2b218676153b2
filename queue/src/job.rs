//! A typed job: its payload, and what is fixed for its kind.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::backend::AsBackend;
use crate::enqueue::{self, EnqueueError, EnqueueOptions, Enqueued};
use crate::limit::Limit;

mod backoff;
pub use backoff::Backoff;

mod unique;
pub use unique::{OnConflict, Unique};

/// A typed payload with what is fixed for its kind. Derive it:
///
/// ```
/// use leasehold::Job;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, Job)]
/// #[job(kind = "send-email", queue = "mail", max_attempts = 5, lease = "5m")]
/// struct SendEmail {
///     to: String,
/// }
///
/// assert_eq!(SendEmail::KIND, "send-email");
/// assert_eq!(SendEmail::LEASE.as_secs(), 300);
/// ```
///
/// The payload is stored as JSON, 1 MiB at the most; see [`EnqueueError`] for what is refused.
///
/// # Options of the derive
///
/// | Option | Value | Default |
/// | --- | --- | --- |
/// | `kind` | the stored name, 1 to 128 bytes without control and direction characters | required |
/// | `queue` | the queue's name, as above | `"default"` |
/// | `priority` | -32768 to 32767; larger ones are claimed first | 0 |
/// | `max_attempts` | 1 to 1000000 | 20 |
/// | `backoff` | `"fixed(30s)"`, `"linear(10s..5m)"`, `"exponential(1s..1h)"` or `"list(1s, 10s, 1m)"`, each with `, jitter 20%` at its end or without; or the path of a function. See [`Backoff`] | `"exponential(1s..1h)"` |
/// | `lease` | a duration, `"1s"` to `"365d"` | `"60s"` |
/// | `timeout` | a duration longer than 0 | none |
/// | `expires` | a duration longer than 0: the age at which a job is discarded instead of run | none |
/// | `unique` | what at most one job may have, see below | any number of equal jobs |
/// | `idempotency_key` | `(by = "order", remember = "30d")`, each optional: jobs with the same values are one request, see [`Job::idempotency_key`]; how long a key is remembered | random keys; a week |
/// | `concurrency` | `(by = "tenant", max = 2)`: so many at a time, over all processes; without `by` of the whole kind | any number |
/// | `rate` | `(by = "tenant", max = 100, per = "1m")`: so many begin within any such time; with the `by` of the others | any number |
/// | `serial` | `(by = "tenant")`: one at a time, in the order of enqueue | in any order |
/// | `schedule` | `(cron = "0 3 * * *")`, see below | none |
/// | `version` | 1 to 1000 | 1 |
/// | `migrate` | a function that migrates older payloads; needs `version = 2` or more | refuses them |
/// | `crate` | where leasehold is, for those who re-export it | `::leasehold` |
///
/// `unique` alone allows one job of the kind; in parentheses are, all of them optional:
///
/// | `unique(…)` | Value | Default |
/// | --- | --- | --- |
/// | `by` | `"account, month"`: fields of the struct, one job for each of their values | the whole kind |
/// | `per_queue` | no value: one job in each queue | over all queues |
/// | `states` | of `"ready, running, completed, discarded, cancelled"`, `ready` among them | see [`Unique::states`] |
/// | `within` | a duration longer than 0, from the enqueue on | as long as the states say |
/// | `on_conflict` | `"keep"`, `"replace"`, `"reschedule"`, `"replace, reschedule"` or `"reject"`; see [`OnConflict`] | `"keep"` |
///
/// Durations are numbers with the units `d`, `h`, `m`, `s` and `ms`, each once, the largest first: `"500ms"`, `"30s"`,
/// `"1h30m"`. Every mistake in the list is reported at once, where it is.
///
/// # A kind that enqueues itself
///
/// With the feature `schedules` a kind may state when it is enqueued: `schedule(cron = "0 3 * * *")` is written into the
/// database when a worker starts that registers it. Further options are `zone = "Europe/Berlin"` (UTC by default),
/// `missed = "skip"`, `"run once"` (the default) or `"run all(10)"`, `name = "nightly"` (the kind by default), and
/// `payload = function` for a function that makes the payload, which is the type's `Default` otherwise. A cron text that
/// means nothing does not compile. The module `schedule` says more.
///
/// # Example: a payload that has changed
///
/// ```
/// use leasehold::Job;
/// use serde::{Deserialize, Serialize};
/// use serde_json::Value;
///
/// #[derive(Debug, PartialEq, Serialize, Deserialize, Job)]
/// #[job(kind = "bill", version = 2, migrate = split_name, unique(by = "account, month"))]
/// struct Bill {
///     account: u64,
///     month: String,
///     first_name: String,
///     last_name: String,
/// }
///
/// /// Version 1 had the whole name in `name`.
/// fn split_name(_from: u32, mut payload: Value) -> Result<Value, &'static str> {
///     let name = payload["name"].as_str().ok_or("no name")?.to_owned();
///     let (first, last) = name.split_once(' ').ok_or("a name of one word")?;
///     payload["first_name"] = first.into();
///     payload["last_name"] = last.into();
///     Ok(payload)
/// }
///
/// let stored = serde_json::json!({ "account": 7, "month": "2024-05", "name": "Ada Lovelace" });
/// let bill: Bill = serde_json::from_value(Bill::migrate(1, stored)?)?;
/// assert_eq!(bill.last_name, "Lovelace");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a job",
    note = "add `#[derive(Serialize, Deserialize, Job)]` and `#[job(kind = \"…\")]`"
)]
pub trait Job: Serialize + DeserializeOwned + Send + 'static {
    /// The stored name of the job type, 1 to 128 bytes. It never follows the type's name, so that a rename in the
    /// program does not orphan the stored jobs.
    const KIND: &'static str;

    /// The queue that jobs of this kind go to unless [`EnqueueOptions::queue`] says otherwise.
    const QUEUE: &'static str = "default";

    /// The payload's version, 1 to 1,000, counted up by one. Programs claim their own version and older ones, so newer payloads wait for a
    /// newer program.
    const VERSION: u32 = 1;

    /// Larger numbers are claimed first.
    const PRIORITY: i16 = 0;

    /// How often the job may be begun, 1 or more, before a failure discards it.
    const MAX_ATTEMPTS: u32 = 20;

    /// How long a claim lasts without a heartbeat: the longest time until the job of a dead worker runs again.
    const LEASE: Duration = Duration::from_secs(60);

    /// How long an attempt may run in all; `None`: as long as its worker renews the lease.
    const TIMEOUT: Option<Duration> = None;

    /// The age, counted from its enqueue, at which a job is discarded instead of run; `None`: it may run at any age.
    ///
    /// An attempt that runs when the job reaches it goes on, and may complete the job; another one does not begin.
    const EXPIRES: Option<Duration> = None;

    /// How long a failed job waits before its next attempt.
    const BACKOFF: Backoff = Backoff::exponential(Duration::from_secs(1), Duration::from_secs(3600));

    /// How long a job keeps its [`Job::unique_key`], and what an enqueue does that finds it with another job.
    const UNIQUE: Unique = Unique::new();

    /// What at most one job of this kind may have, as [`Job::UNIQUE`] says; `None`: any number of equal jobs.
    fn unique_key(&self) -> Option<String> {
        None
    }

    /// How long the idempotency keys of this kind are remembered, from the enqueue on, whatever becomes of the job, unless
    /// [`EnqueueOptions::remember_key`] says otherwise.
    const REMEMBER_KEY: Duration = EnqueueOptions::KEY_RETENTION;

    /// The idempotency key with which the job is enqueued unless [`EnqueueOptions::idempotency_key`] gives another, 1 to 255
    /// bytes; `None`: a random one. The same key enqueues one job only, for as long as it is remembered, and with another
    /// payload it is [`EnqueueError::KeyConflict`]. Keys of all kinds are remembered together, so begin it with the kind.
    ///
    /// `idempotency_key(by = "…")` of the derive makes it of the kind and a hash of the fields.
    ///
    /// ```
    /// # include!("doctest_setup.rs");
    /// #[derive(serde::Serialize, serde::Deserialize, Job)]
    /// #[job(kind = "charge", idempotency_key(by = "order", remember = "30d"))]
    /// struct Charge {
    ///     order: u64,
    ///     cents: u64,
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (_url, mut conn) = doctest_database();
    /// let first = Charge { order: 7, cents: 1000 }.enqueue(&mut conn)?;
    /// let again = Charge { order: 7, cents: 1000 }.enqueue(&mut conn)?;
    /// assert_eq!((again.id(), again.is_new()), (first.id(), false));
    /// let other = Charge { order: 7, cents: 9999 }.enqueue(&mut conn);
    /// assert!(matches!(other, Err(leasehold::EnqueueError::KeyConflict { id }) if id == first.id()));
    /// # Ok(())
    /// # }
    /// ```
    fn idempotency_key(&self) -> Option<String> {
        None
    }

    /// How many jobs of this kind may run, over all processes.
    const LIMIT: Limit = Limit::none();

    /// What [`Job::LIMIT`] counts by: jobs with the same key share it; `None`: all jobs of the kind do.
    fn limit_key(&self) -> Option<String> {
        None
    }

    /// When the kind enqueues itself: `schedule(…)` of the derive. [`Worker::register`](crate::Worker::register) sees to it.
    #[cfg(feature = "schedules")]
    fn schedule() -> Option<crate::schedule::Schedule> {
        None
    }

    /// Turns the JSON of a payload stored by version `from` into the current version's.
    ///
    /// # Errors
    ///
    /// A text that says why it cannot; the job is then discarded with it. The default refuses every version.
    fn migrate(from: u32, payload: serde_json::Value) -> Result<serde_json::Value, String> {
        let _ = payload;
        Err(format!("no migration from payload version {from}"))
    }

    /// Enqueues the job with the kind's settings, as part of the transaction that is open on `conn`, if any.
    ///
    /// # Errors
    ///
    /// [`EnqueueError`]; those that concern the payload are found before the database is asked.
    ///
    /// ```
    /// # include!("doctest_setup.rs");
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (_url, mut conn) = doctest_database();
    /// let enqueued = conn.transaction(|tx| Greet { name: "you".to_owned() }.enqueue(tx))?;
    /// assert!(enqueued.is_new());
    /// # Ok(())
    /// # }
    /// ```
    fn enqueue(&self, conn: &mut impl AsBackend) -> Result<Enqueued, EnqueueError> {
        self.enqueue_with(conn, &EnqueueOptions::new())
    }

    /// As [`Job::enqueue`], with a run time, priority, queue and more of its own.
    ///
    /// # Errors
    ///
    /// [`EnqueueError`].
    fn enqueue_with(&self, conn: &mut impl AsBackend, options: &EnqueueOptions) -> Result<Enqueued, EnqueueError> {
        let mut enqueued = enqueue::enqueue(std::slice::from_ref(self), conn.as_backend(), options)?;
        Ok(enqueued.swap_remove(0))
    }

    /// Enqueues many jobs, 1,000 in a statement; the answers are in the order of `jobs`. All or none are enqueued.
    ///
    /// # Errors
    ///
    /// [`EnqueueError`]; none of the jobs is enqueued then.
    ///
    /// ```
    /// # include!("doctest_setup.rs");
    /// use leasehold::EnqueueOptions;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (_url, mut conn) = doctest_database();
    /// let guests: Vec<Greet> = ["Ada", "Grace"].map(|name| Greet { name: name.to_owned() }).into();
    /// assert_eq!(Greet::enqueue_all(&guests, &mut conn, &EnqueueOptions::new())?.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    fn enqueue_all(
        jobs: &[Self],
        conn: &mut impl AsBackend,
        options: &EnqueueOptions,
    ) -> Result<Vec<Enqueued>, EnqueueError>
    where
        Self: Sized,
    {
        enqueue::enqueue(jobs, conn.as_backend(), options)
    }
}

/// The highest payload version: a claim looks up each version that a program can decode.
pub(crate) const MAX_VERSION: u32 = 1000;

/// A payload that must not show in logs: [`fmt::Debug`] prints its length alone.
pub(crate) struct Hidden<'a>(pub(crate) &'a str);

impl fmt::Debug for Hidden<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "… ({} bytes)", self.0.len())
    }
}
