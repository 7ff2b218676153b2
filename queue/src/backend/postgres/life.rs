use diesel::result::QueryResult;
use diesel::sql_types::{Array, BigInt};
use diesel::{PgConnection, RunQueryDsl};

use crate::backend::{FailureRow, LifeStatements, StepTimeRow, SummaryRow, WaitRow};
use crate::schema::Schema;
use crate::sql::{Sql, bind};

/// The columns of a [`SummaryRow`] that both tables have.
macro_rules! summary_columns {
    () => {
        "id, queue, kind, state, priority::integer, pg_catalog.floor(extract(epoch FROM run_at) * 1000)::bigint AS run_at_ms,
         attempt, max_attempts, generation, batch_id,
         pg_catalog.floor(extract(epoch FROM created_at) * 1000)::bigint AS created_at_ms"
    };
}

const SUMMARIES: &str = concat!(
    "SELECT one.* FROM unnest($1) AS asked (id) CROSS JOIN LATERAL (
        SELECT ",
    summary_columns!(),
    ", scheduled, blocked_by IS NOT NULL AS blocked, NULL::bigint AS finished_at_ms, NULL::pg_catalog.text AS reason
        FROM leasehold.jobs WHERE jobs.id = asked.id
        UNION ALL
        SELECT ",
    summary_columns!(),
    ", false, false, pg_catalog.floor(extract(epoch FROM finished_at) * 1000)::bigint, reason
        FROM leasehold.finished_jobs WHERE finished_jobs.id = asked.id
        LIMIT 1
    ) AS one ORDER BY one.id"
);

const NEWEST_ERRORS: &str = "
    SELECT e.job_id, job.queue, job.kind, e.attempt, e.generation, pg_catalog.floor(extract(epoch FROM e.at) * 1000)::bigint AS at_ms,
        e.cause, e.error
    FROM (
        SELECT x.job_id, x.attempt, x.generation, x.at, x.cause, x.error FROM leasehold.job_errors AS x ORDER BY x.at DESC LIMIT $1
    ) AS e
    CROSS JOIN LATERAL (
        SELECT j.queue, j.kind FROM leasehold.jobs AS j WHERE j.id = e.job_id
        UNION ALL
        SELECT f.queue, f.kind FROM leasehold.finished_jobs AS f WHERE f.id = e.job_id
        LIMIT 1
    ) AS job
    ORDER BY e.at DESC, e.job_id DESC, e.generation DESC
";

const STEP_TIMES: &str = "
    SELECT name, generation, pg_catalog.floor(extract(epoch FROM at) * 1000)::bigint AS at_ms
    FROM leasehold.steps WHERE job_id = $1 ORDER BY at, position, name LIMIT $2
";

// Each look-up ends early, too, so that one job with very many waits is not read to its end. The order and the range are those
// of one index: by an equality a planner may take every row for one that matches, and walk the other index to look for it.
const WAITS_OF: &str = "
    SELECT w.job_id, w.on_job_id, w.name, w.anyway FROM unnest($1) AS asked (id)
    CROSS JOIN LATERAL (
        SELECT x.job_id, x.on_job_id, x.name, x.anyway FROM leasehold.job_waits AS x
        WHERE (x.job_id, x.on_job_id) > (asked.id, 0) AND x.job_id <= asked.id ORDER BY x.job_id, x.on_job_id LIMIT $2
    ) AS w LIMIT $2
";

const WAITS_ON: &str = "
    SELECT w.job_id, w.on_job_id, w.name, w.anyway FROM unnest($1) AS asked (id)
    CROSS JOIN LATERAL (
        SELECT x.job_id, x.on_job_id, x.name, x.anyway FROM leasehold.job_waits AS x
        WHERE (x.on_job_id, x.job_id) > (asked.id, 0) AND x.on_job_id <= asked.id ORDER BY x.on_job_id, x.job_id LIMIT $2
    ) AS w LIMIT $2
";

impl LifeStatements for PgConnection {
    fn summaries(&mut self, schema: &Schema, ids: &[i64]) -> QueryResult<Vec<SummaryRow>> {
        Sql(schema.render(SUMMARIES), (bind::<Array<BigInt>, _>(ids),)).load(self)
    }

    fn newest_errors(&mut self, schema: &Schema, limit: i64) -> QueryResult<Vec<FailureRow>> {
        Sql(schema.render(NEWEST_ERRORS), (bind::<BigInt, _>(limit),)).load(self)
    }

    fn step_times(&mut self, schema: &Schema, job_id: i64, limit: i64) -> QueryResult<Vec<StepTimeRow>> {
        let binds = (bind::<BigInt, _>(job_id), bind::<BigInt, _>(limit));
        Sql(schema.render(STEP_TIMES), binds).load(self)
    }

    fn waits_of(&mut self, schema: &Schema, ids: &[i64], limit: i64) -> QueryResult<Vec<WaitRow>> {
        let binds = (bind::<Array<BigInt>, _>(ids), bind::<BigInt, _>(limit));
        Sql(schema.render(WAITS_OF), binds).load(self)
    }

    fn waits_on(&mut self, schema: &Schema, ids: &[i64], limit: i64) -> QueryResult<Vec<WaitRow>> {
        let binds = (bind::<Array<BigInt>, _>(ids), bind::<BigInt, _>(limit));
        Sql(schema.render(WAITS_ON), binds).load(self)
    }
}
