//! Events that leave the database: written in the transaction that makes them true, delivered afterwards by a relay.
//!
//! [`emit`] takes part in the transaction that is open: the event is there when the caller's other writes are, and not
//! otherwise. A relay ([`Worker::relay`](crate::Worker::relay)) gives it to a [`Deliver`], at least once, each time with the
//! same [event id](Delivery::event_id), and deletes it once that has succeeded. The
//! [guide](https://github.com/leasehold/leasehold/blob/main/docs/guide/outbox.md) has the order rule and says what is promised
//! at each boundary.
//!
//! ```
//! # include!("doctest_setup.rs");
//! use leasehold::outbox::{self, Delivery, Event};
//! use leasehold::{Schema, Worker};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (url, mut conn) = doctest_database();
//! # diesel::sql_query("CREATE TABLE orders (id INTEGER)").execute(&mut conn)?;
//! conn.transaction(|tx| {
//!     diesel::sql_query("INSERT INTO orders VALUES (42)").execute(tx)?;
//!     let placed = Event::new("orders", &serde_json::json!({ "placed": 42 })).key("order-42");
//!     outbox::emit(tx, &Schema::default(), &placed)
//! })?;
//!
//! let summary = Worker::<SqliteConnection, _>::new(url, ())
//!     .relay("orders", |delivery: &Delivery<'_>| {
//!         println!("{} {}", delivery.event_id(), delivery.payload_json());
//!         Ok(())
//!     })
//!     .run_until_empty()?;
//! assert_eq!(summary.counts.delivered, 1);
//! # Ok(())
//! # }
//! ```

mod dead;
pub use dead::{DeadEvent, TopicCounts, counts, dead, drop_dead, redeliver};

mod deliver;
pub(crate) use deliver::Verdict;
pub use deliver::{Deliver, DeliverError, Delivery};

#[cfg(feature = "http")]
mod http;
#[cfg(feature = "http")]
pub use http::{HttpPost, HttpPostError};

mod relay;
pub use relay::Relay;

pub use crate::events::EventInfo;

use std::fmt;

use diesel::result::Error;
use serde::Serialize;
use uuid::Uuid;

use crate::backend::{AsBackend, Backend, NewEvent};
use crate::commit::depth;
use crate::enqueue::{MAX_PAYLOAD_BYTES, MAX_PAYLOAD_DEPTH, Unstorable, check_json};
use crate::name::{self, NameError};
use crate::schema::Schema;
use crate::transaction::atomically;

/// Events in one statement, and the bytes of their payloads.
const CHUNK: usize = 1000;
const CHUNK_BYTES: usize = 16 * 1024 * 1024;

/// How often an event is delivered that says nothing else.
const MAX_ATTEMPTS: u32 = 20;

/// Something that has happened, for others to hear of.
pub struct Event {
    topic: String,
    key: Option<String>,
    payload: Result<String, serde_json::Error>,
    max_attempts: u32,
}

impl Event {
    /// An event of a topic, 1 to 128 bytes, with a payload of 1 MiB of JSON at the most.
    ///
    /// ```
    /// use leasehold::outbox::Event;
    ///
    /// #[derive(serde::Serialize)]
    /// struct Placed {
    ///     order: i64,
    /// }
    ///
    /// let event = Event::new("orders", &Placed { order: 42 }).key("order-42").max_attempts(50);
    /// # let _ = event;
    /// ```
    pub fn new(topic: impl Into<String>, payload: &(impl Serialize + ?Sized)) -> Self {
        Self {
            topic: topic.into(),
            key: None,
            payload: serde_json::to_string(payload),
            max_attempts: MAX_ATTEMPTS,
        }
    }

