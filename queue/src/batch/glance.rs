//! One batch at a glance.

use diesel::result::QueryResult;

use super::BatchSummary;
use crate::backend::{AsBackend, BatchStatements, FigureStatements};
use crate::inspect::Count;
use crate::schema::Schema;

/// Jobs that are counted of one state, and that are looked at of those that have not ended.
const AT_MOST: i64 = 10_000;

/// One batch, with its open jobs by what they wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BatchGlance {
    /// The batch, and how its jobs ended.
    pub batch: BatchSummary,
    /// Ready and due.
    pub ready: Count,
    /// Ready, with a run time that is still to come.
    pub scheduled: Count,
    /// Ready, and kept by a limit or by jobs that have to end first.
    pub blocked: Count,
    /// Running.
    pub running: Count,
}

/// One batch; `None` when there is none with this id.
///
/// It takes milliseconds however many jobs it has: of each state in which they ended 10,000 are counted, and as many are looked at
/// that have not ended. Where there are more, the counts say so. A finished batch has its exact numbers.
/// [`record`](super::record()) counts every job.
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
/// let id = Batch::new("party").add(&Greet { name: "Ada".to_owned() }).enqueue(&mut conn)?.id;
/// let glance = batch::glance(&mut conn, &Schema::default(), id)?.expect("it is kept");
/// assert_eq!((glance.batch.name.as_str(), glance.ready.rows, glance.ready.more), ("party", 1, false));
/// # Ok(())
/// # }
/// ```
pub fn glance(conn: &mut impl AsBackend, schema: &Schema, id: i64) -> QueryResult<Option<BatchGlance>> {
    let conn = conn.as_backend();
    // There is no id behind the last.
    let newest = conn.list_batches(schema, id.saturating_add(1), 1, AT_MOST)?;
    let Some(row) = newest.into_iter().find(|row| row.batch.id == id) else {
        return Ok(None);
    };
    let batch = BatchSummary::of(row, AT_MOST);
    let open = match batch.finished_at {
        Some(_) => Vec::new(),
        None => conn.open_of_batch(schema, id, AT_MOST)?,
    };
    let more = open.iter().map(|row| row.jobs).sum::<i64>() >= AT_MOST;
    let count = |name: &str| Count {
        rows: open
            .iter()
            .filter(|row| row.name == name)
            .map(|row| row.jobs.unsigned_abs())
            .sum(),
        more,
    };
    Ok(Some(BatchGlance {
        ready: count("ready"),
        scheduled: count("scheduled"),
        blocked: count("blocked"),
        running: count("running"),
        batch,
    }))
}
