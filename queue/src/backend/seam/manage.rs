//! What people do to jobs by hand.

use std::borrow::Cow;

use diesel::QueryableByName;
use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Bool, Nullable};

use super::{JobRow, RunAt};
use crate::inspect::State;
use crate::schema::Schema;

/// Which jobs; a field that is `None` leaves out none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Matching {
    /// As the tables spell it.
    pub state: Option<&'static str>,
    pub kind: Option<String>,
    pub queue: Option<String>,
    pub batch_id: Option<i64>,
    /// Milliseconds since the end, or since the enqueue of those that have not ended.
    pub older_than_ms: Option<i64>,
    /// A part of the reason or of an attempt's error.
    pub error: Option<String>,
}

/// What changes in a ready job.
#[derive(Debug, Clone, Default)]
pub struct Change {
    pub priority: Option<i16>,
    pub run_at: Option<RunAt>,
    pub payload: Option<NewPayload>,
}

/// A payload, and what follows from it.
#[derive(Debug, Clone)]
pub struct NewPayload {
    pub kind: Cow<'static, str>,
    pub payload: String,
    /// `None` where the type is not known: version and keys stay as they are.
    pub typed: Option<TypedPayload>,
}

/// What the type of a payload says of it.
#[derive(Debug, Clone)]
pub struct TypedPayload {
    pub version: i32,
    pub unique_key: Option<String>,
    pub limit_key: Option<String>,
}

/// What became of a finished job that was to be requeued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, QueryableByName)]
pub struct RequeuedRow {
    #[diesel(sql_type = BigInt)]
    pub id: i64,
    /// False: another job has its unique key.
    #[diesel(sql_type = Bool)]
    pub requeued: bool,
}

/// How far a purge has come: the end of the last job that it saw, as the database counts time, and its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PurgeCursor {
    pub finished_at: i64,
    pub id: i64,
}

impl PurgeCursor {
    /// Before every job.
    pub const START: Self = Self {
        finished_at: 0,
        id: i64::MIN,
    };
}

/// What a purge did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, QueryableByName)]
pub struct Purged {
    /// Removed jobs.
    #[diesel(sql_type = BigInt)]
    pub purged: i64,
    /// Jobs that it looked at, those that it left included.
    #[diesel(sql_type = BigInt)]
    pub seen: i64,
    /// The last of them, for the next look.
    #[diesel(sql_type = Nullable<BigInt>)]
    pub finished_at: Option<i64>,
    #[diesel(sql_type = Nullable<BigInt>)]
    pub id: Option<i64>,
}

pub trait ManageStatements {
    /// Jobs with an id above `after`, in id order, `limit` at the most.
    fn jobs(&mut self, schema: &Schema, matching: &Matching, after: i64, limit: i64) -> QueryResult<Vec<JobRow>>;

    /// The ids of the same jobs.
    fn ids(&mut self, schema: &Schema, matching: &Matching, after: i64, limit: i64) -> QueryResult<Vec<i64>>;

    /// Asks running jobs to stop (`cancel_requested_at`), leaving their generation; returns the ids of those that run.
    fn request_cancel(&mut self, schema: &Schema, ids: &[i64]) -> QueryResult<Vec<i64>>;

    /// Ends ready jobs, and with `running` also running ones, as cancelled or discarded, generation + 1; returns the ids that
    /// it ended.
    fn end_open(
        &mut self,
        schema: &Schema,
        ids: &[i64],
        running: bool,
        state: State,
        reason: &str,
    ) -> QueryResult<Vec<i64>>;

    /// Puts discarded and cancelled jobs back to `ready`, generation + 1, each with its unique key unless another job has
    /// that; returns those that were found.
    fn requeue(&mut self, schema: &Schema, ids: &[i64]) -> QueryResult<Vec<RequeuedRow>>;

    /// Changes a ready job that still has `generation`, and adds one to it; 0 rows when it has not, or when the payload
    /// belongs to another kind or unique key.
    fn edit(&mut self, schema: &Schema, id: i64, generation: i64, change: &Change) -> QueryResult<usize>;

    /// Removes jobs that ended in `state` at least so many milliseconds ago, with what was kept of them. It looks at
    /// `limit` of them, the oldest after `after`, and leaves those that an unfinished batch or a waiting job needs.
    fn purge(
        &mut self,
        schema: &Schema,
        state: &str,
        older_than_ms: i64,
        after: PurgeCursor,
        limit: i64,
    ) -> QueryResult<Purged>;
}
