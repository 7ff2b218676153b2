//! Jobs that wait for the end of other jobs.

use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Text};
use diesel::{RunQueryDsl, SqliteConnection};

use super::{json, write};
use crate::backend::{NewWait, WaitStatements, WaitingPlace, WaitingRow};
use crate::schema::Schema;
use crate::sql::{Id, Sql, bind};

const INSERT_WAITS: &str = "
    INSERT INTO leasehold_job_waits (job_id, on_job_id, name, anyway)
    SELECT value->>0, value->>1, value->>2, value->>3 FROM json_each($1)
";

const DEPENDENTS: &str = "
    SELECT DISTINCT job_id AS id FROM leasehold_job_waits
    WHERE on_job_id IN (SELECT value FROM json_each($1)) AND job_id > $2 ORDER BY job_id LIMIT $3 + 0
";

const WAITING_JOBS: &str = "
    SELECT kind, id FROM leasehold_jobs INDEXED BY leasehold_jobs_waiting
    WHERE blocked_by = 'jobs' AND (kind, id) > ($1, $2) ORDER BY kind, id LIMIT $3 + 0
";

/// Those enqueued last tend to end last, so the look for one that is open begins there. A callback of a batch waits for no
/// job, and is left out.
const LOOK_AT_WAITING: &str = "
    SELECT waiting.*, (
        SELECT w.on_job_id FROM leasehold_job_waits AS w
        WHERE w.job_id = waiting.id AND NOT w.anyway
          AND (NOT waiting.open OR w.on_job_id IN (SELECT value FROM json_each($2)))
          AND NOT EXISTS (SELECT 1 FROM leasehold_jobs AS o WHERE o.id = w.on_job_id)
          AND (SELECT f.state FROM leasehold_finished_jobs AS f WHERE f.id = w.on_job_id) IS NOT 'completed'
        ORDER BY w.on_job_id LIMIT 1
    ) AS failed_on
    FROM (
        SELECT j.id, j.queue, j.kind, j.attempt, j.generation, j.batch_id, EXISTS (
            SELECT 1 FROM leasehold_job_waits AS w
            WHERE w.job_id = j.id AND EXISTS (SELECT 1 FROM leasehold_jobs AS o WHERE o.id = w.on_job_id)
            ORDER BY w.on_job_id DESC LIMIT 1
        ) AS open
        FROM leasehold_jobs AS j
        WHERE j.id IN (SELECT value FROM json_each($1)) AND j.state = 'ready' AND j.blocked_by = 'jobs'
          AND EXISTS (SELECT 1 FROM leasehold_job_waits AS w WHERE w.job_id = j.id)
    ) AS waiting
    ORDER BY waiting.id
";

const UNBLOCK: &str = "
    UPDATE leasehold_jobs AS j SET scheduled = (j.run_at > $2),
        blocked_by = CASE WHEN j.limit_key IS NOT NULL AND j.run_at <= $2 THEN 'limit' END
    FROM json_each($1) AS asked
    WHERE j.id = asked.value->>0 AND j.generation = asked.value->>1 AND j.state = 'ready' AND j.blocked_by = 'jobs'
    RETURNING id
";

impl WaitStatements for SqliteConnection {
    fn insert_waits(&mut self, schema: &Schema, waits: &[NewWait]) -> QueryResult<usize> {
        let waits = json(
            &waits
                .iter()
                .map(|wait| (wait.job_id, wait.on_job_id, &wait.name, i32::from(wait.anyway)))
                .collect::<Vec<_>>(),
        )?;
        Sql(schema.render(INSERT_WAITS), (bind::<Text, _>(waits),)).execute(self)
    }

    fn dependents(&mut self, schema: &Schema, ended: &[i64], after: i64, limit: i64) -> QueryResult<Vec<i64>> {
        let binds = (
            bind::<Text, _>(json(ended)?),
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
        let binds = (bind::<Text, _>(json(ids)?), bind::<Text, _>(json(ended)?));
        Sql(schema.render(LOOK_AT_WAITING), binds).load(self)
    }

    fn unblock(&mut self, schema: &Schema, jobs: &[(i64, i64)]) -> QueryResult<Vec<i64>> {
        let jobs = json(jobs)?;
        let ids: Vec<Id> = write(self, |conn, now| {
            Sql(schema.render(UNBLOCK), (bind::<Text, _>(&jobs), bind::<BigInt, _>(now))).load(conn)
        })?;
        Ok(ids.into_iter().map(|row| row.id).collect())
    }
}
