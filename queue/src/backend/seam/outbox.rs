//! Events become rows, and people look after those that nobody could deliver.

use diesel::QueryableByName;
use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Integer, Nullable, Text};
use uuid::Uuid;

use crate::schema::Schema;

/// An event as it is written. Checked before it gets here.
#[derive(Debug, Clone)]
pub struct NewEvent {
    pub event_id: Uuid,
    pub topic: String,
    pub key: Option<String>,
    pub payload: String,
    pub max_attempts: i32,
}

/// An event that is not delivered any more.
#[derive(Debug, Clone, QueryableByName)]
pub struct DeadEventRow {
    #[diesel(sql_type = BigInt)]
    pub id: i64,
    /// Hyphenated.
    #[diesel(sql_type = Text)]
    pub event_id: String,
    #[diesel(sql_type = Text)]
    pub topic: String,
    #[diesel(sql_type = Nullable<Text>)]
    pub key: Option<String>,
    #[diesel(sql_type = Text)]
    pub payload: String,
    #[diesel(sql_type = Integer)]
    pub attempt: i32,
    #[diesel(sql_type = Nullable<Text>)]
    pub error: Option<String>,
    #[diesel(sql_type = BigInt)]
    pub created_at_ms: i64,
    #[diesel(sql_type = BigInt)]
    pub dead_at_ms: i64,
}

/// How many events of one topic are in which state.
#[derive(Debug, Clone, QueryableByName)]
pub struct EventCountRow {
    #[diesel(sql_type = Text)]
    pub topic: String,
    /// Ready, due or behind another one of their key.
    #[diesel(sql_type = BigInt)]
    pub ready: i64,
    /// Ready, after a failed delivery.
    #[diesel(sql_type = BigInt)]
    pub retrying: i64,
    #[diesel(sql_type = BigInt)]
    pub running: i64,
    #[diesel(sql_type = BigInt)]
    pub dead: i64,
    /// Milliseconds since the oldest one that is not dead was emitted.
    #[diesel(sql_type = Nullable<BigInt>)]
    pub oldest_ms: Option<i64>,
}

pub trait OutboxStatements {
    /// Inserts events (1 to 1,000), their ids in this order, and wakes listeners.
    fn emit(&mut self, schema: &Schema, events: &[NewEvent]) -> QueryResult<usize>;

    /// Dead events after an id, oldest first, of one topic or of all.
    fn dead_events(
        &mut self,
        schema: &Schema,
        topic: Option<&str>,
        after: i64,
        limit: i64,
    ) -> QueryResult<Vec<DeadEventRow>>;

    /// Makes dead events ready, with all their attempts, and wakes listeners; returns how many were dead.
    fn redeliver(&mut self, schema: &Schema, events: &[Uuid]) -> QueryResult<usize>;

    /// Deletes dead events; returns how many were dead.
    fn drop_dead(&mut self, schema: &Schema, events: &[Uuid]) -> QueryResult<usize>;

    /// Events by topic.
    fn event_counts(&mut self, schema: &Schema) -> QueryResult<Vec<EventCountRow>>;
}
