//! Many jobs that are looked at together.

use std::ops::RangeInclusive;

use diesel::QueryableByName;
use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Bool, Nullable, Text};

use crate::schema::Schema;

/// A batch as it is written. Checked before it gets here.
#[derive(Debug, Clone)]
pub struct NewBatch {
    pub name: String,
    /// The callbacks, which are among the jobs already.
    pub done_job: Option<i64>,
    pub discarded_job: Option<i64>,
}

/// A batch as it is stored.
#[derive(Debug, Clone, QueryableByName)]
pub struct BatchRow {
    #[diesel(sql_type = BigInt)]
    pub id: i64,
    #[diesel(sql_type = Text)]
    pub name: String,
    #[diesel(sql_type = BigInt)]
    pub created_at_ms: i64,
    #[diesel(sql_type = Nullable<BigInt>)]
    pub done_job: Option<i64>,
    #[diesel(sql_type = Nullable<BigInt>)]
    pub discarded_job: Option<i64>,
    #[diesel(sql_type = Nullable<BigInt>)]
    pub discarded_at_ms: Option<i64>,
    #[diesel(sql_type = Nullable<BigInt>)]
    pub cancelled_at_ms: Option<i64>,
    #[diesel(sql_type = Nullable<BigInt>)]
    pub finished_at_ms: Option<i64>,
}

/// How many jobs of a batch are in which state.
#[derive(Debug, Clone, Copy, Default, QueryableByName)]
pub struct BatchCountRow {
    #[diesel(sql_type = BigInt)]
    pub ready: i64,
    #[diesel(sql_type = BigInt)]
    pub scheduled: i64,
    #[diesel(sql_type = BigInt)]
    pub blocked: i64,
    #[diesel(sql_type = BigInt)]
    pub running: i64,
    #[diesel(sql_type = BigInt)]
    pub completed: i64,
    #[diesel(sql_type = BigInt)]
    pub discarded: i64,
    #[diesel(sql_type = BigInt)]
    pub cancelled: i64,
}

/// A batch in a list.
#[derive(Debug, Clone, QueryableByName)]
pub struct BatchListRow {
    #[diesel(embed)]
    pub batch: BatchRow,
    /// Jobs that have not ended.
    #[diesel(sql_type = BigInt)]
    pub open: i64,
    #[diesel(sql_type = BigInt)]
    pub completed: i64,
    #[diesel(sql_type = BigInt)]
    pub discarded: i64,
    #[diesel(sql_type = BigInt)]
    pub cancelled: i64,
}

/// What a look at an unfinished batch found.
#[derive(Debug, Clone, Copy, QueryableByName)]
pub struct BatchLook {
    #[diesel(sql_type = BigInt)]
    pub id: i64,
    /// Whether one of its jobs has not ended.
    #[diesel(sql_type = Bool)]
    pub open: bool,
    /// Whether one was discarded, and nobody was told.
    #[diesel(sql_type = Bool)]
    pub discarded: bool,
}

pub trait BatchStatements {
    /// Writes a batch; its id.
    fn insert_batch(&mut self, schema: &Schema, batch: &NewBatch) -> QueryResult<i64>;

    /// Keeps a batch from finishing and from being cancelled until the transaction ends; many may at once. The batch as it
    /// is then.
    fn share_batch(&mut self, schema: &Schema, id: i64) -> QueryResult<Option<BatchRow>>;

    /// A batch, without a lock.
    fn batch(&mut self, schema: &Schema, id: i64) -> QueryResult<Option<BatchRow>>;

    /// The batches of these jobs, which have ended.
    fn batches_of(&mut self, schema: &Schema, ended: &[i64]) -> QueryResult<Vec<i64>>;

    /// The batch whose callback a job is.
    fn batch_of_callback(&mut self, schema: &Schema, job_id: i64) -> QueryResult<Option<BatchRow>>;

    /// How many jobs of a batch are in which state; of a finished one, as it was when it finished.
    fn batch_counts(&mut self, schema: &Schema, id: i64) -> QueryResult<BatchCountRow>;

    /// Batches with an id below `before`, the newest first, `limit` at the most. Of an unfinished one no more than `at_most`
    /// jobs of a state are counted.
    fn list_batches(
        &mut self,
        schema: &Schema,
        before: i64,
        limit: i64,
        at_most: i64,
    ) -> QueryResult<Vec<BatchListRow>>;

    /// Looks at unfinished batches in the order of their ids, `limit` at the most.
    fn look_at_batches(&mut self, schema: &Schema, ids: RangeInclusive<i64>, limit: i64)
    -> QueryResult<Vec<BatchLook>>;

    /// Locks an unfinished batch, so that nobody adds to it; `None` when somebody else has it locked, or it has finished.
    fn lock_batch(&mut self, schema: &Schema, id: i64) -> QueryResult<Option<BatchRow>>;

    /// Notes that a discarded job was seen, once.
    fn mark_batch_discarded(&mut self, schema: &Schema, id: i64) -> QueryResult<usize>;

    /// Notes that every job has ended, and how, once.
    fn finish_batch(&mut self, schema: &Schema, id: i64) -> QueryResult<usize>;

    /// Notes that a batch is cancelled, waiting for those who add to it; 0 when it has finished.
    fn cancel_batch(&mut self, schema: &Schema, id: i64) -> QueryResult<usize>;

    /// Removes batches that finished at least so many milliseconds ago, `limit` at the most.
    fn sweep_batches(&mut self, schema: &Schema, older_than_ms: i64, limit: i64) -> QueryResult<usize>;

    /// The jobs of a batch that have not ended, in the order of their ids.
    fn open_in_batch(&mut self, schema: &Schema, id: i64, after: i64, limit: i64) -> QueryResult<Vec<i64>>;
}
