//! What ended in which queue.

use std::collections::BTreeSet;

use diesel::result::QueryResult;

use super::{Count, State};
use crate::backend::{AsBackend, FigureStatements};
use crate::schema::Schema;

/// Jobs that are looked at of each state.
const AT_MOST: i64 = 5_000;

/// Jobs of one queue that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndedRecord {
    /// The queue.
    pub queue: String,
    /// Jobs that ended well.
    pub completed: Count,
    /// Jobs that ended without success.
    pub discarded: Count,
    /// Jobs that were cancelled.
    pub cancelled: Count,
}

/// The queues of finished jobs, in the order of their names.
///
/// It takes milliseconds however many jobs there are: of each state it looks at the 5,000 that ended last. When there are more,
/// each queue's count of that state says so, and a queue whose jobs all ended before is missing. [`counts`](super::counts) counts
/// every row, and [`rates`](super::rates()) tells when they ended.
///
/// # Errors
///
/// The database's.
///
/// ```
/// # include!("../doctest_setup.rs");
/// use leasehold::inspect;
/// use leasehold::Schema;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (_url, mut conn) = doctest_database();
/// for queue in inspect::ended(&mut conn, &Schema::default())? {
///     println!("{}: {} completed, {} discarded", queue.queue, queue.completed, queue.discarded);
/// }
/// # Ok(())
/// # }
/// ```
pub fn ended(conn: &mut impl AsBackend, schema: &Schema) -> QueryResult<Vec<EndedRecord>> {
    let rows = conn.as_backend().ended_by_queue(schema, AT_MOST)?;
    let count = |queue: &str, state: State| {
        let of_state = || rows.iter().filter(move |row| row.state == state.as_str());
        Count {
            rows: of_state()
                .filter(|row| row.queue == queue)
                .map(|row| row.jobs.unsigned_abs())
                .sum(),
            more: of_state().map(|row| row.jobs).sum::<i64>() >= AT_MOST,
        }
    };
    let names: BTreeSet<&str> = rows.iter().map(|row| row.queue.as_str()).collect();
    Ok(names
        .into_iter()
        .map(|queue| EndedRecord {
            queue: queue.to_owned(),
            completed: count(queue, State::Completed),
            discarded: count(queue, State::Discarded),
            cancelled: count(queue, State::Cancelled),
        })
        .collect())
}
