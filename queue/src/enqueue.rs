//! Enqueue: jobs become rows, in the caller's own transaction.
//!
//! What a database could not store, or no worker could decode, is refused before the database is asked: inside a
//! PostgreSQL transaction a failed statement would cost the caller all its other writes.

use std::borrow::Cow;
use std::time::Duration;

use diesel::result::Error;

use crate::backend::{Backend, NewJob};
use crate::commit::depth;
use crate::job::{Job, MAX_VERSION};
use crate::name::{self, NameError};
use crate::settle::millis;
use crate::transaction::atomically;

mod holders;
mod keys;
#[cfg(feature = "sqlite")]
pub(crate) use keys::fingerprint;
pub(crate) use keys::{derived_key, stored_idempotency_key, stored_unique_key};
use keys::{stored_limit_key, take_keys};

mod many;
pub(crate) use many::Jobs;
use many::chunks;

mod options;
pub use options::EnqueueOptions;

mod payload;
use payload::check_payload;
pub(crate) use payload::{MAX_PAYLOAD_BYTES, MAX_PAYLOAD_DEPTH, Unstorable, check_json};

mod untyped;
pub use untyped::UntypedJob;
pub(crate) use untyped::untyped_payload;

/// The answer to an enqueue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enqueued {
    /// A new job.
    New {
        /// Its id.
        id: i64,
    },
    /// Another job has the same unique key, or one with the same idempotency key was enqueued before. Nothing was written.
    Existing {
        /// Its id.
        id: i64,
    },
    /// Another job has the same unique key, and was ready: it was given this one's payload, run time or both, as
    /// [`OnConflict`](crate::OnConflict) says.
    Updated {
        /// Its id.
        id: i64,
    },
}

impl Enqueued {
    /// The job's id, new or not.
    #[must_use]
    pub fn id(&self) -> i64 {
        match *self {
            Self::New { id } | Self::Existing { id } | Self::Updated { id } => id,
        }
    }

    /// Whether a new job was written.
    #[must_use]
    pub fn is_new(&self) -> bool {
        matches!(self, Self::New { .. })
    }
}

