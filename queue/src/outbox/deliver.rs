//! What a relay gives events to.

use std::error::Error as StdError;
use std::fmt;
use std::time::{Duration, SystemTime};

use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::backend::EventRow;
use crate::handler::Chain;
use crate::inspect::time;
use crate::job::Hidden;

/// Takes events out of the database: a closure `Fn(&Delivery<'_>) -> Result<(), DeliverError>`, or a type of its own.
///
/// It is called with no transaction open and no connection held. It may be called again with an event that it took already,
/// after a crash or a lost lease, so whatever it does has to be keyed by the [event id](Delivery::event_id). Bound its time:
/// one that takes longer than a third of the relay's [lease](crate::outbox::Relay::lease) may run beside a second one.
///
/// ```
/// use std::io::Write;
/// use leasehold::outbox::{Deliver, DeliverError, Delivery};
///
/// struct Append(std::fs::File);
///
/// impl Deliver for Append {
///     fn deliver(&self, delivery: &Delivery<'_>) -> Result<(), DeliverError> {
///         writeln!(&self.0, "{} {}", delivery.event_id(), delivery.payload_json())?;
///         Ok(self.0.sync_data()?)
///     }
/// }
/// ```
pub trait Deliver: Send + Sync + 'static {
    /// Delivers one event. `Ok` means that it has arrived and need not be sent again.
    ///
    /// # Errors
    ///
    /// [`DeliverError`]: the event is tried again after the relay's backoff, unless the error says otherwise. A panic counts
    /// as one.
    fn deliver(&self, delivery: &Delivery<'_>) -> Result<(), DeliverError>;
}

impl<F> Deliver for F
where
    F: Fn(&Delivery<'_>) -> Result<(), DeliverError> + Send + Sync + 'static,
{
    fn deliver(&self, delivery: &Delivery<'_>) -> Result<(), DeliverError> {
        self(delivery)
    }
}

/// One delivery of an event.
#[derive(Clone, Copy)]
pub struct Delivery<'a> {
    pub(crate) event_id: Uuid,
    pub(crate) topic: &'a str,
    pub(crate) row: &'a EventRow,
}

impl<'a> Delivery<'a> {
    /// The event's id: the same in every delivery of it, and so the key by which a receiver knows that it has seen it.
    #[must_use]
    pub fn event_id(&self) -> Uuid {
        self.event_id
    }

    /// The topic.
    #[must_use]
    pub fn topic(&self) -> &'a str {
        self.topic
    }

    /// The key within which the order is kept.
    #[must_use]
    pub fn key(&self) -> Option<&'a str> {
        self.row.key.as_deref()
    }

    /// The payload, as the JSON that was written.
    #[must_use]
    pub fn payload_json(&self) -> &'a str {
        &self.row.payload
    }

    /// The payload, decoded.
    ///
    /// # Errors
    ///
    /// When it is not a `T`. With `?` the event is tried again; [`DeliverError::dead`] says that no try would help.
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.row.payload)
    }

    /// Which try this is, the first being 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.row.attempt.unsigned_abs()
    }

    /// When the event was emitted, by the database's clock.
    #[must_use]
    pub fn created_at(&self) -> SystemTime {
        time(self.row.created_at_ms)
    }
}

impl fmt::Debug for Delivery<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery")
            .field("event_id", &self.event_id)
            .field("topic", &self.topic)
            .field("key", &self.row.key)
            .field("payload", &Hidden(&self.row.payload))
            .field("attempt", &self.row.attempt)
            .finish_non_exhaustive()
    }
}

/// Why a delivery failed, and what shall become of the event.
///
/// Every `std::error::Error` turns into "again after the relay's backoff" with `?`. For that reason it does not implement
/// `std::error::Error` itself.
///
/// ```
/// use std::time::Duration;
/// use leasehold::outbox::{DeliverError, Delivery};
///
/// fn deliver(delivery: &Delivery<'_>) -> Result<(), DeliverError> {
///     let order: i64 = delivery.payload().map_err(DeliverError::dead)?;
///     if order == 0 {
///         return Err(DeliverError::retry_after("the receiver is closed", Duration::from_secs(3600)));
///     }
///     Ok(std::fs::write("/tmp/last-order", order.to_string())?)
/// }
/// # let _ = deliver;
/// ```
pub struct DeliverError {
    pub(crate) verdict: Verdict,
    text: String,
}

/// What a relay does after a failed delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Another try, after the given time or the relay's backoff.
    Retry { after: Option<Duration> },
    /// No further try.
    Dead,
}

impl DeliverError {
    /// Another try after the relay's backoff, if any are left.
    pub fn retry(why: impl fmt::Display) -> Self {
        Self::new(Verdict::Retry { after: None }, why)
    }

    /// Another try after the given time, if any are left.
    pub fn retry_after(why: impl fmt::Display, after: Duration) -> Self {
        Self::new(Verdict::Retry { after: Some(after) }, why)
    }

    /// No further try: the event is dead, and kept with this text.
    pub fn dead(why: impl fmt::Display) -> Self {
        Self::new(Verdict::Dead, why)
    }

    /// As `?` does for a `std::error::Error`, for boxed errors and `anyhow::Error`: `.map_err(DeliverError::boxed)?`.
    pub fn boxed(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::retry(Chain(error.into().as_ref()))
    }

    fn new(verdict: Verdict, why: impl fmt::Display) -> Self {
        Self {
            verdict,
            text: why.to_string(),
        }
    }
}

impl<E: StdError + 'static> From<E> for DeliverError {
    fn from(error: E) -> Self {
        Self::retry(Chain(&error))
    }
}

impl fmt::Display for DeliverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for DeliverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeliverError")
            .field("verdict", &self.verdict)
            .field("text", &self.text)
            .finish()
    }
}
