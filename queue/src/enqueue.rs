//! Enqueue: jobs become rows, in the caller's own transaction.
//!
//! What a database could not store, or no worker could decode, is refused before the database is asked: inside a
//! PostgreSQL transaction a failed statement would cost the caller all its other writes.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use diesel::connection::{AnsiTransactionManager, TransactionManager};
use diesel::result::Error;
use sha2::{Digest, Sha256};

use crate::backend::{Backend, KeyHolder, NewJob, NewKey, RunAt};
use crate::commit::depth;
use crate::job::Job;
use crate::name::{self, NameError};
use crate::schema::Schema;

/// The largest payload, in bytes of JSON.
pub const MAX_PAYLOAD_BYTES: usize = 1024 * 1024;

/// The deepest nesting of a payload; the decoder refuses more than 127.
pub const MAX_PAYLOAD_DEPTH: usize = 100;

/// How long idempotency keys are remembered unless [`EnqueueOptions::remember_key`] says otherwise: a week.
pub const KEY_RETENTION: Duration = Duration::from_secs(7 * 24 * 3600);

/// Jobs in one statement.
const CHUNK: usize = 1000;

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
/// # include!("doctest_setup.rs");
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
    delay: Option<Duration>,
    run_at: Option<SystemTime>,
    priority: Option<i16>,
    queue: Option<String>,
    max_attempts: Option<u32>,
    lease: Option<Duration>,
    idempotency_key: Option<String>,
    remember_key: Option<Duration>,
    schema: Schema,
}

impl EnqueueOptions {
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

    /// A key of the caller's, 1 to 255 bytes. The same key enqueues one job only, for as long as it is remembered, and
    /// handlers get it from [`LeaseGuard::idempotency_key`](crate::LeaseGuard::idempotency_key).
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// How long the idempotency key is remembered, from its enqueue on; [`KEY_RETENTION`] by default.
    #[must_use]
    pub fn remember_key(mut self, retention: Duration) -> Self {
        self.remember_key = Some(retention);
        self
    }

    /// Enqueues into another schema than `leasehold`.
    #[must_use]
    pub fn schema(mut self, schema: &Schema) -> Self {
        self.schema = schema.clone();
        self
    }

    fn run_at_ms(&self) -> Result<RunAt, EnqueueError> {
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

/// The answer to an enqueue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enqueued {
    /// A new job.
    New {
        /// Its id.
        id: i64,
    },
    /// A job with the same unique key has not ended, or one with the same idempotency key was enqueued before. Nothing
    /// was written.
    Existing {
        /// Its id.
        id: i64,
    },
}

impl Enqueued {
    /// The job's id, new or existing.
    #[must_use]
    pub fn id(&self) -> i64 {
        match *self {
            Self::New { id } | Self::Existing { id } => id,
        }
    }

