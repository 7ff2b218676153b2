//! The other end of an [outbox](mod@crate::outbox): a consumer that applies each event once.
//!
//! Deliveries come at least once. [`accept`] records the event's id in the transaction of the consumer's own writes, so they
//! are applied with the record or not at all, and a repetition is known by it.
//!
//! ```
//! # include!("doctest_setup.rs");
//! use leasehold::{Schema, inbox};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (_url, mut conn) = doctest_database();
//! # diesel::sql_query("CREATE TABLE bookings (event TEXT)").execute(&mut conn)?;
//! # let event_id = "f47ac10b-58cc-4372-a567-0e02b2c3d479".parse::<uuid::Uuid>()?;
//! for _delivery in 1..=2 {
//!     conn.immediate_transaction(|tx| {
//!         if inbox::accept(tx, &Schema::default(), "bookkeeping", event_id)? {
//!             diesel::sql_query("INSERT INTO bookings VALUES ('placed')").execute(tx)?;
//!         }
//!         Ok::<_, Box<dyn std::error::Error>>(())
//!     })?;
//! }
//! # diesel::table! { bookings (event) { event -> Text } }
//! # assert_eq!(bookings::table.count().get_result::<i64>(&mut conn)?, 1);
//! # Ok(())
//! # }
//! ```
//!
//! Ids are remembered for 30 days, or as long as [`Retention::inbox`](crate::manage::Retention::inbox) says; workers on the
//! same tables forget older ones, and [`purge`] does so by hand. Keep them longer than an event can be on its way: a
//! repetition that comes later counts as new.

use std::time::Duration;

use diesel::result::{Error, QueryResult};
use uuid::Uuid;

use crate::backend::{AsBackend, InboxStatements};
use crate::commit::depth;
use crate::migrate::Migrate;
use crate::name::{self, NameError};
use crate::schema::Schema;
use crate::settle::millis;

/// Rows in one statement.
pub(crate) const CHUNK: i64 = 5000;

/// Why an event was neither accepted nor found to be a repetition.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InboxError {
    /// No transaction is open: the event would be recorded without its effect.
    #[error(
        "no transaction is open: an event is accepted in the transaction that applies it, or a crash in between would lose it"
    )]
    NoTransaction,
    /// The consumer's name cannot be used.
    #[error("the consumer's name: {0}")]
    Consumer(#[source] NameError),
    /// The database's error.
    #[error(transparent)]
    Database(#[from] Error),
}

/// Records in the open transaction that `consumer` (1 to 128 bytes) applies this event: `true` the first time, `false` for a
/// repetition, which is to be answered as if it had been applied now.
///
/// While another transaction is about to record the same, this waits, and answers by how that one ended. At an isolation
/// level above READ COMMITTED the database may answer with a serialization failure instead: the transaction is to be tried
/// again then.
///
/// # Errors
///
/// [`InboxError`].
pub fn accept(tx: &mut impl AsBackend, schema: &Schema, consumer: &str, event_id: Uuid) -> Result<bool, InboxError> {
    name::check(consumer, 128).map_err(InboxError::Consumer)?;
    let tx = tx.as_backend();
    if depth(tx)? == 0 {
        return Err(InboxError::NoTransaction);
    }
    Ok(tx.accept(schema, consumer, event_id)? == 1)
}

/// Removes all events that were accepted at least `older_than` ago, some thousands in a statement; returns how many.
///
/// # Errors
///
/// The database's; what was removed before stays removed, unless the caller's transaction is open.
pub fn purge(conn: &mut impl AsBackend, schema: &Schema, older_than: Duration) -> QueryResult<u64> {
    conn.as_backend().patiently(|conn| {
        let mut purged = 0_u64;
        loop {
            let rows = conn.purge_inbox(schema, millis(older_than), CHUNK)?;
            purged += u64::try_from(rows).unwrap_or_default();
            if i64::try_from(rows).is_ok_and(|rows| rows < CHUNK) {
                return Ok(purged);
            }
        }
    })?
}
