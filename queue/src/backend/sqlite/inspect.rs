//! What people and tests look at.

use diesel::result::{OptionalExtension, QueryResult};
use diesel::sql_types::{BigInt, Text};
use diesel::{RunQueryDsl, SqliteConnection};

use super::write;
use crate::backend::{CountRow, ErrorRow, InspectStatements, JobRow};
use crate::schema::Schema;
use crate::sql::{Sql, bind};

/// The columns of a [`JobRow`] that both tables have.
macro_rules! job_columns {
    () => {
        "id, queue, kind, version, payload, state, priority, run_at AS run_at_ms, attempt, max_attempts, generation,
         idempotency_key, created_at AS created_at_ms"
    };
}

const JOB: &str = concat!(
    "SELECT ",
    job_columns!(),
    ", cancel_requested_at IS NOT NULL AS cancel_requested, NULL AS finished_at_ms, NULL AS reason
    FROM leasehold_jobs WHERE id = $1
    UNION ALL
    SELECT ",
    job_columns!(),
    ", false, finished_at, reason FROM leasehold_finished_jobs WHERE id = $1
    LIMIT 1"
);

const JOB_ERRORS: &str = "
    SELECT attempt, generation, at AS at_ms, cause, error FROM leasehold_job_errors WHERE job_id = $1 ORDER BY generation
";

const COUNTS: &str = "
    SELECT queue, CASE WHEN scheduled THEN 'scheduled' WHEN blocked_by IS NOT NULL THEN 'blocked' ELSE state END AS state, count(*) AS jobs
    FROM leasehold_jobs GROUP BY 1, 2
    UNION ALL
    SELECT queue, state, count(*) FROM leasehold_finished_jobs GROUP BY 1, 2
    ORDER BY 1, 2
";

const OPEN_JOBS: &str = concat!(
    "SELECT ",
    job_columns!(),
    ", cancel_requested_at IS NOT NULL AS cancel_requested, NULL AS finished_at_ms, NULL AS reason
    FROM leasehold_jobs WHERE kind = $1 ORDER BY id"
);

const MOVE_RUN_AT: &str = "
    UPDATE leasehold_jobs SET run_at = $2 + $3, scheduled = ($3 > 0 AND blocked_by IS NOT 'jobs'),
        blocked_by = CASE WHEN blocked_by = 'jobs' THEN blocked_by WHEN limit_key IS NOT NULL AND $3 <= 0 THEN 'limit' END
    WHERE id = $1 AND state = 'ready'
";

/// Of whoever holds it: a test plays the clock.
const EXPIRE_LEASE: &str = "UPDATE leasehold_jobs SET lease_until = $2 - 1 WHERE id = $1 AND state = 'running'";

impl InspectStatements for SqliteConnection {
    fn job(&mut self, schema: &Schema, id: i64) -> QueryResult<Option<JobRow>> {
        Sql(schema.render(JOB), (bind::<BigInt, _>(id),))
            .get_result(self)
            .optional()
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
            let binds = (
                bind::<BigInt, _>(id),
                bind::<BigInt, _>(now),
                bind::<BigInt, _>(after_ms),
            );
            Sql(schema.render(MOVE_RUN_AT), binds).execute(conn)
        })
    }

    fn expire_lease(&mut self, schema: &Schema, id: i64) -> QueryResult<usize> {
        write(self, |conn, now| {
            Sql(
                schema.render(EXPIRE_LEASE),
                (bind::<BigInt, _>(id), bind::<BigInt, _>(now)),
            )
            .execute(conn)
        })
    }
}
