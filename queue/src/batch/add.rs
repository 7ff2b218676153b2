//! Adding to a batch that runs.

use super::BatchError;
use crate::backend::{AsBackend, Backend};
use crate::enqueue::{EnqueueOptions, Enqueued, Jobs};
use crate::job::Job;
use crate::migrate::Migrate;
use crate::schema::Schema;
use crate::transaction::atomically;

/// Adds a job to a batch that has not finished, in the transaction that is open on `conn`, if any.
///
/// The batch's own jobs add more with their commits ([`LeaseGuard::batch_id`](crate::LeaseGuard::batch_id)). Until that
/// transaction ends, the batch does not finish.
///
/// # Errors
///
/// [`BatchError`]; [`BatchError::Finished`] and [`BatchError::Cancelled`] when it is too late.
///
/// ```
/// # include!("../doctest_setup.rs");
/// # fn links(_: &str) -> Vec<String> { Vec::new() }
/// # #[derive(serde::Serialize, serde::Deserialize, Job)]
/// # #[job(kind = "visit")]
/// # struct Visit { url: String }
/// use leasehold::{Schema, batch};
///
/// impl Handler<SqliteConnection> for Visit {
///     fn run<'j>(self, lease: LeaseGuard<'j, SqliteConnection>, _: &()) -> Outcome<'j> {
///         let (found, batch) = (links(&self.url), lease.batch_id());
///         lease.commit(|tx| {
///             for url in found {
///                 if let Some(batch) = batch {
///                     batch::add(tx, &Schema::default(), batch, &Visit { url })?;
///                 }
///             }
///             Ok(())
///         })
///     }
/// }
/// # fn main() {}
/// ```
pub fn add<J: Job>(conn: &mut impl AsBackend, schema: &Schema, id: i64, job: &J) -> Result<Enqueued, BatchError> {
    let mut added = add_all(conn, schema, id, std::slice::from_ref(job), &EnqueueOptions::new())?;
    Ok(added.swap_remove(0))
}

/// As [`add`], for many jobs of one type with options of their own. All or none are added. What the options say of the
/// schema does not count.
///
/// # Errors
///
/// As [`add`].
pub fn add_all<J: Job>(
    conn: &mut impl AsBackend,
    schema: &Schema,
    id: i64,
    jobs: &[J],
    options: &EnqueueOptions,
) -> Result<Vec<Enqueued>, BatchError> {
    let mut rows = Jobs::default();
    rows.push(jobs, options)?;
    rows.rows_mut().for_each(|row| row.batch_id = Some(id));
    let added = conn
        .as_backend()
        .patiently(|conn| atomically(conn, |conn| insert(conn, schema, id, rows)))??;
    crate::wake::expect_local();
    Ok(added)
}

fn insert<C: Backend>(conn: &mut C, schema: &Schema, id: i64, rows: Jobs) -> Result<Vec<Enqueued>, BatchError> {
    let batch = conn.share_batch(schema, id)?.ok_or(BatchError::Missing { id })?;
    if batch.finished_at_ms.is_some() {
        return Err(BatchError::Finished { id });
    }
    if batch.cancelled_at_ms.is_some() {
        return Err(BatchError::Cancelled { id });
    }
    Ok(rows.insert(conn, schema)?)
}