    /// Whether a job was written.
    #[must_use]
    pub fn is_new(&self) -> bool {
        matches!(self, Self::New { .. })
    }
}

/// Why nothing was enqueued. All but the last two are found before the database is asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnqueueError {
    /// The payload does not serialize.
    #[error("the payload of `{kind}` does not serialize: {source}")]
    Serialize {
        /// The job's kind.
        kind: &'static str,
        /// The serializer's error.
        source: serde_json::Error,
    },
    /// The payload is larger than [`MAX_PAYLOAD_BYTES`].
    #[error(
        "the payload of `{kind}` has {bytes} bytes, more than {MAX_PAYLOAD_BYTES}: store it elsewhere and enqueue where it is"
    )]
    PayloadTooLarge {
        /// The job's kind.
        kind: &'static str,
        /// Its length as JSON.
        bytes: usize,
    },
    /// The payload nests deeper than [`MAX_PAYLOAD_DEPTH`].
    #[error("the payload of `{kind}` nests deeper than {MAX_PAYLOAD_DEPTH}: no worker could decode it")]
    PayloadTooDeep {
        /// The job's kind.
        kind: &'static str,
    },
    /// The payload has a NUL character in a text, which PostgreSQL cannot read back.
    #[error("the payload of `{kind}` has a NUL character in a text: remove it, or encode the bytes (base64, hex)")]
    PayloadNul {
        /// The job's kind.
        kind: &'static str,
    },
    /// The queue's name cannot be used.
    #[error("the queue's name: {0}")]
    Queue(#[source] NameError),
    /// The idempotency key cannot be used.
    #[error("the idempotency key: {0}")]
    IdempotencyKey(#[source] NameError),
    /// The run time lies beyond the year 9999.
    #[error("the run time lies beyond the year 9999")]
    RunAt,
    /// A number of attempts or a lease outside what the tables hold.
    #[error("{option} is out of range: {allowed}")]
    OutOfRange {
        /// The option's name.
        option: &'static str,
        /// What is allowed.
        allowed: &'static str,
    },
    /// An idempotency key, or one key for many jobs in one call.
    #[error("one idempotency key cannot serve {jobs} jobs: enqueue them one by one, each with its own")]
    OneKeyForMany {
        /// How many jobs there were.
        jobs: usize,
    },
    /// The idempotency key was used for a job of another kind or payload.
    #[error("the idempotency key was used for job {id} with another kind or payload")]
    KeyConflict {
        /// That job's id.
        id: i64,
    },
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
    let schema = &options.schema;
    let keyed = rows
        .iter()
        .any(|row| row.unique_key.is_some() || row.idempotency_key.is_some());
    let enqueued = match rows.as_slice() {
        [] => return Ok(Vec::new()),
        few if !keyed && few.len() <= CHUNK => conn
            .insert(schema, &rows)?
            .into_iter()
            .map(|id| Enqueued::New { id })
            .collect(),
        _ => in_transaction(conn, |conn| {
            let mut written = Vec::with_capacity(rows.len());
            let all = insert_all(&rows, keyed, conn, options, &mut written);
            if all.is_err() {
                // The caller's transaction may go on. One that the server has aborted refuses this, and keeps nothing anyway.
                let _ = conn.withdraw(schema, &written);
            }
            all
        })?,
    };
    if depth(conn).is_ok_and(|depth| depth == 0) {
        crate::wake::wake_local();
    } else {
        crate::wake::expect_local();
    }
    Ok(enqueued)
}

/// Inserts `rows`, so many in a statement, and notes in `written` the ids that were given out.
fn insert_all<C: Backend>(
    rows: &[NewJob],
    keyed: bool,
    conn: &mut C,
    options: &EnqueueOptions,
    written: &mut Vec<i64>,
) -> Result<Vec<Enqueued>, EnqueueError> {
    let mut all = Vec::with_capacity(rows.len());
    for chunk in rows.chunks(CHUNK) {
        let ids = conn.insert(&options.schema, chunk)?;
        written.extend(&ids);
        match keyed {
            true => all.extend(take_keys(conn, options, chunk, &ids)?),
            false => all.extend(ids.into_iter().map(|id| Enqueued::New { id })),
        }
    }
    Ok(all)
}

/// A transaction that may write: the caller's, else one of our own.
fn in_transaction<C: Backend, T>(
    conn: &mut C,
    work: impl FnOnce(&mut C) -> Result<T, EnqueueError>,
) -> Result<T, EnqueueError> {
    if depth(conn)? > 0 {
        return work(conn);
    }
    conn.begin_write()?;
    match work(conn) {
        Ok(value) => {
            AnsiTransactionManager::commit_transaction(conn)?;
            Ok(value)
        }
        Err(error) => {
            crate::commit::roll_back_to(conn, 0);
            Err(error)
        }
    }
}

/// Takes the keys of freshly inserted jobs, and withdraws those jobs whose keys are another's.
///
/// The jobs are written first, because a key names its job. Nobody sees those withdrawn: all is one transaction. A key
/// that another transaction is about to commit is waited for, so a job is never dropped in favour of one that rolls back.
fn take_keys<C: Backend>(
    conn: &mut C,
    options: &EnqueueOptions,
    rows: &[NewJob],
    ids: &[i64],
) -> Result<Vec<Enqueued>, EnqueueError> {
    let schema = &options.schema;
    let keys_of: Vec<Vec<NewKey>> = rows.iter().zip(ids).map(|(row, id)| keys(row, *id, options)).collect();
    let mut wanted: Vec<NewKey> = Vec::new();
    let mut enqueued: Vec<Enqueued> = ids.iter().map(|id| Enqueued::New { id: *id }).collect();
    // Two equal jobs in one call: the first one counts.
    for (index, keys) in keys_of.iter().enumerate() {
        match keys
            .iter()
            .find_map(|key| wanted.iter().find(|other| other.key == key.key))
        {
            Some(first) => enqueued[index] = Enqueued::Existing { id: first.job_id },
            None => wanted.extend(keys.iter().cloned()),
        }
    }
    let mut taken = conn.take_keys(schema, &wanted)?;
    let mut missed: Vec<String> = wanted
        .iter()
        .map(|key| key.key.clone())
        .filter(|key| !taken.contains(key))
        .collect();
    let mut holders = Vec::new();
    // A holder may expire or end between our looks; then the key is free, and is taken at the next.
    while !missed.is_empty() {
        conn.drop_expired_keys(schema, &missed)?;
        holders = conn.key_holders(schema, &missed)?;
        missed.retain(|key| !holders.iter().any(|holder| holder.key == *key));
        let again: Vec<NewKey> = wanted.iter().filter(|key| missed.contains(&key.key)).cloned().collect();
        if again.is_empty() {
            break;
        }
        let now = conn.take_keys(schema, &again)?;
        missed = wanted
            .iter()
            .map(|key| key.key.clone())
            .filter(|key| !taken.contains(key) && !now.contains(key))
            .collect();
        taken.extend(now);
    }
    for (index, keys) in keys_of.iter().enumerate() {
        if let Some(holder) = keys.iter().find_map(|key| conflict(key, &holders)).transpose()? {
            enqueued[index] = Enqueued::Existing { id: holder };
        }
    }
    let withdrawn: Vec<i64> = ids
        .iter()
        .zip(&enqueued)
        .filter(|(_, answer)| !answer.is_new())
        .map(|(id, _)| *id)
        .collect();
    if !withdrawn.is_empty() {
        conn.withdraw(schema, &withdrawn)?;
    }
    Ok(enqueued)
}

/// Who else has the key; an idempotency key that was used for something else is an error.
fn conflict(key: &NewKey, holders: &[KeyHolder]) -> Option<Result<i64, EnqueueError>> {
    let holder = holders
        .iter()
        .find(|holder| holder.key == key.key && holder.job_id != key.job_id)?;
    if key.keep_ms.is_some() && holder.fingerprint != key.fingerprint {
        return Some(Err(EnqueueError::KeyConflict { id: holder.job_id }));
    }
    Some(Ok(holder.job_id))
}

fn new_job<J: Job>(job: &J, options: &EnqueueOptions) -> Result<NewJob, EnqueueError> {
    let kind = J::KIND;
    let payload = serde_json::to_string(job).map_err(|source| EnqueueError::Serialize { kind, source })?;
    check_payload(kind, &payload)?;
    let queue = options.queue.as_deref().unwrap_or(J::QUEUE);
    name::check(queue, 128).map_err(EnqueueError::Queue)?;
    if let Some(key) = &options.idempotency_key {
        name::check(key, 255).map_err(EnqueueError::IdempotencyKey)?;
    }
    let out_of_range = |option, allowed| move || EnqueueError::OutOfRange { option, allowed };
    let max_attempts = i32::try_from(options.max_attempts.unwrap_or(J::MAX_ATTEMPTS))
        .ok()
        .filter(|attempts| *attempts > 0);
    let lease_ms = i64::try_from(options.lease.unwrap_or(J::LEASE).as_millis())
        .ok()
        .filter(|ms| (1..=31_536_000_000).contains(ms));
    Ok(NewJob {
        queue: queue.to_owned(),
        kind,
        version: i32::try_from(J::VERSION)
            .ok()
            .filter(|version| *version > 0)
            .ok_or_else(out_of_range("VERSION", "1 to 2147483647"))?,
        payload,
        priority: options.priority.unwrap_or(J::PRIORITY),
        run_at: options.run_at_ms()?,
        max_attempts: max_attempts.ok_or_else(out_of_range("max_attempts", "1 to 2147483647"))?,
        lease_ms: lease_ms.ok_or_else(out_of_range("lease", "1 ms to 365 days"))?,
        idempotency_key: options.idempotency_key.clone(),
        unique_key: job.unique_key().map(|key| format!("unique:{}", sha256(&[kind, &key]))),
    })
}

fn keys(row: &NewJob, job_id: i64, options: &EnqueueOptions) -> Vec<NewKey> {
    let fingerprint = sha256(&[row.kind, &row.payload]);
    let remember = options.remember_key.unwrap_or(KEY_RETENTION);
    let keep_ms = Some(
        i64::try_from(remember.as_millis())
            .unwrap_or(i64::MAX)
            .min(100 * 31_536_000_000),
    );
    let unique = row.unique_key.clone().map(|key| NewKey {
        key,
        job_id,
        fingerprint: fingerprint.clone(),
        keep_ms: None,
    });
    let idempotency = row.idempotency_key.as_ref().map(|key| {
        let key = stored_idempotency_key(key);
        NewKey {
            key,
            job_id,
            fingerprint: fingerprint.clone(),
            keep_ms,
        }
    });
    unique.into_iter().chain(idempotency).collect()
}

/// The key as it is remembered.
pub(crate) fn stored_idempotency_key(key: &str) -> String {
    format!("idempotency:{}", sha256(&[key]))
}

/// Hashed, because keys can be long and an index entry cannot. The parts are joined by a newline, which no kind has.
fn sha256(parts: &[&str]) -> String {
    let digest = Sha256::digest(parts.join("\n").as_bytes());
    digest.iter().fold(String::with_capacity(64), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// Walks the JSON text once: its length, its depth, and NUL characters in texts.
fn check_payload(kind: &'static str, json: &str) -> Result<(), EnqueueError> {
    if json.len() > MAX_PAYLOAD_BYTES {
        return Err(EnqueueError::PayloadTooLarge {
            kind,
            bytes: json.len(),
        });
    }
    let (mut depth, mut in_text) = (0_usize, false);
    let mut rest = json.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match (in_text, byte) {
            (true, b'\\') if rest.starts_with(b"u0000") => return Err(EnqueueError::PayloadNul { kind }),
            (true, b'\\') => rest = rest.get(1..).unwrap_or_default(),
            (true, b'"') => in_text = false,
            (false, b'"') => in_text = true,
            (false, b'[' | b'{') => depth += 1,
            (false, b']' | b'}') => depth -= 1,
            _ => {}
        }
        if depth > MAX_PAYLOAD_DEPTH {
            return Err(EnqueueError::PayloadTooDeep { kind });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_walked_once_for_length_depth_and_nul() {
        assert!(check_payload("k", r#"{"a":"\\u0000 [[[ \" ]]]"}"#).is_ok());
        assert!(matches!(
            check_payload("k", r#"{"a\u0000":1}"#),
            Err(EnqueueError::PayloadNul { .. })
        ));
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(check_payload("k", &nested(MAX_PAYLOAD_DEPTH)).is_ok());
        assert!(matches!(
            check_payload("k", &nested(MAX_PAYLOAD_DEPTH + 1)),
            Err(EnqueueError::PayloadTooDeep { .. })
        ));
        let long = format!("\"{}\"", "x".repeat(MAX_PAYLOAD_BYTES));
        assert!(matches!(
            check_payload("k", &long),
            Err(EnqueueError::PayloadTooLarge { .. })
        ));
    }
}
