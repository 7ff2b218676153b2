//! Jobs become rows.

use std::borrow::Cow;

use diesel::QueryableByName;
use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Text};

use crate::schema::Schema;

/// A job as it is written by enqueue. Checked before it gets here.
#[derive(Debug, Clone)]
pub struct NewJob {
    pub queue: String,
    /// A program's own, or a stored schedule's.
    pub kind: Cow<'static, str>,
    pub version: i32,
    pub payload: String,
    pub priority: i16,
    pub run_at: RunAt,
    pub max_attempts: i32,
    pub lease_ms: i64,
    /// `None`: the database makes a random one.
    pub idempotency_key: Option<String>,
    pub unique_key: Option<String>,
    /// Milliseconds until it is discarded instead of run.
    pub expires_ms: Option<i64>,
    /// What the kind's limits count by: it waits until they admit it.
    pub limit_key: Option<String>,
    /// Its place among those that wait for the same limit, higher ones first.
    pub limit_rank: i16,
    pub batch_id: Option<i64>,
    /// Whether it waits for other jobs to end.
    pub waits: bool,
    /// Whether other jobs wait for its end.
    pub awaited: bool,
}

/// When a job may run, by the database's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunAt {
    /// Milliseconds from now; zero is at once.
    After(i64),
    /// Milliseconds since 1970.
    At(i64),
}

/// A key that at most one job may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKey {
    pub key: String,
    pub job_id: i64,
    pub fingerprint: String,
    /// The states in which the job keeps it, added up: see the column `states`.
    pub states: i16,
    /// How long the key is remembered, in milliseconds; `None`: as long as the job is in one of its states.
    pub keep_ms: Option<i64>,
}

/// Who has a key.
#[derive(Debug, QueryableByName)]
pub struct KeyHolder {
    #[diesel(sql_type = Text)]
    pub key: String,
    #[diesel(sql_type = BigInt)]
    pub job_id: i64,
    #[diesel(sql_type = Text)]
    pub fingerprint: String,
}

pub trait EnqueueStatements {
    /// Inserts jobs (1 to 1,000) and wakes listeners; the ids are in the order of `jobs`.
    fn insert(&mut self, schema: &Schema, jobs: &[NewJob]) -> QueryResult<Vec<i64>>;

    /// Takes the keys that nobody has, waiting for whoever is about to commit one; returns the keys taken.
    fn take_keys(&mut self, schema: &Schema, keys: &[NewKey]) -> QueryResult<Vec<String>>;

    /// Removes expired ones among `keys`.
    fn drop_expired_keys(&mut self, schema: &Schema, keys: &[String]) -> QueryResult<usize>;

    /// Who has each of `keys`.
    fn key_holders(&mut self, schema: &Schema, keys: &[String]) -> QueryResult<Vec<KeyHolder>>;

    /// Undoes [`EnqueueStatements::insert`] in the same transaction, for jobs that did not get their keys: rows that are
    /// `ready`, of generation 0, and the keys that point to them.
    fn withdraw(&mut self, schema: &Schema, ids: &[i64]) -> QueryResult<usize>;
}
