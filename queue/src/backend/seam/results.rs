//! What handlers tell of their jobs: results and progress.

use diesel::QueryableByName;
use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Nullable, Text};

use crate::lease::Fence;
use crate::schema::Schema;

/// How far a handler says it has come. Made storable before it gets here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewProgress {
    pub done: i64,
    pub total: i64,
    pub text: String,
}

/// The newest progress of a job.
#[derive(Debug, Clone, QueryableByName)]
pub struct ProgressRow {
    #[diesel(sql_type = BigInt)]
    pub generation: i64,
    #[diesel(sql_type = BigInt)]
    pub done: i64,
    #[diesel(sql_type = BigInt)]
    pub total: i64,
    #[diesel(sql_type = Text)]
    pub text: String,
    #[diesel(sql_type = BigInt)]
    pub at_ms: i64,
}

/// A result, as JSON; `None` for a job that completed without one, or has not completed.
#[derive(Debug, Clone, QueryableByName)]
pub struct ResultRow {
    #[diesel(sql_type = BigInt)]
    pub job_id: i64,
    #[diesel(sql_type = Nullable<Text>)]
    pub result: Option<String>,
}

pub trait ResultStatements {
    /// Stores a result in the transaction of a completion that was accepted.
    fn store_result(&mut self, schema: &Schema, fence: &Fence, result: &str) -> QueryResult<usize>;

    /// The result under which a job completed.
    fn result(&mut self, schema: &Schema, id: i64) -> QueryResult<Option<String>>;

    /// The jobs that a job waits or waited for under `name`, in id order, with their results.
    fn results_waited_for(&mut self, schema: &Schema, id: i64, name: &str) -> QueryResult<Vec<ResultRow>>;

    /// Writes the progress of a running job; 0 when it is not running under this fence.
    fn store_progress(&mut self, schema: &Schema, fence: &Fence, progress: &NewProgress) -> QueryResult<usize>;

    /// The newest progress of a job.
    fn progress(&mut self, schema: &Schema, id: i64) -> QueryResult<Option<ProgressRow>>;
}
