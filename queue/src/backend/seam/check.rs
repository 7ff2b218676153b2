//! What a check reads.

use diesel::QueryableByName;
use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Bool, Integer, Nullable, Text};

use crate::check::{Finding, Thresholds};
use crate::schema::Schema;

/// An index in the schema.
#[derive(Debug, Clone, QueryableByName)]
pub struct IndexRow {
    #[diesel(sql_type = Text)]
    pub name: String,
    #[diesel(sql_type = Bool)]
    pub valid: bool,
}

/// Leases that have ended and are still held.
#[derive(Debug, Clone, QueryableByName)]
pub struct ExpiredRow {
    #[diesel(sql_type = BigInt)]
    pub jobs: i64,
    #[diesel(sql_type = BigInt)]
    pub oldest_ms: i64,
    /// A session that has one of the rows locked.
    #[diesel(sql_type = Nullable<Integer>)]
    pub locked_by: Option<i32>,
}

/// A schedule that is due.
#[derive(Debug, Clone, QueryableByName)]
pub struct LateRow {
    #[diesel(sql_type = Text)]
    pub name: String,
    #[diesel(sql_type = BigInt)]
    pub late_ms: i64,
}

/// Jobs that could be claimed, and no worker has a handler for them.
#[derive(Debug, Clone, QueryableByName)]
pub struct UnservedRow {
    #[diesel(sql_type = Text)]
    pub queue: String,
    #[diesel(sql_type = Text)]
    pub kind: String,
    #[diesel(sql_type = Integer)]
    pub version: i32,
}

pub trait CheckStatements {
    /// What only this backend knows: settings, vacuum, sessions, files.
    fn server_findings(&mut self, schema: &Schema, thresholds: &Thresholds) -> QueryResult<Vec<Finding>>;

    /// Which session of the server runs this; `None` where nothing can sit between.
    fn session(&mut self) -> QueryResult<Option<i32>>;

    /// The indexes of the schema that were made by name.
    fn index_rows(&mut self, schema: &Schema) -> QueryResult<Vec<IndexRow>>;

    /// The clock by which jobs come due, in milliseconds since 1970.
    fn clock_ms(&mut self) -> QueryResult<i64>;

    /// Leases that ended at least `for_ms` ago; no more than 1,000 are counted.
    fn expired_leases(&mut self, schema: &Schema, for_ms: i64) -> QueryResult<ExpiredRow>;

    /// The queues (of the first 1,000) with jobs that could be claimed, and no worker that was there within a minute.
    fn unserved_queues(&mut self, schema: &Schema) -> QueryResult<Vec<String>>;

    /// The kinds and versions (of the first 1,000) with jobs that could be claimed from a queue that is served, by no worker with a
    /// handler for them.
    fn unserved_kinds(&mut self, schema: &Schema) -> QueryResult<Vec<UnservedRow>>;

    /// The schedules that are not paused and should have fired at least `by_ms` ago, the first 100.
    fn late_schedules(&mut self, schema: &Schema, by_ms: i64) -> QueryResult<Vec<LateRow>>;
}
