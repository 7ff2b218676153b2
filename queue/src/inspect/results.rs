//! What handlers told of their jobs.

use std::time::SystemTime;

use diesel::result::{Error, QueryResult};
use serde::de::DeserializeOwned;

use super::time;
use crate::backend::{AsBackend, ProgressRow, ResultStatements};
use crate::schema::Schema;

/// Why a result was not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadResultError {
    /// The stored result is not of the type that was asked for.
    #[error("the result of job {id} is not of this type: {source}")]
    Decode {
        /// The job.
        id: i64,
        /// The decoder's error.
        source: serde_json::Error,
    },
    /// The database's error.
    #[error(transparent)]
    Database(#[from] Error),
}

/// The result that a job completed with.
///
/// It was given to [`LeaseGuard::commit_result`](crate::LeaseGuard::commit_result) or
/// [`LeaseGuard::finish_result`](crate::LeaseGuard::finish_result). `None` while the job has not completed, and when it
/// completed without one.
///
/// # Errors
///
/// [`ReadResultError`].
pub fn result<T: DeserializeOwned>(
    conn: &mut impl AsBackend,
    schema: &Schema,
    id: i64,
) -> Result<Option<T>, ReadResultError> {
    let stored = conn.as_backend().result(schema, id)?;
    stored.map(|json| decode(id, &json)).transpose()
}

pub(crate) fn decode<T: DeserializeOwned>(id: i64, json: &str) -> Result<T, ReadResultError> {
    serde_json::from_str(json).map_err(|source| ReadResultError::Decode { id, source })
}

/// How far a job's handler said it has come.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProgressRecord {
    /// The generation of the lease that said so; a later attempt begins anew.
    pub generation: i64,
    /// How much is done.
    pub done: u64,
    /// Of how much.
    pub total: u64,
    /// In words.
    pub text: String,
    /// When it was written.
    pub at: SystemTime,
}

impl From<ProgressRow> for ProgressRecord {
    fn from(row: ProgressRow) -> Self {
        Self {
            generation: row.generation,
            done: row.done.unsigned_abs(),
            total: row.total.unsigned_abs(),
            text: row.text,
            at: time(row.at_ms),
        }
    }
}

/// The newest word of a job's handler by [`LeaseGuard::progress`](crate::LeaseGuard::progress), also after the job has
/// ended; `None` when there is none.
///
/// # Errors
///
/// The database's.
pub fn progress(conn: &mut impl AsBackend, schema: &Schema, id: i64) -> QueryResult<Option<ProgressRecord>> {
    Ok(conn.as_backend().progress(schema, id)?.map(Into::into))
}
