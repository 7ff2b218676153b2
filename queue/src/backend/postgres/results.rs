use diesel::result::{OptionalExtension, QueryResult};
use diesel::sql_types::{BigInt, Text, Uuid as SqlUuid};
use diesel::{PgConnection, QueryableByName, RunQueryDsl};

use crate::backend::{NewProgress, ProgressRow, ResultRow, ResultStatements};
use crate::lease::Fence;
use crate::schema::Schema;
use crate::sql::{Sql, bind};

// Whatever is there is older: the completion in this transaction had the fence.
const STORE_RESULT: &str = "
    INSERT INTO leasehold.job_results (job_id, generation, result) VALUES ($1, $2, $3::pg_catalog.json)
    ON CONFLICT (job_id) DO UPDATE SET generation = excluded.generation, result = excluded.result
";

// Of the lease under which it completed: a job that was requeued and completed without a result has none.
const RESULT: &str = "
    SELECT r.result::pg_catalog.text AS result FROM leasehold.job_results AS r
    WHERE r.job_id = $1 AND r.generation = (
        SELECT f.generation FROM leasehold.finished_jobs AS f WHERE f.id = $1 AND f.state = 'completed'
    )
";

const RESULTS_WAITED_FOR: &str = "
    SELECT w.on_job_id AS job_id, (
        SELECT r.result::pg_catalog.text FROM leasehold.job_results AS r
        WHERE r.job_id = w.on_job_id AND r.generation = (
            SELECT f.generation FROM leasehold.finished_jobs AS f WHERE f.id = w.on_job_id AND f.state = 'completed'
        )
    ) AS result
    FROM leasehold.job_waits AS w WHERE w.job_id = $1 AND w.name = $2 ORDER BY w.on_job_id
";

// The row of `jobs` is read, not locked: a sweep meanwhile does no harm, for what its next worker writes has a higher
// generation, and this can no more overwrite it.
const STORE_PROGRESS: &str = "
    INSERT INTO leasehold.job_progress AS p (job_id, generation, done, total, text)
    SELECT id, generation, $4, $5, $6 FROM leasehold.jobs
    WHERE id = $1 AND generation = $2 AND lease_token = $3 AND state = 'running'
    ON CONFLICT (job_id) DO UPDATE SET generation = excluded.generation, done = excluded.done, total = excluded.total,
        text = excluded.text, at = pg_catalog.clock_timestamp()
    WHERE p.generation <= excluded.generation
";

const PROGRESS: &str = "
    SELECT generation, done, total, text, pg_catalog.floor(extract(epoch FROM at) * 1000)::bigint AS at_ms
    FROM leasehold.job_progress WHERE job_id = $1
";

#[derive(QueryableByName)]
struct Stored {
    #[diesel(sql_type = Text)]
    result: String,
}

impl ResultStatements for PgConnection {
    fn store_result(&mut self, schema: &Schema, fence: &Fence, result: &str) -> QueryResult<usize> {
        let binds = (
            bind::<BigInt, _>(fence.id),
            bind::<BigInt, _>(fence.generation),
            bind::<Text, _>(result),
        );
        Sql(schema.render(STORE_RESULT), binds).execute(self)
    }

    fn result(&mut self, schema: &Schema, id: i64) -> QueryResult<Option<String>> {
        let stored: Option<Stored> = Sql(schema.render(RESULT), (bind::<BigInt, _>(id),))
            .get_result(self)
            .optional()?;
        Ok(stored.map(|row| row.result))
    }

    fn results_waited_for(&mut self, schema: &Schema, id: i64, name: &str) -> QueryResult<Vec<ResultRow>> {
        let binds = (bind::<BigInt, _>(id), bind::<Text, _>(name));
        Sql(schema.render(RESULTS_WAITED_FOR), binds).load(self)
    }

    fn store_progress(&mut self, schema: &Schema, fence: &Fence, progress: &NewProgress) -> QueryResult<usize> {
        let binds = (
            bind::<BigInt, _>(fence.id),
            bind::<BigInt, _>(fence.generation),
            bind::<SqlUuid, _>(fence.lease_token),
            bind::<BigInt, _>(progress.done),
            bind::<BigInt, _>(progress.total),
            bind::<Text, _>(progress.text.as_str()),
        );
        Sql(schema.render(STORE_PROGRESS), binds).execute(self)
    }

    fn progress(&mut self, schema: &Schema, id: i64) -> QueryResult<Option<ProgressRow>> {
        Sql(schema.render(PROGRESS), (bind::<BigInt, _>(id),))
            .get_result(self)
            .optional()
    }
}
