//! Events that nobody could deliver, and how many there are of each topic.

use std::fmt;
use std::time::{Duration, SystemTime};

use diesel::result::QueryResult;
use uuid::Uuid;

use crate::backend::{AsBackend, DeadEventRow, EventCountRow, OutboxStatements};
use crate::commit::depth;
use crate::inspect::time;
use crate::job::Hidden;
use crate::migrate::Migrate;
use crate::schema::Schema;

/// An event that is not delivered any more: its attempts are used up, or its delivery said that none would help.
#[derive(Clone)]
#[non_exhaustive]
pub struct DeadEvent {
    /// Its place in the order, to list on from.
    pub id: i64,
    /// Its id.
    pub event_id: Uuid,
    /// Its topic.
    pub topic: String,
    /// Its key.
    pub key: Option<String>,
    /// Its payload, as JSON. Not shown by `Debug`: it may hold secrets.
    pub payload: String,
    /// How often it was tried.
    pub attempt: u32,
    /// The error of the last try, 8 KiB at the most.
    pub error: String,
    /// When it was emitted.
    pub created_at: SystemTime,
    /// When it was given up.
    pub dead_at: SystemTime,
}

impl From<DeadEventRow> for DeadEvent {
    fn from(row: DeadEventRow) -> Self {
        Self {
            id: row.id,
            event_id: row.event_id.parse().unwrap_or_default(),
            topic: row.topic,
            key: row.key,
            payload: row.payload,
            attempt: row.attempt.unsigned_abs(),
            error: row.error.unwrap_or_default(),
            created_at: time(row.created_at_ms),
            dead_at: time(row.dead_at_ms),
        }
    }
}

impl fmt::Debug for DeadEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadEvent")
            .field("event_id", &self.event_id)
            .field("topic", &self.topic)
            .field("key", &self.key)
            .field("payload", &Hidden(&self.payload))
            .field("attempt", &self.attempt)
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}

/// How many events of a topic there are in which state.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopicCounts {
    /// The topic.
    pub topic: String,
    /// Not tried yet; those behind another one of their key among them.
    pub ready: u64,
    /// Waiting for their next try after one that failed.
    pub retrying: u64,
    /// Claimed by a relay.
    pub running: u64,
    /// Given up, and kept.
    pub dead: u64,
    /// How long ago the oldest was emitted that is not dead.
    pub oldest: Option<Duration>,
}

impl From<EventCountRow> for TopicCounts {
    fn from(row: EventCountRow) -> Self {
        Self {
            topic: row.topic,
            ready: row.ready.unsigned_abs(),
            retrying: row.retrying.unsigned_abs(),
            running: row.running.unsigned_abs(),
            dead: row.dead.unsigned_abs(),
            oldest: row.oldest_ms.map(|ms| Duration::from_millis(ms.max(0).unsigned_abs())),
        }
    }
}

/// Dead events, of one topic or of all, oldest first: those after the [id](DeadEvent::id) `after` (0 for the first),
/// `limit` at the most.
///
/// ```
/// # include!("../doctest_setup.rs");
/// use leasehold::outbox::{self, DeliverError, Delivery, Event};
/// use leasehold::{Schema, Worker};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (url, mut conn) = doctest_database();
/// let schema = Schema::default();
/// outbox::emit(&mut conn, &schema, &Event::new("orders", &42))?;
/// let refuse = |_: &Delivery<'_>| Err(DeliverError::dead("no such order"));
/// let summary = Worker::<SqliteConnection, _>::new(&url, ()).relay("orders", refuse).run_until_empty()?;
/// assert!(!summary.is_success());
///
/// let dead = outbox::dead(&mut conn, &schema, Some("orders"), 0, 100)?;
/// assert_eq!(dead[0].error, "no such order");
/// assert_eq!(outbox::redeliver(&mut conn, &schema, &[dead[0].event_id])?, 1);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// The database's.
pub fn dead(
    conn: &mut impl AsBackend,
    schema: &Schema,
    topic: Option<&str>,
    after: i64,
    limit: u32,
) -> QueryResult<Vec<DeadEvent>> {
    let rows = conn.as_backend().dead_events(schema, topic, after, i64::from(limit))?;
    Ok(rows.into_iter().map(DeadEvent::from).collect())
}

/// Makes dead events ready again, with all their attempts; those that are not dead are left alone. Returns how many were.
///
/// In the order of its key such an event has its old place: it comes next, though later ones may have been delivered. Its
/// event id is the same, so a consumer whose [inbox](crate::inbox) still remembers it refuses it.
///
/// # Errors
///
/// The database's.
pub fn redeliver(conn: &mut impl AsBackend, schema: &Schema, events: &[Uuid]) -> QueryResult<usize> {
    let conn = conn.as_backend();
    if depth(conn)? > 0 {
        let redelivered = conn.redeliver(schema, events)?;
        crate::wake::expect_relays();
        return Ok(redelivered);
    }
    let redelivered = conn.patiently(|conn| conn.redeliver(schema, events))??;
    crate::wake::wake_relays();
    Ok(redelivered)
}

/// Deletes dead events for good; those that are not dead are left alone. Returns how many were.
///
/// # Errors
///
/// The database's.
pub fn drop_dead(conn: &mut impl AsBackend, schema: &Schema, events: &[Uuid]) -> QueryResult<usize> {
    let conn = conn.as_backend();
    let dropped = conn.patiently(|conn| conn.drop_dead(schema, events))??;
    // One of them may have halted its key.
    crate::wake::expect_relays();
    Ok(dropped)
}

/// How many events there are, by topic. It reads the whole table: for people and for metrics now and then.
///
/// # Errors
///
/// The database's.
pub fn counts(conn: &mut impl AsBackend, schema: &Schema) -> QueryResult<Vec<TopicCounts>> {
    let rows = conn.as_backend().event_counts(schema)?;
    Ok(rows.into_iter().map(TopicCounts::from).collect())
}
