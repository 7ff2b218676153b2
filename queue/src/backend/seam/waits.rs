//! Jobs that wait for the end of other jobs.

use diesel::QueryableByName;
use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Bool, Integer, Nullable, Text};

use crate::schema::Schema;

/// That one job waits for another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWait {
    pub job_id: i64,
    pub on_job_id: i64,
    /// Under which it finds the other one's result.
    pub name: String,
    /// Whether it runs if the other one does not complete.
    pub anyway: bool,
}

/// A waiting job's place in the order in which all of them are looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq, QueryableByName)]
pub struct WaitingPlace {
    #[diesel(sql_type = Text)]
    pub kind: String,
    #[diesel(sql_type = BigInt)]
    pub id: i64,
}

/// What a look at a job found that is kept by others.
#[derive(Debug, Clone, QueryableByName)]
pub struct WaitingRow {
    #[diesel(sql_type = BigInt)]
    pub id: i64,
    #[diesel(sql_type = Text)]
    pub queue: String,
    #[diesel(sql_type = Text)]
    pub kind: String,
    #[diesel(sql_type = Integer)]
    pub attempt: i32,
    #[diesel(sql_type = BigInt)]
    pub generation: i64,
    #[diesel(sql_type = Nullable<BigInt>)]
    pub batch_id: Option<i64>,
    /// Whether one that it waits for has not ended.
    #[diesel(sql_type = Bool)]
    pub open: bool,
    /// One that it waits for, and that ended without being completed.
    #[diesel(sql_type = Nullable<BigInt>)]
    pub failed_on: Option<i64>,
}

pub trait WaitStatements {
    /// Writes waits, 1,000 at the most, in the transaction that enqueues the jobs.
    fn insert_waits(&mut self, schema: &Schema, waits: &[NewWait]) -> QueryResult<usize>;

    /// Jobs that wait or waited for one of `ended`, in the order of their ids.
    fn dependents(&mut self, schema: &Schema, ended: &[i64], after: i64, limit: i64) -> QueryResult<Vec<i64>>;

    /// Jobs that are kept by others, from a place on.
    fn waiting_jobs(&mut self, schema: &Schema, after: &WaitingPlace, limit: i64) -> QueryResult<Vec<WaitingPlace>>;

    /// Looks at those of `ids` that still wait for jobs. While one has not ended, only `ended` are asked how they did.
    fn look_at_waiting(&mut self, schema: &Schema, ids: &[i64], ended: &[i64]) -> QueryResult<Vec<WaitingRow>>;

    /// Lets waiting jobs go, each as (id, generation as read), and wakes listeners; those that are locked are left out. The
    /// ids of those that were let go.
    fn unblock(&mut self, schema: &Schema, jobs: &[(i64, i64)]) -> QueryResult<Vec<i64>>;
}
