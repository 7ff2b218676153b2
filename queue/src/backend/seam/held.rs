//! Who holds what.

use diesel::QueryableByName;
use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Bool, Integer, Nullable, Text};

use super::TallyRow;
use crate::schema::Schema;

/// A worker process, as others see it.
#[derive(Debug, Clone, QueryableByName)]
pub struct ShownWorkerRow {
    /// A hyphenated UUID.
    #[diesel(sql_type = Text)]
    pub id: String,
    #[diesel(sql_type = Text)]
    pub host: String,
    #[diesel(sql_type = Integer)]
    pub pid: i32,
    #[diesel(sql_type = Integer)]
    pub threads: i32,
    /// As JSON.
    #[diesel(sql_type = Text)]
    pub queues: String,
    #[diesel(sql_type = BigInt)]
    pub started_at_ms: i64,
    #[diesel(sql_type = BigInt)]
    pub heartbeat_at_ms: i64,
    /// Whether its last heartbeat is less than a minute old.
    #[diesel(sql_type = Bool)]
    pub live: bool,
}

/// Which running jobs; a field that is `None` leaves out none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeldMatching {
    pub kind: Option<String>,
    pub queue: Option<String>,
    /// A hyphenated UUID.
    pub worker: Option<String>,
}

/// A running job with its lease, without what an application has written.
#[derive(Debug, Clone, QueryableByName)]
pub struct HeldRow {
    #[diesel(sql_type = BigInt)]
    pub id: i64,
    #[diesel(sql_type = Text)]
    pub queue: String,
    #[diesel(sql_type = Text)]
    pub kind: String,
    #[diesel(sql_type = Integer)]
    pub attempt: i32,
    #[diesel(sql_type = Integer)]
    pub max_attempts: i32,
    #[diesel(sql_type = BigInt)]
    pub generation: i64,
    /// A hyphenated UUID.
    #[diesel(sql_type = Text)]
    pub worker: String,
    #[diesel(sql_type = BigInt)]
    pub lease_ms: i64,
    /// Milliseconds until the lease ends; 0 or less when it has.
    #[diesel(sql_type = BigInt)]
    pub left_ms: i64,
    #[diesel(sql_type = Bool)]
    pub begun: bool,
    #[diesel(sql_type = Nullable<BigInt>)]
    pub cancel_requested_at_ms: Option<i64>,
    #[diesel(sql_type = BigInt)]
    pub created_at_ms: i64,
    /// Of this lease; all or none of the four.
    #[diesel(sql_type = Nullable<BigInt>)]
    pub done: Option<i64>,
    #[diesel(sql_type = Nullable<BigInt>)]
    pub total: Option<i64>,
    #[diesel(sql_type = Nullable<Text>)]
    pub text: Option<String>,
    #[diesel(sql_type = Nullable<BigInt>)]
    pub progress_at_ms: Option<i64>,
}

pub trait HeldStatements {
    /// The processes that show themselves, the newest first.
    fn shown_workers(&mut self, schema: &Schema, limit: i64) -> QueryResult<Vec<ShownWorkerRow>>;

    /// Running jobs by worker; `at_most` are looked at.
    fn held_by_worker(&mut self, schema: &Schema, at_most: i64) -> QueryResult<Vec<TallyRow>>;

    /// Running jobs with an id above `after`, in id order, `limit` at the most; `at_most` are looked at.
    fn held_jobs(
        &mut self,
        schema: &Schema,
        matching: &HeldMatching,
        after: i64,
        limit: i64,
        at_most: i64,
    ) -> QueryResult<Vec<HeldRow>>;
}
