//! Worker processes show themselves, and what waits for them.

use diesel::QueryableByName;
use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Integer, Text};
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
    /// The kinds that it has handlers for, each with the highest version of a payload.
    pub kinds: Vec<(String, i32)>,
}

/// A kind that a live worker process serves.
#[derive(Debug, Clone, PartialEq, Eq, QueryableByName)]
pub struct KindRow {
    #[diesel(sql_type = Text)]
    pub kind: String,
    /// The highest version of a payload.
    #[diesel(sql_type = Integer)]
    pub version: i32,
}

/// What waits in one queue.
#[derive(Debug, Clone, PartialEq, Eq, QueryableByName)]
pub struct DepthRow {
    #[diesel(sql_type = Text)]
    pub queue: String,
    /// Jobs that are due.
    #[diesel(sql_type = BigInt)]
    pub ready: i64,
    /// Milliseconds since the oldest of those counted, and of the first of each kind and version, came due.
    #[diesel(sql_type = BigInt)]
    pub oldest_ms: i64,
}

pub trait WorkerStatements {
    /// Writes or renews this process's row.
    fn show_worker(&mut self, schema: &Schema, worker: &WorkerRow) -> QueryResult<usize>;

    /// Removes this process's row, and those not renewed for an hour.
    fn hide_worker(&mut self, schema: &Schema, id: Uuid) -> QueryResult<usize>;

    /// The kinds that processes serve which have shown themselves within a minute.
    fn served_kinds(&mut self, schema: &Schema) -> QueryResult<Vec<KindRow>>;

    /// What waits in the queues that a program serves; of each queue no more than `at_most` are counted.
    fn depths(&mut self, schema: &Schema, serves: &[Served], at_most: i64) -> QueryResult<Vec<DepthRow>>;
}
