//! What became of jobs, without what an application has written into them.

use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Text};
use diesel::{RunQueryDsl, SqliteConnection};

use super::json;
use crate::backend::{FailureRow, LifeStatements, StepTimeRow, SummaryRow, WaitRow};
use crate::schema::Schema;
use crate::sql::{Sql, bind};

/// The columns of a [`SummaryRow`] that both tables have.
macro_rules! summary_columns {
    () => {
        "j.id AS id, j.queue AS queue, j.kind AS kind, j.state AS state, j.priority AS priority, j.run_at AS run_at_ms,
         j.attempt AS attempt, j.max_attempts AS max_attempts, j.generation AS generation, j.batch_id AS batch_id,
         j.created_at AS created_at_ms"
    };
}

const SUMMARIES: &str = concat!(
    "SELECT ",
    summary_columns!(),
    ", j.scheduled AS scheduled, j.blocked_by IS NOT NULL AS blocked, NULL AS finished_at_ms, NULL AS reason
    FROM json_each($1) AS asked CROSS JOIN leasehold_jobs AS j WHERE j.id = asked.value
    UNION ALL
    SELECT ",
    summary_columns!(),
    ", 0, 0, j.finished_at, j.reason
    FROM json_each($1) AS asked CROSS JOIN leasehold_finished_jobs AS j WHERE j.id = asked.value
    ORDER BY id"
);

const NEWEST_ERRORS: &str = "
    SELECT e.job_id AS job_id, coalesce(j.queue, f.queue) AS queue, coalesce(j.kind, f.kind) AS kind, e.attempt AS attempt,
        e.generation AS generation, e.at AS at_ms, e.cause AS cause, e.error AS error
    FROM (
        SELECT job_id, attempt, generation, at, cause, error FROM leasehold_job_errors ORDER BY at DESC LIMIT $1 + 0
    ) AS e
    LEFT JOIN leasehold_jobs AS j ON j.id = e.job_id
    LEFT JOIN leasehold_finished_jobs AS f ON f.id = e.job_id
    WHERE coalesce(j.kind, f.kind) IS NOT NULL
    ORDER BY e.at DESC, e.job_id DESC, e.generation DESC
";

const STEP_TIMES: &str = "
    SELECT name, generation, at AS at_ms FROM leasehold_steps WHERE job_id = $1 ORDER BY at, position, name LIMIT $2 + 0
";

const WAITS_OF: &str = "
    SELECT w.job_id AS job_id, w.on_job_id AS on_job_id, w.name AS name, w.anyway AS anyway
    FROM json_each($1) AS asked CROSS JOIN leasehold_job_waits AS w WHERE w.job_id = asked.value LIMIT $2 + 0
";

const WAITS_ON: &str = "
    SELECT w.job_id AS job_id, w.on_job_id AS on_job_id, w.name AS name, w.anyway AS anyway
    FROM json_each($1) AS asked CROSS JOIN leasehold_job_waits AS w WHERE w.on_job_id = asked.value LIMIT $2 + 0
";

impl LifeStatements for SqliteConnection {
    fn summaries(&mut self, schema: &Schema, ids: &[i64]) -> QueryResult<Vec<SummaryRow>> {
        Sql(schema.render(SUMMARIES), (bind::<Text, _>(json(ids)?),)).load(self)
    }

    fn newest_errors(&mut self, schema: &Schema, limit: i64) -> QueryResult<Vec<FailureRow>> {
        Sql(schema.render(NEWEST_ERRORS), (bind::<BigInt, _>(limit),)).load(self)
    }

    fn step_times(&mut self, schema: &Schema, job_id: i64, limit: i64) -> QueryResult<Vec<StepTimeRow>> {
        let binds = (bind::<BigInt, _>(job_id), bind::<BigInt, _>(limit));
        Sql(schema.render(STEP_TIMES), binds).load(self)
    }

    fn waits_of(&mut self, schema: &Schema, ids: &[i64], limit: i64) -> QueryResult<Vec<WaitRow>> {
        let binds = (bind::<Text, _>(json(ids)?), bind::<BigInt, _>(limit));
        Sql(schema.render(WAITS_OF), binds).load(self)
    }

    fn waits_on(&mut self, schema: &Schema, ids: &[i64], limit: i64) -> QueryResult<Vec<WaitRow>> {
        let binds = (bind::<Text, _>(json(ids)?), bind::<BigInt, _>(limit));
        Sql(schema.render(WAITS_ON), binds).load(self)
    }
}
