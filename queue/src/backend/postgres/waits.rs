use diesel::result::QueryResult;
use diesel::sql_types::{Array, BigInt, Bool, Text};
use diesel::{PgConnection, RunQueryDsl};

use crate::backend::{NewWait, WaitStatements, WaitingPlace, WaitingRow};
use crate::schema::Schema;
use crate::sql::{Id, Sql, bind};

const INSERT_WAITS: &str = "
    INSERT INTO leasehold.job_waits (job_id, on_job_id, name, anyway)
    SELECT * FROM unnest($1, $2, $3, $4) AS given (job_id, on_job_id, name, anyway)
";

const DEPENDENTS: &str = "
    SELECT DISTINCT job_id AS id FROM leasehold.job_waits WHERE on_job_id = ANY ($1) AND job_id > $2 ORDER BY job_id LIMIT $3
";

const WAITING_JOBS: &str = "
    SELECT kind, id FROM leasehold.jobs WHERE blocked_by = 'jobs' AND (kind, id) > ($1, $2) ORDER BY kind, id LIMIT $3
";

// Scalar sub-selects, which stay look-ups in an index whatever the planner thinks of the tables. Those enqueued last tend
// to end last, so the look for one that is open begins there. A callback of a batch waits for no job, and is left out.
const LOOK_AT_WAITING: &str = "
    SELECT waiting.*, (
        SELECT w.on_job_id FROM leasehold.job_waits AS w
        WHERE w.job_id = waiting.id AND NOT w.anyway AND (NOT waiting.open OR w.on_job_id = ANY ($2))
          AND (SELECT 1 FROM leasehold.jobs AS o WHERE o.id = w.on_job_id) IS NULL
          AND (SELECT f.state FROM leasehold.finished_jobs AS f WHERE f.id = w.on_job_id) IS DISTINCT FROM 'completed'
        ORDER BY w.on_job_id LIMIT 1
    ) AS failed_on
    FROM unnest($1) AS asked (id) CROSS JOIN LATERAL (
        SELECT j.id, j.queue, j.kind, j.attempt, j.generation, j.batch_id, (
            SELECT 1 FROM leasehold.job_waits AS w
            WHERE w.job_id = j.id AND (SELECT 1 FROM leasehold.jobs AS o WHERE o.id = w.on_job_id) IS NOT NULL
            ORDER BY w.on_job_id DESC LIMIT 1
        ) IS NOT NULL AS open
        FROM leasehold.jobs AS j
        WHERE j.id = asked.id AND j.state = 'ready' AND j.blocked_by = 'jobs'
          AND (SELECT 1 FROM leasehold.job_waits AS w WHERE w.job_id = j.id LIMIT 1) IS NOT NULL
        OFFSET 0
    ) AS waiting
    ORDER BY waiting.id
";

// As in an admission: no planner shall read all of `jobs_waiting` for the few rows that are meant.
const UNBLOCK: &str = concat!(
    "
    WITH clock AS MATERIALIZED (SELECT pg_catalog.clock_timestamp() AS at),
    waiting AS MATERIALIZED (
        SELECT mine.id, mine.generation FROM unnest($1, $2) AS asked (id, generation)
        CROSS JOIN LATERAL (
            SELECT j.id, j.generation FROM leasehold.jobs AS j
            WHERE j.id = asked.id AND j.generation = asked.generation AND j.state = 'ready' AND coalesce(j.blocked_by, '') = 'jobs'
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS mine
    ),
    unblocked AS (
        UPDATE leasehold.jobs AS j SET scheduled = j.run_at > clock.at,
            blocked_by = CASE WHEN j.limit_key IS NOT NULL AND j.run_at <= clock.at THEN 'limit' END
        FROM waiting AS w, clock
        WHERE j.id = ANY (ARRAY(SELECT id FROM waiting)) AND j.id = w.id AND j.generation = w.generation
          AND j.state = 'ready'
        RETURNING j.id
    )
    SELECT id, (SELECT ",
    tell!("leasehold"),
    ") FROM unblocked ORDER BY id"
);

impl WaitStatements for PgConnection {
    fn insert_waits(&mut self, schema: &Schema, waits: &[NewWait]) -> QueryResult<usize> {
        let binds = (
            bind::<Array<BigInt>, Vec<i64>>(waits.iter().map(|wait| wait.job_id).collect()),
            bind::<Array<BigInt>, Vec<i64>>(waits.iter().map(|wait| wait.on_job_id).collect()),
            bind::<Array<Text>, Vec<&str>>(waits.iter().map(|wait| wait.name.as_str()).collect()),
            bind::<Array<Bool>, Vec<bool>>(waits.iter().map(|wait| wait.anyway).collect()),
        );
        Sql(schema.render(INSERT_WAITS), binds).execute(self)
    }

    fn dependents(&mut self, schema: &Schema, ended: &[i64], after: i64, limit: i64) -> QueryResult<Vec<i64>> {
        let binds = (
            bind::<Array<BigInt>, _>(ended),
            bind::<BigInt, _>(after),
            bind::<BigInt, _>(limit),
        );
        let ids: Vec<Id> = Sql(schema.render(DEPENDENTS), binds).load(self)?;
        Ok(ids.into_iter().map(|row| row.id).collect())
    }

    fn waiting_jobs(&mut self, schema: &Schema, after: &WaitingPlace, limit: i64) -> QueryResult<Vec<WaitingPlace>> {
        let binds = (
            bind::<Text, _>(after.kind.as_str()),
            bind::<BigInt, _>(after.id),
            bind::<BigInt, _>(limit),
        );
        Sql(schema.render(WAITING_JOBS), binds).load(self)
    }

    fn look_at_waiting(&mut self, schema: &Schema, ids: &[i64], ended: &[i64]) -> QueryResult<Vec<WaitingRow>> {
        let binds = (bind::<Array<BigInt>, _>(ids), bind::<Array<BigInt>, _>(ended));
        Sql(schema.render(LOOK_AT_WAITING), binds).load(self)
    }

    fn unblock(&mut self, schema: &Schema, jobs: &[(i64, i64)]) -> QueryResult<Vec<i64>> {
        let binds = (
            bind::<Array<BigInt>, Vec<i64>>(jobs.iter().map(|job| job.0).collect()),
            bind::<Array<BigInt>, Vec<i64>>(jobs.iter().map(|job| job.1).collect()),
        );
        let ids: Vec<Id> = Sql(schema.render(UNBLOCK), binds).load(self)?;
        Ok(ids.into_iter().map(|row| row.id).collect())
    }
}