/// Why nothing was enqueued. All but the last four are found before the database is asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnqueueError {
    /// The payload does not serialize.
    #[error("the payload of `{kind}` does not serialize: {source}")]
    Serialize {
        /// The job's kind.
        kind: Cow<'static, str>,
        /// The serializer's error.
        source: serde_json::Error,
    },
    /// The payload is larger than [`EnqueueOptions::MAX_PAYLOAD_BYTES`].
    #[error(
        "the payload of `{kind}` has {bytes} bytes, more than {MAX_PAYLOAD_BYTES}: store it elsewhere and enqueue where it is"
    )]
    PayloadTooLarge {
        /// The job's kind.
        kind: Cow<'static, str>,
        /// Its length as JSON.
        bytes: usize,
    },
    /// The payload nests deeper than [`EnqueueOptions::MAX_PAYLOAD_DEPTH`].
    #[error(
        "the payload of `{kind}` nests deeper than {MAX_PAYLOAD_DEPTH} levels, which no worker could decode: flatten it"
    )]
    PayloadTooDeep {
        /// The job's kind.
        kind: Cow<'static, str>,
    },
    /// The payload has a NUL character in a text, which PostgreSQL cannot read back.
    #[error("the payload of `{kind}` has a NUL character in a text: remove it, or encode the bytes (base64, hex)")]
    PayloadNul {
        /// The job's kind.
        kind: Cow<'static, str>,
    },
    /// The kind cannot be used.
    #[error("the kind: {0}")]
    Kind(#[source] NameError),
    /// The queue's name cannot be used.
    #[error("the queue's name: {0}")]
    Queue(#[source] NameError),
    /// The idempotency key cannot be used.
    #[error("the idempotency key: {0}")]
    IdempotencyKey(#[source] NameError),
    /// The run time lies beyond the year 9999.
    #[error("the run time lies beyond the year 9999: choose an earlier one")]
    RunAt,
    /// A number of attempts or a lease outside what the tables hold.
    #[error("{option} is out of range: {allowed}")]
    OutOfRange {
        /// The option's name.
        option: &'static str,
        /// What is allowed.
        allowed: &'static str,
    },
    /// One idempotency key for many jobs in one call.
    #[error("one idempotency key cannot serve {jobs} jobs: enqueue them one by one, each with its own")]
    OneKeyForMany {
        /// How many jobs there were.
        jobs: usize,
    },
    /// The idempotency key was used for a job of another kind or payload.
    #[error(
        "the idempotency key was used for job {id} with another kind or payload: a key stands for one request, so choose another key"
    )]
    KeyConflict {
        /// That job's id.
        id: i64,
    },
    /// Another job has the unique key, and the enqueue was told to [reject](crate::OnConflict::Reject) it.
    #[error("job {id} has the same unique key")]
    UniqueConflict {
        /// That job's id.
        id: i64,
    },
    /// The holders of the job's keys changed each time that they were looked at. A later try will do better.
    #[error("others took and freed the job's keys again and again: enqueue it again")]
    KeysContended,
    /// The database's error.
    #[error(transparent)]
    Database(#[from] Error),
}

/// Enqueues `jobs` in the transaction that is open on `conn`, else in one of its own.
pub(crate) fn enqueue<J: Job, C: Backend>(
    jobs: &[J],
    conn: &mut C,
    options: &EnqueueOptions,
) -> Result<Vec<Enqueued>, EnqueueError> {
    if options.idempotency_key.is_some() && jobs.len() > 1 {
        return Err(EnqueueError::OneKeyForMany { jobs: jobs.len() });
    }
    let rows = jobs
        .iter()
        .map(|job| new_job(job, options))
        .collect::<Result<Vec<_>, _>>()?;
    insert(rows, conn, options)
}

/// Enqueues checked rows; see [`enqueue`].
pub(crate) fn insert<C: Backend>(
    rows: Vec<NewJob>,
    conn: &mut C,
    options: &EnqueueOptions,
) -> Result<Vec<Enqueued>, EnqueueError> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    if depth(conn)? > 0 {
        let enqueued = insert_in_transaction(&rows, conn, options);
        crate::wake::expect_local();
        return enqueued;
    }
    // A connection of the application's may be told to wait for no other writer: Diesel's default on SQLite.
    let enqueued = conn.patiently(|conn| conn.in_turn(|conn| insert_alone(&rows, conn, options)))??;
    crate::wake::wake_local();
    Ok(enqueued)
}

/// In a transaction of our own: one statement is one by itself.
fn insert_alone<C: Backend>(
    rows: &[NewJob],
    conn: &mut C,
    options: &EnqueueOptions,
) -> Result<Vec<Enqueued>, EnqueueError> {
    if !has_keys(rows) && chunks(rows).nth(1).is_none() {
        return insert_all(rows, conn, options, &mut Vec::new());
    }
    atomically(conn, |conn| insert_all(rows, conn, options, &mut Vec::new()))
}

/// In the caller's transaction, which may go on after an error: then nothing of ours may stay in it. One that the server
/// has aborted refuses the withdrawal, and keeps nothing anyway.
fn insert_in_transaction<C: Backend>(
    rows: &[NewJob],
    conn: &mut C,
    options: &EnqueueOptions,
) -> Result<Vec<Enqueued>, EnqueueError> {
    let mut written = Vec::with_capacity(rows.len());
    insert_all(rows, conn, options, &mut written).inspect_err(|_| {
        let _ = conn.withdraw(&options.schema, &written);
    })
}

fn has_keys(rows: &[NewJob]) -> bool {
    rows.iter()
        .any(|row| row.unique_key.is_some() || row.idempotency_key.is_some())
}

