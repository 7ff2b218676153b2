//! Figures for people: each reads a bounded number of rows, however many there are.

use diesel::QueryableByName;
use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Nullable, Text};

use crate::schema::Schema;

/// How many of the rows that were looked at have a name.
#[derive(Debug, Clone, PartialEq, Eq, QueryableByName)]
pub struct TallyRow {
    #[diesel(sql_type = Text)]
    pub name: String,
    #[diesel(sql_type = BigInt)]
    pub jobs: i64,
}

/// What waits in one queue.
#[derive(Debug, Clone, PartialEq, Eq, QueryableByName)]
pub struct QueueDepthRow {
    #[diesel(sql_type = Text)]
    pub queue: String,
    /// Jobs that are due.
    #[diesel(sql_type = BigInt)]
    pub ready: i64,
    #[diesel(sql_type = BigInt)]
    pub scheduled: i64,
    /// Milliseconds since the oldest that is due came due.
    #[diesel(sql_type = Nullable<BigInt>)]
    pub oldest_ms: Option<i64>,
}

/// Stretches of time of one length, one after the other.
#[derive(Debug, Clone, Copy)]
pub struct Buckets {
    /// When the first begins: milliseconds since 1970.
    pub from_ms: i64,
    pub length_ms: i64,
    pub count: i64,
}

/// How many jobs ended in one state in one bucket.
#[derive(Debug, Clone, PartialEq, Eq, QueryableByName)]
pub struct FinishedRow {
    /// Its number; the first is 0.
    #[diesel(sql_type = BigInt)]
    pub bucket: i64,
    #[diesel(sql_type = Text)]
    pub state: String,
    #[diesel(sql_type = BigInt)]
    pub jobs: i64,
}

/// How many of the jobs that were looked at ended in one state in one queue.
#[derive(Debug, Clone, PartialEq, Eq, QueryableByName)]
pub struct EndedRow {
    #[diesel(sql_type = Text)]
    pub queue: String,
    #[diesel(sql_type = Text)]
    pub state: String,
    #[diesel(sql_type = BigInt)]
    pub jobs: i64,
}

/// How long one completed job took from its run time to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, QueryableByName)]
pub struct TookRow {
    #[diesel(sql_type = BigInt)]
    pub bucket: i64,
    #[diesel(sql_type = BigInt)]
    pub ms: i64,
}

pub trait FigureStatements {
    /// The queues of jobs that are due or scheduled, in their order, `limit` at the most.
    fn queue_names(&mut self, schema: &Schema, limit: i64) -> QueryResult<Vec<String>>;

    /// What waits in these queues: of each figure no more than `at_most` jobs are counted, and of each queue no more than
    /// `heads` pairs of kind and priority are asked for their oldest.
    fn queue_depths(
        &mut self,
        schema: &Schema,
        queues: &[String],
        at_most: i64,
        heads: i64,
    ) -> QueryResult<Vec<QueueDepthRow>>;

    /// Running jobs by queue; `at_most` are looked at.
    fn held_by_queue(&mut self, schema: &Schema, at_most: i64) -> QueryResult<Vec<TallyRow>>;

    /// Blocked jobs by queue; `at_most` are looked at.
    fn blocked_by_queue(&mut self, schema: &Schema, at_most: i64) -> QueryResult<Vec<TallyRow>>;

    /// Finished jobs by queue and state; of each state the `at_most` are looked at that ended last.
    fn ended_by_queue(&mut self, schema: &Schema, at_most: i64) -> QueryResult<Vec<EndedRow>>;

    /// Jobs of a batch that have not ended, by `ready`, `scheduled`, `blocked` and `running`; `at_most` are looked at.
    fn open_of_batch(&mut self, schema: &Schema, batch: i64, at_most: i64) -> QueryResult<Vec<TallyRow>>;

    /// How many jobs ended, by bucket and state: no more than `at_most` are counted of each. What is missing is 0.
    fn finished_counts(&mut self, schema: &Schema, buckets: Buckets, at_most: i64) -> QueryResult<Vec<FinishedRow>>;

    /// How long the first completed jobs of each bucket took, `at_most` of each.
    fn finished_took(&mut self, schema: &Schema, buckets: Buckets, at_most: i64) -> QueryResult<Vec<TookRow>>;
}
