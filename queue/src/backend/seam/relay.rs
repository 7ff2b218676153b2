//! A relay gets events of its topic, keeps them, and says what became of them.

use diesel::QueryableByName;
use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Bool, Integer, Nullable, Text};
use uuid::Uuid;

use crate::lease::Fence;
use crate::schema::Schema;

/// A topic but for the keys: a plain read.
#[derive(Debug, Clone, Copy, Default, QueryableByName)]
pub struct TopicLook {
    /// Held by any relay.
    #[diesel(sql_type = BigInt)]
    pub running: i64,
    /// Milliseconds until the first lease ends; zero when it has ended.
    #[diesel(sql_type = Nullable<BigInt>)]
    pub lease_ms: Option<i64>,
    /// Milliseconds until the first event without a key is due; zero when it is due.
    #[diesel(sql_type = Nullable<BigInt>)]
    pub next_ms: Option<i64>,
    /// Whether a suspect one without a key is due.
    #[diesel(sql_type = Bool)]
    pub suspect: bool,
}

/// The first event of a key that is neither delivered nor dead.
#[derive(Debug, Clone, QueryableByName)]
pub struct KeyLook {
    #[diesel(sql_type = Text)]
    pub key: String,
    /// Milliseconds until it is due, zero when it is; `None` when something else keeps it.
    #[diesel(sql_type = Nullable<BigInt>)]
    pub next_ms: Option<i64>,
    #[diesel(sql_type = Bool)]
    pub suspect: bool,
}

/// What a claim of events asks for.
#[derive(Debug, Clone)]
pub struct EventClaim<'a> {
    pub topic: &'a str,
    /// The keys to look at.
    pub keys: &'a [String],
    /// Events of one key at the most.
    pub run: i64,
    /// Events without a key at the most.
    pub unkeyed: i64,
    /// Events at the most.
    pub limit: i64,
    /// Suspect ones, else only others.
    pub suspect: bool,
    /// Whether a dead event keeps the later ones of its key.
    pub halt: bool,
    /// Fresh from the operating system's random source for this call.
    pub lease_token: Uuid,
    pub lease_ms: i64,
}

/// A claimed event.
#[derive(Debug, Clone, QueryableByName)]
pub struct EventRow {
    #[diesel(sql_type = BigInt)]
    pub id: i64,
    /// Hyphenated.
    #[diesel(sql_type = Text)]
    pub event_id: String,
    #[diesel(sql_type = Nullable<Text>)]
    pub key: Option<String>,
    #[diesel(sql_type = Text)]
    pub payload: String,
    #[diesel(sql_type = Integer)]
    pub attempt: i32,
    #[diesel(sql_type = Integer)]
    pub max_attempts: i32,
    #[diesel(sql_type = BigInt)]
    pub generation: i64,
    #[diesel(sql_type = BigInt)]
    pub created_at_ms: i64,
}

/// A delivery that failed.
#[derive(Debug, Clone)]
pub struct FailedEvent {
    pub fence: Fence,
    /// Until the next try; `None`: there is none, and the event is dead.
    pub delay_ms: Option<i64>,
    pub error: String,
}

/// An event whose lease had run out.
#[derive(Debug, Clone, QueryableByName)]
pub struct SweptEvent {
    /// Hyphenated.
    #[diesel(sql_type = Text)]
    pub event_id: String,
    #[diesel(sql_type = Nullable<Text>)]
    pub key: Option<String>,
    #[diesel(sql_type = Integer)]
    pub attempt: i32,
    #[diesel(sql_type = BigInt)]
    pub generation: i64,
    /// What it is now: `ready` or `dead`.
    #[diesel(sql_type = Text)]
    pub state: String,
}

pub trait RelayStatements {
    /// What there is of a topic beside its keys.
    fn look_at_topic(&mut self, schema: &Schema, topic: &str) -> QueryResult<TopicLook>;

    /// The keys that follow on one and have undelivered events, `limit` at the most. `halt`: a dead event keeps its key.
    fn look_at_keys(
        &mut self,
        schema: &Schema,
        topic: &str,
        after: &str,
        limit: i64,
        halt: bool,
    ) -> QueryResult<Vec<KeyLook>>;

    /// Makes this transaction the only one that claims from the topic, until it ends; false when another one does.
    fn try_lock_topic(&mut self, schema: &Schema, topic: &str) -> QueryResult<bool>;

    /// Claims events, of each key the first ones without a gap; part of a transaction that has the topic's lock.
    fn claim_events(&mut self, schema: &Schema, claim: &EventClaim<'_>) -> QueryResult<Vec<EventRow>>;

    /// The events of a claim whose answer was lost, by its token.
    fn find_claimed_events(&mut self, schema: &Schema, topic: &str, lease_token: Uuid) -> QueryResult<Vec<EventRow>>;

    /// Renews leases; returns the ids of those that are still held.
    fn renew_events(&mut self, schema: &Schema, fences: &[Fence], lease_ms: i64) -> QueryResult<Vec<i64>>;

    /// Deletes events that were delivered; returns the ids of those that were still held.
    fn delete_delivered(&mut self, schema: &Schema, fences: &[Fence]) -> QueryResult<Vec<i64>>;

    /// Puts back events whose delivery failed, or ends them; returns the ids of those that were still held.
    fn fail_events(&mut self, schema: &Schema, failed: &[FailedEvent]) -> QueryResult<Vec<i64>>;

    /// Puts back events unharmed, their attempt with them; returns the ids of those that were still held.
    fn release_events(&mut self, schema: &Schema, fences: &[Fence]) -> QueryResult<Vec<i64>>;

    /// Takes back expired leases: generation + 1. Nobody knows which event of a batch its relay was at, so each gets its
    /// attempt back, once, and is suspect from then on; one that was claimed alone keeps count, and is dead after its last.
    fn sweep_events(&mut self, schema: &Schema, topic: &str, limit: i64) -> QueryResult<Vec<SweptEvent>>;
}
