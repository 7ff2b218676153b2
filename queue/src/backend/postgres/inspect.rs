use diesel::result::{OptionalExtension, QueryResult};
use diesel::sql_types::{BigInt, Text};
use diesel::{PgConnection, RunQueryDsl};

use crate::backend::{CountRow, ErrorRow, InspectStatements, JobRow};
use crate::schema::Schema;
use crate::sql::{Sql, bind};

/// The columns of a [`JobRow`] that both tables have.
macro_rules! job_columns {
    () => {
        "id, queue, kind, version, payload::pg_catalog.text, state, priority::integer,
         pg_catalog.floor(extract(epoch FROM run_at) * 1000)::bigint AS run_at_ms, attempt, max_attempts, generation,
         idempotency_key, pg_catalog.floor(extract(epoch FROM created_at) * 1000)::bigint AS created_at_ms"
    };
}

const JOB: &str = concat!(
    "SELECT ",
    job_columns!(),
    ", cancel_requested_at IS NOT NULL AS cancel_requested, NULL::bigint AS finished_at_ms, NULL::pg_catalog.text AS reason
    FROM leasehold.jobs WHERE id = $1
    UNION ALL
    SELECT ",
    job_columns!(),
    ", false, pg_catalog.floor(extract(epoch FROM finished_at) * 1000)::bigint, reason
    FROM leasehold.finished_jobs WHERE id = $1
    LIMIT 1"
);

const JOB_ERRORS: &str = "
    SELECT attempt, generation, pg_catalog.floor(extract(epoch FROM at) * 1000)::bigint AS at_ms, cause, error
    FROM leasehold.job_errors WHERE job_id = $1 ORDER BY generation
";

const COUNTS: &str = "
    SELECT queue, CASE WHEN scheduled THEN 'scheduled' WHEN blocked_by IS NOT NULL THEN 'blocked' ELSE state END AS state, pg_catalog.count(*) AS jobs
    FROM leasehold.jobs GROUP BY 1, 2
    UNION ALL
    SELECT queue, state, pg_catalog.count(*) FROM leasehold.finished_jobs GROUP BY 1, 2
    ORDER BY 1, 2
";

const OPEN_JOBS: &str = concat!(
    "SELECT ",
    job_columns!(),
    ", cancel_requested_at IS NOT NULL AS cancel_requested, NULL::bigint AS finished_at_ms, NULL::pg_catalog.text AS reason
    FROM leasehold.jobs WHERE kind = $1 ORDER BY id"
);

const MOVE_RUN_AT: &str = "
    UPDATE leasehold.jobs SET run_at = pg_catalog.clock_timestamp() + $2 * INTERVAL '1 millisecond',
        scheduled = $2 > 0 AND blocked_by IS DISTINCT FROM 'jobs',
        blocked_by = CASE WHEN blocked_by = 'jobs' THEN blocked_by WHEN limit_key IS NOT NULL AND $2 <= 0 THEN 'limit' END
    WHERE id = $1 AND state = 'ready'
";

const EXPIRE_LEASE: &str = "
    WITH locked AS MATERIALIZED (
        SELECT id, generation, lease_token FROM leasehold.jobs WHERE id = $1 AND state = 'running' FOR NO KEY UPDATE
    )
    UPDATE leasehold.jobs AS j SET lease_until = pg_catalog.clock_timestamp() - INTERVAL '1 millisecond'
    FROM locked AS l
    WHERE j.id = $1 AND j.generation = l.generation AND j.lease_token = l.lease_token AND j.state = 'running'
";

impl InspectStatements for PgConnection {
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
        Sql(
            schema.render(MOVE_RUN_AT),
            (bind::<BigInt, _>(id), bind::<BigInt, _>(after_ms)),
        )
        .execute(self)
    }

    fn expire_lease(&mut self, schema: &Schema, id: i64) -> QueryResult<usize> {
        Sql(schema.render(EXPIRE_LEASE), (bind::<BigInt, _>(id),)).execute(self)
    }
}
