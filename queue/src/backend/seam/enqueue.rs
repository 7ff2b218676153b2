//! Jobs become rows.

use std::borrow::Cow;

use diesel::result::QueryResult;

use crate::job::Unique;
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
    /// For how many milliseconds that is remembered.
    pub remember_ms: i64,
    pub unique_key: Option<String>,
    /// For how long it keeps that, and what becomes of it when another job has it.
    pub unique: Unique,
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

pub trait EnqueueStatements {
    /// Inserts jobs (1 to 1,000) and wakes listeners; the ids are in the order of `jobs`.
    fn insert(&mut self, schema: &Schema, jobs: &[NewJob]) -> QueryResult<Vec<i64>>;

    /// Undoes [`EnqueueStatements::insert`] in the same transaction, for jobs that did not get their keys: rows that are
    /// `ready`, of generation 0, and the keys that point to them.
    fn withdraw(&mut self, schema: &Schema, ids: &[i64]) -> QueryResult<usize>;
}
