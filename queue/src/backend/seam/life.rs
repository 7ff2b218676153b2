//! What became of jobs, without what an application has written into them.

use diesel::QueryableByName;
use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Bool, Integer, Nullable, Text};

use crate::schema::Schema;

/// A job wherever it is, without its payload.
#[derive(Debug, Clone, QueryableByName)]
pub struct SummaryRow {
    #[diesel(sql_type = BigInt)]
    pub id: i64,
    #[diesel(sql_type = Text)]
    pub queue: String,
    #[diesel(sql_type = Text)]
    pub kind: String,
    #[diesel(sql_type = Text)]
    pub state: String,
    #[diesel(sql_type = Bool)]
    pub scheduled: bool,
    #[diesel(sql_type = Bool)]
    pub blocked: bool,
    #[diesel(sql_type = Integer)]
    pub priority: i32,
    #[diesel(sql_type = BigInt)]
    pub run_at_ms: i64,
    #[diesel(sql_type = Integer)]
    pub attempt: i32,
    #[diesel(sql_type = Integer)]
    pub max_attempts: i32,
    #[diesel(sql_type = BigInt)]
    pub generation: i64,
    #[diesel(sql_type = Nullable<BigInt>)]
    pub batch_id: Option<i64>,
    #[diesel(sql_type = BigInt)]
    pub created_at_ms: i64,
    #[diesel(sql_type = Nullable<BigInt>)]
    pub finished_at_ms: Option<i64>,
    #[diesel(sql_type = Nullable<Text>)]
    pub reason: Option<String>,
}

/// A failed attempt of any job.
#[derive(Debug, Clone, QueryableByName)]
pub struct FailureRow {
    #[diesel(sql_type = BigInt)]
    pub job_id: i64,
    #[diesel(sql_type = Text)]
    pub queue: String,
    #[diesel(sql_type = Text)]
    pub kind: String,
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

/// A recorded step without its result.
#[derive(Debug, Clone, QueryableByName)]
pub struct StepTimeRow {
    #[diesel(sql_type = Text)]
    pub name: String,
    #[diesel(sql_type = BigInt)]
    pub generation: i64,
    #[diesel(sql_type = BigInt)]
    pub at_ms: i64,
}

/// That one job waits or waited for another.
#[derive(Debug, Clone, PartialEq, Eq, QueryableByName)]
pub struct WaitRow {
    #[diesel(sql_type = BigInt)]
    pub job_id: i64,
    #[diesel(sql_type = BigInt)]
    pub on_job_id: i64,
    #[diesel(sql_type = Text)]
    pub name: String,
    #[diesel(sql_type = Bool)]
    pub anyway: bool,
}

pub trait LifeStatements {
    /// Those of `ids` that are anywhere, in id order.
    fn summaries(&mut self, schema: &Schema, ids: &[i64]) -> QueryResult<Vec<SummaryRow>>;

    /// The newest failed attempts of all jobs that are anywhere, the newest first.
    fn newest_errors(&mut self, schema: &Schema, limit: i64) -> QueryResult<Vec<FailureRow>>;

    /// When the steps of a job were recorded, in that order.
    fn step_times(&mut self, schema: &Schema, job_id: i64, limit: i64) -> QueryResult<Vec<StepTimeRow>>;

    /// What these jobs wait for, `limit` waits at the most.
    fn waits_of(&mut self, schema: &Schema, ids: &[i64], limit: i64) -> QueryResult<Vec<WaitRow>>;

    /// What waits for these jobs, `limit` waits at the most.
    fn waits_on(&mut self, schema: &Schema, ids: &[i64], limit: i64) -> QueryResult<Vec<WaitRow>>;
}
