//! Jobs get the keys that at most one of them may have.

use diesel::QueryableByName;
use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Bool, SmallInt, Text};

use super::RunAt;
use crate::schema::Schema;

/// A key that at most one job may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKey {
    pub key: String,
    pub job_id: i64,
    pub fingerprint: String,
    /// The states in which the job keeps it, added up: see the column `states`.
    pub states: i16,
    /// How long the key is kept, in milliseconds; `None`: as long as the job is in one of its states.
    pub keep_ms: Option<i64>,
}

/// Who has a key.
#[derive(Debug, Clone, QueryableByName)]
pub struct KeyHolder {
    #[diesel(sql_type = Text)]
    pub key: String,
    #[diesel(sql_type = BigInt)]
    pub job_id: i64,
    #[diesel(sql_type = Text)]
    pub fingerprint: String,
    /// The states in which it keeps the key.
    #[diesel(sql_type = SmallInt)]
    pub states: i16,
    /// Whether its time has passed.
    #[diesel(sql_type = Bool)]
    pub expired: bool,
}

/// A ready job, locked until the end of the transaction.
#[derive(Debug, Clone, Copy, QueryableByName)]
pub struct LockedReady {
    #[diesel(sql_type = BigInt)]
    pub id: i64,
    #[diesel(sql_type = BigInt)]
    pub generation: i64,
    /// It is too old to run, and will be discarded.
    #[diesel(sql_type = Bool)]
    pub expired: bool,
}

/// The state that a job is in.
#[derive(Debug, Clone, QueryableByName)]
pub struct JobState {
    #[diesel(sql_type = BigInt)]
    pub id: i64,
    #[diesel(sql_type = Text)]
    pub state: String,
}

/// What a ready job is given in place of what it has.
#[derive(Debug, Clone)]
pub struct ReadyChange {
    pub id: i64,
    /// As it was read.
    pub generation: i64,
    pub replaced: Option<Replacement>,
    pub run_at: Option<RunAt>,
}

/// A payload, and what follows from it.
#[derive(Debug, Clone)]
pub struct Replacement {
    pub payload: String,
    pub version: i32,
    pub limit_key: Option<String>,
}

pub trait KeyStatements {
    /// Takes the keys that nobody has, waiting for whoever is about to commit one; returns the keys taken.
    fn take_keys(&mut self, schema: &Schema, keys: &[NewKey]) -> QueryResult<Vec<String>>;

    /// Who has each of `keys`.
    fn key_holders(&mut self, schema: &Schema, keys: &[String]) -> QueryResult<Vec<KeyHolder>>;

    /// Locks those of these jobs that are ready, in the order of their ids: nobody claims them before the transaction ends.
    fn lock_ready(&mut self, schema: &Schema, ids: &[i64]) -> QueryResult<Vec<LockedReady>>;

    /// The states of these jobs, wherever they are, without a lock.
    fn job_states(&mut self, schema: &Schema, ids: &[i64]) -> QueryResult<Vec<JobState>>;

    /// Takes keys from the holders that were read beside them, which do not keep them any more; returns those taken.
    fn take_over_keys(&mut self, schema: &Schema, keys: &[(NewKey, i64)]) -> QueryResult<Vec<String>>;

    /// Changes ready jobs, generation + 1, and wakes listeners; returns the ids of those that were still as they were read.
    fn change_ready(&mut self, schema: &Schema, changes: &[ReadyChange]) -> QueryResult<Vec<i64>>;
}
