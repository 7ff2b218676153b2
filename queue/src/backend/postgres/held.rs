use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Nullable, Text};
use diesel::{PgConnection, RunQueryDsl};

use crate::backend::{HeldMatching, HeldRow, HeldStatements, ShownWorkerRow, TallyRow};
use crate::schema::Schema;
use crate::sql::{Sql, bind};

const SHOWN_WORKERS: &str = "
    SELECT id::pg_catalog.text, host, pid, threads, queues::pg_catalog.text,
        pg_catalog.floor(extract(epoch FROM started_at) * 1000)::bigint AS started_at_ms,
        pg_catalog.floor(extract(epoch FROM heartbeat_at) * 1000)::bigint AS heartbeat_at_ms,
        heartbeat_at > pg_catalog.clock_timestamp() - INTERVAL '1 minute' AS live
    FROM leasehold.workers ORDER BY started_at DESC, id LIMIT $1
";

const HELD_BY_WORKER: &str = "
    SELECT worker::pg_catalog.text AS name, pg_catalog.count(*) AS jobs FROM (
        SELECT j.worker FROM leasehold.jobs AS j WHERE j.worker IS NOT NULL ORDER BY j.id LIMIT $1
    ) AS held GROUP BY worker
";

// `id + 0` is in no index: a planner that knows of no values may take the range of ids for the narrow one, and read what nobody
// holds.
const HELD_JOBS: &str = "
    SELECT j.id, j.queue, j.kind, j.attempt, j.max_attempts, j.generation, j.worker::pg_catalog.text, j.lease_ms,
        pg_catalog.ceil(extract(epoch FROM j.lease_until - pg_catalog.clock_timestamp()) * 1000)::bigint AS left_ms, j.begun,
        pg_catalog.floor(extract(epoch FROM j.cancel_requested_at) * 1000)::bigint AS cancel_requested_at_ms,
        pg_catalog.floor(extract(epoch FROM j.created_at) * 1000)::bigint AS created_at_ms,
        p.done, p.total, p.text, pg_catalog.floor(extract(epoch FROM p.at) * 1000)::bigint AS progress_at_ms
    FROM (
        SELECT id, queue, kind, attempt, max_attempts, generation, worker, lease_ms, lease_until, begun, cancel_requested_at,
            created_at
        FROM leasehold.jobs WHERE worker IS NOT NULL AND id + 0 > $4 ORDER BY id LIMIT $6
    ) AS j
    LEFT JOIN LATERAL (
        SELECT x.done, x.total, x.text, x.at FROM leasehold.job_progress AS x
        WHERE x.job_id = j.id AND x.generation = j.generation OFFSET 0
    ) AS p ON true
    WHERE ($1 IS NULL OR j.kind = $1) AND ($2 IS NULL OR j.queue = $2) AND ($3 IS NULL OR j.worker::pg_catalog.text = $3)
    ORDER BY j.id LIMIT $5
";

impl HeldStatements for PgConnection {
    fn shown_workers(&mut self, schema: &Schema, limit: i64) -> QueryResult<Vec<ShownWorkerRow>> {
        Sql(schema.render(SHOWN_WORKERS), (bind::<BigInt, _>(limit),)).load(self)
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
        );
        Sql(schema.render(HELD_JOBS), binds).load(self)
    }
}
