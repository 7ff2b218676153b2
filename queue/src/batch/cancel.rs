//! Cancelling a batch as a whole.

use super::{BatchError, check_now};
use crate::backend::{AsBackend, Backend, BatchStatements};
use crate::follow_up::{Direct, Ended, Followed, follow};
use crate::manage::{Cancel, Deed, Ending, end_these};
use crate::migrate::Migrate;
use crate::schema::Schema;

/// Jobs in one look.
const PAGE: i64 = 500;

/// Cancels a batch, and returns how many of its jobs were cancelled or asked to stop.
///
/// Nothing can be added to it from now on, and each of its jobs that has not ended is cancelled as
/// [`manage::cancel`](crate::manage::cancel()) does: those that are ready at once, running ones at once ([`Cancel::Hard`]) or by
/// request ([`Cancel::Soft`]). Its callback for "all done" is called once all have ended.
///
/// Outside of a transaction each job is cancelled by itself; a call that was cut short can be made again. Inside of one that
/// is repeatable read or serializable, a job that was added since it began is not seen, and runs.
///
/// # Errors
///
/// [`BatchError::Missing`], [`BatchError::Finished`] or the database's.
///
/// ```
/// # include!("../doctest_setup.rs");
/// use leasehold::manage::Cancel;
/// use leasehold::{Batch, Schema, batch};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (_url, mut conn) = doctest_database();
/// let id = Batch::new("party").add(&Greet { name: "you".to_owned() }).enqueue(&mut conn)?.id;
/// assert_eq!(batch::cancel(&mut conn, &Schema::default(), id, Cancel::Hard, "Ada", "rain")?, 1);
/// let batch = batch::record(&mut conn, &Schema::default(), id)?.expect("it is kept");
/// assert_eq!((batch.counts.cancelled, batch.is_finished()), (1, true));
/// # Ok(())
/// # }
/// ```
pub fn cancel(
    conn: &mut impl AsBackend,
    schema: &Schema,
    id: i64,
    how: Cancel,
    by: &str,
    reason: &str,
) -> Result<u64, BatchError> {
    let (conn, deed) = (conn.as_backend(), Deed::new(by, Some(reason)));
    conn.patiently(|conn| {
        deed.to(conn, schema, "cancel", ("batch", &id.to_string()), |conn| {
            close(conn, schema, id).map(|()| true)
        })
    })??;
    let (mut after, mut cancelled) = (i64::MIN, 0);
    loop {
        let page = conn.open_in_batch(schema, id, after, PAGE)?;
        let Some(last) = page.last() else { break };
        after = *last;
        cancelled += conn.patiently(|conn| end_these(conn, schema, &page, Ending::Cancel(how), &deed))??;
        // Whether others wait for them is not known here; looking does no harm.
        let mut ended = Ended::default();
        ended.awaited.extend(page);
        conn.patiently(|conn| follow(&mut Direct(conn), schema, &mut ended, &mut Followed::default()))??;
    }
    conn.patiently(|conn| check_now(conn, schema, id))??;
    crate::wake::expect_local();
    Ok(cancelled)
}

/// From its commit on nobody adds to it.
fn close<C: Backend>(conn: &mut C, schema: &Schema, id: i64) -> Result<(), BatchError> {
    if conn.cancel_batch(schema, id)? > 0 {
        return Ok(());
    }
    Err(match conn.batch(schema, id)? {
        Some(_) => BatchError::Finished { id },
        None => BatchError::Missing { id },
    })
}
