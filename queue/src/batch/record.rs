//! Looking at a batch, and waiting for it.

use std::time::{Duration, SystemTime};

use diesel::result::QueryResult;

use crate::backend::{AsBackend, Backend, BatchCountRow, BatchRow, BatchStatements};
use crate::inspect::{Look, WaitError, time, wait_until};
use crate::schema::Schema;

/// How many jobs of a batch are in which state. What has finished keeps its counts when its jobs are purged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BatchCounts {
    /// Ready and due.
    pub ready: u64,
    /// Ready, with a run time that is still to come.
    pub scheduled: u64,
    /// Ready, and kept by a limit or by jobs that have to end first.
    pub blocked: u64,
    /// Running.
    pub running: u64,
    /// Ended well.
    pub completed: u64,
    /// Ended without success.
    pub discarded: u64,
    /// Ended by their handler, by hand, or because a job that they waited for did not complete.
    pub cancelled: u64,
}

impl BatchCounts {
    /// Jobs that have ended, in whatever way.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.completed + self.discarded + self.cancelled
    }

    /// All jobs of the batch so far.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.ready + self.scheduled + self.blocked + self.running + self.ended()
    }
}

impl From<BatchCountRow> for BatchCounts {
    fn from(row: BatchCountRow) -> Self {
        Self {
            ready: row.ready.unsigned_abs(),
            scheduled: row.scheduled.unsigned_abs(),
            blocked: row.blocked.unsigned_abs(),
            running: row.running.unsigned_abs(),
            completed: row.completed.unsigned_abs(),
            discarded: row.discarded.unsigned_abs(),
            cancelled: row.cancelled.unsigned_abs(),
        }
    }
}

/// A batch as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BatchRecord {
    /// Its id.
    pub id: i64,
    /// Its name.
    pub name: String,
    /// When it was enqueued.
    pub created_at: SystemTime,
    /// When it was seen that a job of it was discarded.
    pub discarded_at: Option<SystemTime>,
    /// When it was cancelled.
    pub cancelled_at: Option<SystemTime>,
    /// When it was seen that all its jobs had ended.
    pub finished_at: Option<SystemTime>,
    /// How its jobs are.
    pub counts: BatchCounts,
}

impl BatchRecord {
    /// Whether all its jobs have ended. Its callback is ready from then on; it need not have run.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.finished_at.is_some()
    }

    fn of<C: Backend>(conn: &mut C, schema: &Schema, row: BatchRow) -> QueryResult<Self> {
        Ok(Self {
            counts: conn.batch_counts(schema, row.id)?.into(),
            id: row.id,
            name: row.name,
            created_at: time(row.created_at_ms),
            discarded_at: row.discarded_at_ms.map(time),
            cancelled_at: row.cancelled_at_ms.map(time),
            finished_at: row.finished_at_ms.map(time),
        })
    }
}

/// A batch with its counts; `None` when there is none with this id. It counts rows, so it takes longer the more there are.
///
/// # Errors
///
/// The database's.
pub fn record(conn: &mut impl AsBackend, schema: &Schema, id: i64) -> QueryResult<Option<BatchRecord>> {
    let conn = conn.as_backend();
    let row = conn.batch(schema, id)?;
    row.map(|row| BatchRecord::of(conn, schema, row)).transpose()
}

/// The batch whose callback a job is.
pub(crate) fn of_callback<C: Backend>(conn: &mut C, schema: &Schema, job_id: i64) -> QueryResult<Option<BatchRecord>> {
    let row = conn.batch_of_callback(schema, job_id)?;
    row.map(|row| BatchRecord::of(conn, schema, row)).transpose()
}

/// Waits until a batch has finished, and returns it; `progress` is told whenever a look found other counts than the last.
/// It looks twice a second.
///
/// # Errors
///
/// [`WaitError`]; at once when there is no such batch.
pub fn wait_for(
    conn: &mut impl AsBackend,
    schema: &Schema,
    id: i64,
    timeout: Duration,
    mut progress: impl FnMut(&BatchRecord),
) -> Result<BatchRecord, WaitError> {
    let mut told = None;
    wait_until(conn, format!("batch {id}"), timeout, false, |conn| {
        let Some(batch) = record(conn, schema, id)? else {
            return Ok(Look::Missing);
        };
        if told.replace(batch.counts) != Some(batch.counts) {
            progress(&batch);
        }
        Ok(match batch.is_finished() {
            true => Look::Ended(batch),
            false => Look::NotYet,
        })
    })
}
