//! What handlers recorded of their steps.

use std::fmt;
use std::time::SystemTime;

use diesel::result::QueryResult;

use super::time;
use crate::backend::{AsBackend, StepRow, StepStatements};
use crate::job::Hidden;
use crate::schema::Schema;

/// One recorded step of a job.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StepRecord {
    /// Its name.
    pub name: String,
    /// How many other steps its execution had asked for before it.
    pub position: u32,
    /// The generation of the lease under which it was recorded.
    pub generation: i64,
    /// When it was recorded.
    pub at: SystemTime,
    /// Its result, as JSON. Not shown by `Debug`: it may hold secrets.
    pub result: String,
}

impl From<StepRow> for StepRecord {
    fn from(row: StepRow) -> Self {
        Self {
            name: row.name,
            position: u32::try_from(row.position).unwrap_or(u32::MAX),
            generation: row.generation,
            at: time(row.at_ms),
            result: row.result,
        }
    }
}

impl fmt::Debug for StepRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepRecord")
            .field("name", &self.name)
            .field("position", &self.position)
            .field("generation", &self.generation)
            .field("at", &self.at)
            .field("result", &Hidden(&self.result))
            .finish()
    }
}

/// What is recorded of a job by [`LeaseGuard::step`](crate::LeaseGuard::step), in the order in which it was asked for, also
/// after the job has ended.
///
/// # Errors
///
/// The database's.
pub fn steps(conn: &mut impl AsBackend, schema: &Schema, id: i64) -> QueryResult<Vec<StepRecord>> {
    Ok(conn
        .as_backend()
        .steps(schema, id)?
        .into_iter()
        .map(Into::into)
        .collect())
}
