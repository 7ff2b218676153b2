//! Worker processes show themselves.

use diesel::result::QueryResult;
use uuid::Uuid;

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

pub trait WorkerStatements {
    /// Writes or renews this process's row.
    fn show_worker(&mut self, schema: &Schema, worker: &WorkerRow) -> QueryResult<usize>;

    /// Removes this process's row, and those not renewed for an hour.
    fn hide_worker(&mut self, schema: &Schema, id: Uuid) -> QueryResult<usize>;
}
