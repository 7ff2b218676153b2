//! Who holds what.

use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Nullable, Text};
use diesel::{RunQueryDsl, SqliteConnection};

use super::now_ms;
use crate::backend::{HeldMatching, HeldRow, HeldStatements, ShownWorkerRow, TallyRow};
use crate::schema::Schema;
use crate::sql::{Sql, bind};

const SHOWN_WORKERS: &str = "
    SELECT id, host, pid, threads, queues, started_at AS started_at_ms, heartbeat_at AS heartbeat_at_ms,
        heartbeat_at > $2 - 60000 AS live
    FROM leasehold_workers ORDER BY started_at DESC, id LIMIT $1 + 0
";

const HELD_BY_WORKER: &str = "
    SELECT worker AS name, count(*) AS jobs FROM (
        SELECT worker FROM leasehold_jobs INDEXED BY leasehold_jobs_held WHERE worker IS NOT NULL LIMIT $1 + 0
    ) GROUP BY worker
";

const HELD_JOBS: &str = "
    SELECT held.id, held.queue, held.kind, held.attempt, held.max_attempts, held.generation, held.worker, held.lease_ms,
        held.lease_until - $7 AS left_ms, held.begun, held.cancel_requested_at AS cancel_requested_at_ms, held.created_at AS created_at_ms,
        p.done AS done, p.total AS total, p.text AS text, p.at AS progress_at_ms
    FROM (
        SELECT id, queue, kind, attempt, max_attempts, generation, worker, lease_ms, lease_until, begun, cancel_requested_at,
            created_at
        FROM leasehold_jobs INDEXED BY leasehold_jobs_held WHERE worker IS NOT NULL AND id > $4 ORDER BY id LIMIT $6 + 0
    ) AS held
    LEFT JOIN leasehold_job_progress AS p ON p.job_id = held.id AND p.generation = held.generation
    WHERE ($1 IS NULL OR held.kind = $1) AND ($2 IS NULL OR held.queue = $2) AND ($3 IS NULL OR held.worker = $3)
    ORDER BY held.id LIMIT $5 + 0
";

impl HeldStatements for SqliteConnection {
    fn shown_workers(&mut self, schema: &Schema, limit: i64) -> QueryResult<Vec<ShownWorkerRow>> {
        let binds = (bind::<BigInt, _>(limit), bind::<BigInt, _>(now_ms()));
        Sql(schema.render(SHOWN_WORKERS), binds).load(self)
    }

    fn held_by_worker(&mut self, schema: &Schema, at_most: i64) -> QueryResult<Vec<TallyRow>> {
        Sql(schema.render(HELD_BY_WORKER), (bind::<BigInt, _>(at_most),)).load(self)
    }

    fn held_jobs(
        &mut self,
        schema: &Schema,
        matching: &HeldMatching,
        after: i64,
        limit: i64,
        at_most: i64,
    ) -> QueryResult<Vec<HeldRow>> {
        let binds = (
            bind::<Nullable<Text>, _>(matching.kind.as_deref()),
            bind::<Nullable<Text>, _>(matching.queue.as_deref()),
            bind::<Nullable<Text>, _>(matching.worker.as_deref()),
            bind::<BigInt, _>(after),
            bind::<BigInt, _>(limit),
            bind::<BigInt, _>(at_most),
            bind::<BigInt, _>(now_ms()),
        );
        Sql(schema.render(HELD_JOBS), binds).load(self)
    }
}
