//! Worker processes at a glance.

use std::time::SystemTime;

use diesel::result::QueryResult;
use uuid::Uuid;

use super::{Count, time};
use crate::backend::{AsBackend, HeldStatements, ShownWorkerRow};
use crate::schema::Schema;

/// Processes at the most.
const WORKERS: i64 = 1000;
/// Running jobs that are looked at.
const AT_MOST: i64 = 10_000;

/// One worker process.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerRecord {
    /// Its id, made at its start.
    pub id: Uuid,
    /// The name of its machine.
    pub host: String,
    /// Its process id.
    pub pid: u32,
    /// How many handlers it runs at once.
    pub threads: u32,
    /// The queues that it serves.
    pub queues: Vec<String>,
    /// When it started.
    pub started_at: SystemTime,
    /// When it last showed itself, which it does every ten seconds. That is not the heartbeat of its leases.
    pub heartbeat_at: SystemTime,
    /// Whether that was less than a minute ago. One that stops in order removes its row.
    pub live: bool,
    /// How many leases it holds, of jobs that are prefetched, too.
    pub leases: Count,
}

impl WorkerRecord {
    fn of(row: ShownWorkerRow) -> Self {
        Self {
            id: Uuid::parse_str(&row.id).unwrap_or_default(),
            host: row.host,
            pid: row.pid.unsigned_abs(),
            threads: row.threads.unsigned_abs(),
            queues: serde_json::from_str(&row.queues).unwrap_or_default(),
            started_at: time(row.started_at_ms),
            heartbeat_at: time(row.heartbeat_at_ms),
            live: row.live,
            leases: Count::default(),
        }
    }
}

/// The worker processes that have shown themselves within the last hour, the newest first, 1,000 at the most.
///
/// It looks at 10,000 running jobs; when there are more, each worker's leases say that there may be more.
///
/// # Errors
///
/// The database's.
///
/// ```
/// # include!("../doctest_setup.rs");
/// use leasehold::inspect;
/// use leasehold::Schema;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (_url, mut conn) = doctest_database();
/// for worker in inspect::workers(&mut conn, &Schema::default())? {
///     println!("{} on {}: {} leases, live: {}", worker.pid, worker.host, worker.leases, worker.live);
/// }
/// # Ok(())
/// # }
/// ```
pub fn workers(conn: &mut impl AsBackend, schema: &Schema) -> QueryResult<Vec<WorkerRecord>> {
    let conn = conn.as_backend();
    let held = conn.held_by_worker(schema, AT_MOST)?;
    let more = held.iter().map(|row| row.jobs).sum::<i64>() >= AT_MOST;
    let rows = conn.shown_workers(schema, WORKERS)?;
    let told = rows.into_iter().map(|row| {
        let leases = held
            .iter()
            .find(|tally| tally.name == row.id)
            .map_or(0, |tally| tally.jobs);
        let mut record = WorkerRecord::of(row);
        record.leases = Count {
            rows: leases.unsigned_abs(),
            more,
        };
        record
    });
    Ok(told.collect())
}