    /// Keeps this event in order with the others of its topic that have the same key, 1 to 255 bytes. Without a key there is
    /// no order.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// How often its delivery is tried before it is dead; 20 times by default, which takes about eight hours with the
    /// backoff that a [`Relay`] has by default.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts;
        self
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the payload, which may hold secrets.
        f.debug_struct("Event")
            .field("topic", &self.topic)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// Why an event was not emitted. Nothing is in the database then; in a transaction of the caller's, it can go on unless the
/// database itself refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmitError {
    /// The payload's `Serialize` failed.
    #[error("the payload does not serialize: {0}")]
    Serialize(#[source] serde_json::Error),
    /// The payload is too large.
    #[error("the payload has {bytes} bytes, more than {MAX_PAYLOAD_BYTES}: store it elsewhere and send where it is")]
    PayloadTooLarge {
        /// Its length as JSON.
        bytes: usize,
    },
    /// The payload nests too deep.
    #[error("the payload nests deeper than {MAX_PAYLOAD_DEPTH} levels: flatten it")]
    PayloadTooDeep,
    /// The payload has a NUL character in a text, which PostgreSQL cannot read back.
    #[error("the payload has a NUL character in a text: remove it, or encode the bytes (base64, hex)")]
    PayloadNul,
    /// The topic's name cannot be used.
    #[error("the topic: {0}")]
    Topic(#[source] NameError),
    /// The key cannot be used.
    #[error("the key: {0}")]
    Key(#[source] NameError),
    /// No attempt at all, or more than the table holds.
    #[error("max_attempts is out of range: 1 to 2147483647")]
    MaxAttempts,
    /// The database's error.
    #[error(transparent)]
    Database(#[from] Error),
}

/// Emits an event in the transaction that is open on `conn`, else in one of its own; returns its id, which is the
/// idempotency key of every delivery.
///
/// Emit after the write that puts the transactions of one key in a row (the update of the order, say): ids follow the order
/// of the calls, and what commits later is delivered later.
///
/// ```
/// # include!("doctest_setup.rs");
/// use leasehold::outbox::{self, Event};
/// use leasehold::Schema;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (_url, mut conn) = doctest_database();
/// let id = outbox::emit(&mut conn, &Schema::default(), &Event::new("greetings", "hello").key("you"))?;
/// assert_eq!(outbox::counts(&mut conn, &Schema::default())?[0].ready, 1);
/// # let _ = id;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`EmitError`]; what can be checked is checked before the database is asked.
pub fn emit(conn: &mut impl AsBackend, schema: &Schema, event: &Event) -> Result<Uuid, EmitError> {
    let new = new_event(event)?;
    let id = new.event_id;
    insert(conn.as_backend(), schema, &[new])?;
    Ok(id)
}

/// Emits many events, a thousand in a statement, in the order given: all of them or none. The ids are in the same order.
///
/// # Errors
///
/// As [`emit`].
pub fn emit_all(conn: &mut impl AsBackend, schema: &Schema, events: &[Event]) -> Result<Vec<Uuid>, EmitError> {
    let new = events.iter().map(new_event).collect::<Result<Vec<_>, _>>()?;
    let ids = new.iter().map(|event| event.event_id).collect();
    if !new.is_empty() {
        insert(conn.as_backend(), schema, &new)?;
    }
    Ok(ids)
}

fn insert<C: Backend>(conn: &mut C, schema: &Schema, events: &[NewEvent]) -> Result<(), Error> {
    if depth(conn)? > 0 {
        insert_all(conn, schema, events)?;
        crate::wake::expect_relays();
    } else {
        // A connection of the application's may be told to wait for no other writer: Diesel's default on SQLite.
        conn.patiently(|conn| insert_all(conn, schema, events))??;
        crate::wake::wake_relays();
    }
    for event in events {
        crate::metrics::count_event("leasehold_emitted_total", &event.topic);
    }
    Ok(())
}

fn insert_all<C: Backend>(conn: &mut C, schema: &Schema, events: &[NewEvent]) -> Result<(), Error> {
    let mut rest = events;
    let first = chunk(rest);
    if first.len() == rest.len() {
        return conn.emit(schema, first).map(drop);
    }
    atomically(conn, |conn| {
        while !rest.is_empty() {
            let now = chunk(rest);
            conn.emit(schema, now)?;
            rest = &rest[now.len()..];
        }
        Ok(())
    })
}

/// As many as go into one statement.
fn chunk(events: &[NewEvent]) -> &[NewEvent] {
    let mut bytes = 0;
    let fit = events.iter().take(CHUNK).take_while(|event| {
        bytes += event.payload.len();
        bytes <= CHUNK_BYTES
    });
    let fit = fit.count().max(1).min(events.len());
    &events[..fit]
}

fn new_event(event: &Event) -> Result<NewEvent, EmitError> {
    name::check(&event.topic, 128).map_err(EmitError::Topic)?;
    if let Some(key) = &event.key {
        name::check(key, 255).map_err(EmitError::Key)?;
    }
    let payload = match &event.payload {
        Ok(payload) => payload.clone(),
        // An error is not cloned, and the event may be emitted again.
        Err(error) => {
            return Err(EmitError::Serialize(<serde_json::Error as serde::ser::Error>::custom(
                error,
            )));
        }
    };
    check_json(&payload).map_err(|unstorable| match unstorable {
        Unstorable::TooLarge { bytes } => EmitError::PayloadTooLarge { bytes },
        Unstorable::TooDeep => EmitError::PayloadTooDeep,
        Unstorable::Nul => EmitError::PayloadNul,
    })?;
    let max_attempts = i32::try_from(event.max_attempts).ok().filter(|attempts| *attempts > 0);
    Ok(NewEvent {
        // From the operating system's random source.
        event_id: Uuid::new_v4(),
        topic: event.topic.clone(),
        key: event.key.clone(),
        payload,
        max_attempts: max_attempts.ok_or(EmitError::MaxAttempts)?,
    })
}