/// Inserts `rows`, so many in a statement, and notes in `written` the ids that were given out.
fn insert_all<C: Backend>(
    rows: &[NewJob],
    conn: &mut C,
    options: &EnqueueOptions,
    written: &mut Vec<i64>,
) -> Result<Vec<Enqueued>, EnqueueError> {
    let mut ids = Vec::with_capacity(rows.len());
    for chunk in chunks(rows) {
        let inserted = conn.insert(&options.schema, chunk)?;
        written.extend(&inserted);
        ids.extend(inserted);
    }
    // All keys at once, for they are taken in one order.
    let all: Vec<Enqueued> = match has_keys(rows) {
        true => take_keys(conn, options, rows, &ids)?,
        false => ids.into_iter().map(|id| Enqueued::New { id }).collect(),
    };
    for (row, _) in rows.iter().zip(&all).filter(|(_, answer)| answer.is_new()) {
        crate::metrics::enqueued(&row.queue, &row.kind);
    }
    Ok(all)
}

pub(crate) fn new_job<J: Job>(job: &J, options: &EnqueueOptions) -> Result<NewJob, EnqueueError> {
    let kind = J::KIND;
    let payload = serde_json::to_string(job).map_err(|source| EnqueueError::Serialize {
        kind: kind.into(),
        source,
    })?;
    check_payload(kind.into(), &payload)?;
    let queue = options.queue.as_deref().unwrap_or(J::QUEUE);
    let idempotency_key = options.idempotency_key.clone().or_else(|| job.idempotency_key());
    check_names(kind, queue, idempotency_key.as_deref())?;
    let unique = options.unique::<J>();
    Ok(NewJob {
        queue: queue.to_owned(),
        kind: kind.into(),
        version: stored_version(J::VERSION)?,
        payload,
        priority: options.priority.unwrap_or(J::PRIORITY),
        run_at: options.run_at_ms()?,
        max_attempts: stored_attempts(options.max_attempts.unwrap_or(J::MAX_ATTEMPTS))?,
        lease_ms: stored_lease(options.lease.unwrap_or(J::LEASE))?,
        idempotency_key,
        remember_ms: millis(options.remember_key.unwrap_or(J::REMEMBER_KEY)),
        unique_key: job
            .unique_key()
            .map(|key| stored_unique_key(kind, unique.is_per_queue().then_some(queue), &key)),
        unique,
        expires_ms: options.expires.or(J::EXPIRES).map(millis),
        limit_key: (!J::LIMIT.is_none()).then(|| stored_limit_key(kind, job.limit_key().as_deref())),
        limit_rank: J::LIMIT.rank(options.priority.unwrap_or(J::PRIORITY)),
        batch_id: None,
        waits: false,
        awaited: false,
    })
}

fn check_names(kind: &str, queue: &str, idempotency_key: Option<&str>) -> Result<(), EnqueueError> {
    name::check(kind, 128).map_err(EnqueueError::Kind)?;
    name::check(queue, 128).map_err(EnqueueError::Queue)?;
    idempotency_key.map_or(Ok(()), |key| {
        name::check(key, 255).map_err(EnqueueError::IdempotencyKey)
    })
}

fn stored_version(version: u32) -> Result<i32, EnqueueError> {
    let stored = i32::try_from(version)
        .ok()
        .filter(|_| (1..=MAX_VERSION).contains(&version));
    stored.ok_or(EnqueueError::OutOfRange {
        option: "VERSION",
        allowed: "1 to 1000",
    })
}

fn stored_attempts(attempts: u32) -> Result<i32, EnqueueError> {
    let stored = i32::try_from(attempts).ok().filter(|attempts| *attempts > 0);
    stored.ok_or(EnqueueError::OutOfRange {
        option: "max_attempts",
        allowed: "1 to 2147483647",
    })
}

fn stored_lease(lease: Duration) -> Result<i64, EnqueueError> {
    let stored = i64::try_from(lease.as_millis()).ok();
    stored
        .filter(|ms| (1..=31_536_000_000).contains(ms))
        .ok_or(EnqueueError::OutOfRange {
            option: "lease",
            allowed: "1 ms to 365 days",
        })
}
