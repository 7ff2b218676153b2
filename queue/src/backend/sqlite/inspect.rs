//! What people and tests look at.

use diesel::result::{OptionalExtension, QueryResult};
use diesel::sql_types::{BigInt, Integer, Text};
use diesel::{RunQueryDsl, SqliteConnection};
use uuid::Uuid;

use super::{json, write};
use crate::backend::{CountRow, ErrorRow, InspectStatements, JobRow, WorkerRow, WorkerStatements};
use crate::schema::Schema;
use crate::sql::{Sql, bind};

const SHOW_WORKER: &str = "
    INSERT INTO leasehold_workers (id, host, pid, threads, queues, started_at, heartbeat_at)
    VALUES ($1, $2, $3, $4, $5, $6, $6) ON CONFLICT (id) DO UPDATE SET heartbeat_at = excluded.heartbeat_at
";

const HIDE_WORKER: &str = "DELETE FROM leasehold_workers WHERE id = $1 OR heartbeat_at < $2 - 3600000";

const JOB: &str = "
    SELECT id, queue, kind, version, payload, state, priority, run_at AS run_at_ms, attempt, max_attempts, generation,
    idempotency_key, cancel_requested_at IS NOT NULL AS cancel_requested, created_at AS created_at_ms, NULL AS finished_at_ms, NULL AS reason
    FROM leasehold_jobs WHERE id = $1
    UNION ALL SELECT id, queue, kind, version, payload, state, priority, run_at, attempt, max_attempts, generation,
    idempotency_key, false, created_at, finished_at, reason FROM leasehold_finished_jobs WHERE id = $1
    LIMIT 1
";

const JOB_ERRORS: &str = "
    SELECT attempt, generation, at AS at_ms, cause, error FROM leasehold_job_errors
    WHERE job_id = $1 ORDER BY generation
";

const COUNTS: &str = "
    SELECT queue, CASE WHEN scheduled THEN 'scheduled' ELSE state END AS state, count(*) AS jobs
    FROM leasehold_jobs GROUP BY 1, 2
    UNION ALL SELECT queue, state, count(*) FROM leasehold_finished_jobs GROUP BY 1, 2
    ORDER BY 1, 2
";

const OPEN_JOBS: &str = "
    SELECT id, queue, kind, version, payload, state, priority, run_at AS run_at_ms, attempt, max_attempts, generation,
    idempotency_key, cancel_requested_at IS NOT NULL AS cancel_requested, created_at AS created_at_ms, NULL AS finished_at_ms, NULL AS reason
    FROM leasehold_jobs WHERE kind = $1 ORDER BY id
";

const MOVE_RUN_AT: &str = "
    UPDATE leasehold_jobs SET run_at = $2 + $3, scheduled = ($3 > 0) WHERE id = $1 AND state = 'ready'
";

/// Of whoever holds it: a test plays the clock.
const EXPIRE_LEASE: &str = "UPDATE leasehold_jobs SET lease_until = $2 WHERE id = $1 AND state = 'running'";

impl WorkerStatements for SqliteConnection {
    fn show_worker(&mut self, schema: &Schema, worker: &WorkerRow) -> QueryResult<usize> {
        let queues = json(&worker.queues)?;
        write(self, |conn, now| {
            let binds = (
                bind::<Text, _>(worker.id.to_string()),
                bind::<Text, _>(&worker.host),
                bind::<Integer, _>(worker.pid),
                bind::<Integer, _>(worker.threads),
                bind::<Text, _>(queues),
                bind::<BigInt, _>(now),
            );
            Sql(schema.render(SHOW_WORKER), binds).execute(conn)
        })
    }

    fn hide_worker(&mut self, schema: &Schema, id: Uuid) -> QueryResult<usize> {
        write(self, |conn, now| {
            Sql(schema.render(HIDE_WORKER), (bind::<Text, _>(id.to_string()), bind::<BigInt, _>(now))).execute(conn)
        })
    }
}

impl InspectStatements for SqliteConnection {
    fn job(&mut self, schema: &Schema, id: i64) -> QueryResult<Option<JobRow>> {
        Sql(schema.render(JOB), (bind::<BigInt, _>(id),)).get_result(self).optional()
    }

    fn job_errors(&mut self, schema: &Schema, id: i64) -> QueryResult<Vec<ErrorRow>> {
        Sql(schema.render(JOB_ERRORS), (bind::<BigInt, _>(id),)).load(self)
    }

    fn counts(&mut self, schema: &Schema) -> QueryResult<Vec<CountRow>> {
        Sql(schema.render(COUNTS), ()).load(self)
    }

    fn open_jobs(&mut self, schema: &Schema, kind: &str) -> QueryResult<Vec<JobRow>> {
        Sql(schema.render(OPEN_JOBS), (bind::<Text, _>(kind),)).load(self)
    }

    fn move_run_at(&mut self, schema: &Schema, id: i64, after_ms: i64) -> QueryResult<usize> {
        write(self, |conn, now| {
            let binds = (bind::<BigInt, _>(id), bind::<BigInt, _>(now), bind::<BigInt, _>(after_ms));
            Sql(schema.render(MOVE_RUN_AT), binds).execute(conn)
        })
    }

    fn expire_lease(&mut self, schema: &Schema, id: i64) -> QueryResult<usize> {
        write(self, |conn, now| Sql(schema.render(EXPIRE_LEASE), (bind::<BigInt, _>(id), bind::<BigInt, _>(now))).execute(conn))
    }
}
