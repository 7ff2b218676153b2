//! Batches at a glance.

use std::time::SystemTime;

use diesel::result::QueryResult;

use crate::backend::{AsBackend, BatchListRow, BatchStatements};
use crate::inspect::{Count, time};
use crate::schema::Schema;

/// Jobs that are counted of one state of one batch, at the most and at the least, and of that state of all batches.
const AT_MOST: i64 = 10_000;
const AT_LEAST: i64 = 100;
const OF_ALL: i64 = 100_000;

/// A batch in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BatchSummary {
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
    /// Jobs that have not ended.
    pub open: Count,
    /// Jobs that ended well.
    pub completed: Count,
    /// Jobs that ended without success.
    pub discarded: Count,
    /// Jobs that were cancelled.
    pub cancelled: Count,
}

impl BatchSummary {
    pub(super) fn of(row: BatchListRow, at_most: i64) -> Self {
        let batch = row.batch;
        // What has finished keeps its numbers, however large they are.
        let end = if batch.finished_at_ms.is_some() {
            i64::MAX
        } else {
            at_most
        };
        Self {
            id: batch.id,
            name: batch.name,
            created_at: time(batch.created_at_ms),
            discarded_at: batch.discarded_at_ms.map(time),
            cancelled_at: batch.cancelled_at_ms.map(time),
            finished_at: batch.finished_at_ms.map(time),
            open: Count::bounded(row.open, end),
            completed: Count::bounded(row.completed, end),
            discarded: Count::bounded(row.discarded, end),
            cancelled: Count::bounded(row.cancelled, end),
        }
    }
}

/// The batches with an id below `before`, the newest first, `limit` at the most: for the next page give the last id.
///
/// It takes milliseconds however many jobs they have. Of each state of an unfinished batch 10,000 jobs are counted, fewer when
/// more than ten batches are asked for, and never fewer than 100; where there are more, the count says so. A finished batch has
/// its exact numbers. [`glance`](super::glance()) tells more of one batch, and [`record`](super::record()) counts
/// every job of it.
///
/// # Errors
///
/// The database's.
///
/// ```
/// # include!("../doctest_setup.rs");
/// use leasehold::{Batch, Schema, batch};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (_url, mut conn) = doctest_database();
/// Batch::new("party").add(&Greet { name: "Ada".to_owned() }).enqueue(&mut conn)?;
/// let newest = batch::list(&mut conn, &Schema::default(), None, 20)?;
/// assert_eq!((newest[0].name.as_str(), newest[0].open.rows), ("party", 1));
/// let older = batch::list(&mut conn, &Schema::default(), Some(newest[0].id), 20)?;
/// assert!(older.is_empty());
/// # Ok(())
/// # }
/// ```
pub fn list(
    conn: &mut impl AsBackend,
    schema: &Schema,
    before: Option<i64>,
    limit: u32,
) -> QueryResult<Vec<BatchSummary>> {
    let at_most = (OF_ALL / i64::from(limit.max(1))).clamp(AT_LEAST, AT_MOST);
    let rows = conn
        .as_backend()
        .list_batches(schema, before.unwrap_or(i64::MAX), i64::from(limit), at_most)?;
    Ok(rows.into_iter().map(|row| BatchSummary::of(row, at_most)).collect())
}
