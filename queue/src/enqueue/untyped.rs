//! Jobs of kinds that a program has no type for.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::payload::check_payload;
use super::{
    EnqueueError, EnqueueOptions, Enqueued, check_names, insert, stored_attempts, stored_lease, stored_version,
};
use crate::backend::{AsBackend, NewJob};
use crate::job::{Hidden, Unique};
use crate::limit::Limit;
use crate::settle::millis;

/// A job of a kind that this program has no type for: for tools, and for programs that enqueue for others.
///
/// What the type would know is not known here: its job has no unique key and derives no idempotency key, no limit of the kind
/// counts it, and queue, attempts, lease and priority are those of [`EnqueueOptions`], else `default`, 20, a minute and 0,
/// as a type has them that says nothing else. A kind that no worker serves waits for one.
///
/// ```
/// # include!("../doctest_setup.rs");
/// use leasehold::{EnqueueOptions, UntypedJob, Worker};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (url, mut conn) = doctest_database();
/// let greet = UntypedJob::new("greet", &serde_json::json!({ "name": "you" }))?;
/// greet.enqueue(&mut conn, &EnqueueOptions::new().max_attempts(3))?;
///
/// // Somewhere else, where `Greet` is known:
/// let summary = Worker::<SqliteConnection, _>::new(url, ()).register::<Greet>().run_until_empty()?;
/// assert_eq!(summary.counts.completed, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct UntypedJob {
    kind: String,
    version: u32,
    payload: String,
}

/// As the trait `Job` has them.
const QUEUE: &str = "default";
const MAX_ATTEMPTS: u32 = 20;
const LEASE: Duration = Duration::from_secs(60);

impl UntypedJob {
    /// A job with a payload of version 1.
    ///
    /// # Errors
    ///
    /// [`EnqueueError`] for a payload that does not serialize or cannot be stored, and for a kind that cannot be one.
    pub fn new(kind: impl Into<String>, payload: &impl Serialize) -> Result<Self, EnqueueError> {
        let (kind, payload) = untyped_payload(kind.into(), payload)?;
        check_names(&kind, QUEUE, None)?;
        Ok(Self {
            kind,
            version: 1,
            payload,
        })
    }

    /// The payload is of this version, 1 to 1000: only workers that know it claim the job.
    #[must_use]
    pub fn version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }

    /// Enqueues the job as part of the transaction that is open on `conn`, if any.
    ///
    /// # Errors
    ///
    /// [`EnqueueError`]. Options that need a unique key are left aside.
    pub fn enqueue(&self, conn: &mut impl AsBackend, options: &EnqueueOptions) -> Result<Enqueued, EnqueueError> {
        let mut enqueued = insert(vec![self.row(options)?], conn.as_backend(), options)?;
        Ok(enqueued.swap_remove(0))
    }

    fn row(&self, options: &EnqueueOptions) -> Result<NewJob, EnqueueError> {
        let queue = options.queue.as_deref().unwrap_or(QUEUE);
        check_names(&self.kind, queue, options.idempotency_key.as_deref())?;
        let priority = options.priority.unwrap_or_default();
        Ok(NewJob {
            queue: queue.to_owned(),
            kind: self.kind.clone().into(),
            version: stored_version(self.version)?,
            payload: self.payload.clone(),
            priority,
            run_at: options.run_at_ms()?,
            max_attempts: stored_attempts(options.max_attempts.unwrap_or(MAX_ATTEMPTS))?,
            lease_ms: stored_lease(options.lease.unwrap_or(LEASE))?,
            idempotency_key: options.idempotency_key.clone(),
            remember_ms: millis(options.remember_key.unwrap_or(EnqueueOptions::KEY_RETENTION)),
            unique_key: None,
            unique: Unique::new(),
            expires_ms: options.expires.map(millis),
            limit_key: None,
            limit_rank: Limit::none().rank(priority),
            batch_id: None,
            waits: false,
            awaited: false,
        })
    }
}

/// The payload's JSON, which can be stored; with the kind, which is named where it cannot.
pub(crate) fn untyped_payload(kind: String, payload: &impl Serialize) -> Result<(String, String), EnqueueError> {
    let named = || Cow::Owned(kind.clone());
    let payload = serde_json::to_string(payload).map_err(|source| EnqueueError::Serialize { kind: named(), source })?;
    check_payload(named(), &payload)?;
    Ok((kind, payload))
}

impl fmt::Debug for UntypedJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UntypedJob")
            .field("kind", &self.kind)
            .field("version", &self.version)
            .field("payload", &Hidden(&self.payload))
            .finish()
    }
}
