//! Worker processes show themselves, and what waits for them.

use diesel::QueryableByName;
use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Text};
use uuid::Uuid;

use super::Served;
use crate::schema::Schema;

/// A running worker process, as it shows itself.
#[derive(Debug, Clone)]
pub struct WorkerRow {
    pub id: Uuid,
    pub host: String,
    pub pid: i32,
    pub threads: i32,
    pub queues: Vec<String>,
}

/// What waits in one queue.
#[derive(Debug, Clone, PartialEq, Eq, QueryableByName)]
pub struct DepthRow {
    #[diesel(sql_type = Text)]
    pub queue: String,
    /// Jobs that are due.
    #[diesel(sql_type = BigInt)]
    pub ready: i64,
    /// Milliseconds since the oldest of them came due.
    #[diesel(sql_type = BigInt)]
    pub oldest_ms: i64,
}

pub trait WorkerStatements {
    /// Writes or renews this process's row.
    fn show_worker(&mut self, schema: &Schema, worker: &WorkerRow) -> QueryResult<usize>;

    /// Removes this process's row, and those not renewed for an hour.
    fn hide_worker(&mut self, schema: &Schema, id: Uuid) -> QueryResult<usize>;

    /// What waits in the queues that a program serves; of each (queue, kind, version) no more than `at_most` are counted.
    fn depths(&mut self, schema: &Schema, serves: &[Served], at_most: i64) -> QueryResult<Vec<DepthRow>>;
}
