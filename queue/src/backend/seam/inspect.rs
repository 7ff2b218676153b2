//! Looking at rows, and what tests move in them.

use diesel::QueryableByName;
use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Bool, Integer, Nullable, Text};

use crate::schema::Schema;

/// One job, wherever it is now.
#[derive(Debug, Clone, QueryableByName)]
pub struct JobRow {
    #[diesel(sql_type = BigInt)]
    pub id: i64,
    #[diesel(sql_type = Text)]
    pub queue: String,
    #[diesel(sql_type = Text)]
    pub kind: String,
    #[diesel(sql_type = Integer)]
    pub version: i32,
    #[diesel(sql_type = Text)]
    pub payload: String,
    #[diesel(sql_type = Text)]
    pub state: String,
    #[diesel(sql_type = Integer)]
    pub priority: i32,
    /// Milliseconds since 1970.
    #[diesel(sql_type = BigInt)]
    pub run_at_ms: i64,
    #[diesel(sql_type = Integer)]
    pub attempt: i32,
    #[diesel(sql_type = Integer)]
    pub max_attempts: i32,
    #[diesel(sql_type = BigInt)]
    pub generation: i64,
    #[diesel(sql_type = Text)]
    pub idempotency_key: String,
    #[diesel(sql_type = Bool)]
    pub cancel_requested: bool,
    #[diesel(sql_type = BigInt)]
    pub created_at_ms: i64,
    #[diesel(sql_type = Nullable<BigInt>)]
    pub finished_at_ms: Option<i64>,
    #[diesel(sql_type = Nullable<Text>)]
    pub reason: Option<String>,
}

/// One failed attempt of a job.
#[derive(Debug, Clone, QueryableByName)]
pub struct ErrorRow {
    #[diesel(sql_type = Integer)]
    pub attempt: i32,
    #[diesel(sql_type = BigInt)]
    pub generation: i64,
    #[diesel(sql_type = BigInt)]
    pub at_ms: i64,
    #[diesel(sql_type = Text)]
    pub cause: String,
    #[diesel(sql_type = Text)]
    pub error: String,
}

/// How many jobs of one queue are in one state.
#[derive(Debug, Clone, QueryableByName)]
pub struct CountRow {
    #[diesel(sql_type = Text)]
    pub queue: String,
    /// `ready`, `scheduled`, `blocked`, `running`, `completed`, `discarded` or `cancelled`.
    #[diesel(sql_type = Text)]
    pub state: String,
    #[diesel(sql_type = BigInt)]
    pub jobs: i64,
}

pub trait InspectStatements {
    /// One job, wherever it is.
    fn job(&mut self, schema: &Schema, id: i64) -> QueryResult<Option<JobRow>>;

    /// Its failed attempts, oldest first.
    fn job_errors(&mut self, schema: &Schema, id: i64) -> QueryResult<Vec<ErrorRow>>;

    /// Jobs by queue and state.
    fn counts(&mut self, schema: &Schema) -> QueryResult<Vec<CountRow>>;

    /// Jobs of one kind that have not ended, oldest first.
    fn open_jobs(&mut self, schema: &Schema, kind: &str) -> QueryResult<Vec<JobRow>>;

    /// Moves the run time of a ready job (tests): milliseconds from now, negative for the past.
    fn move_run_at(&mut self, schema: &Schema, id: i64, after_ms: i64) -> QueryResult<usize>;

    /// Lets the lease of a running job expire now (tests).
    fn expire_lease(&mut self, schema: &Schema, id: i64) -> QueryResult<usize>;
}
