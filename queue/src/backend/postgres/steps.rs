use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Nullable, Text, Uuid as SqlUuid};
use diesel::{PgConnection, QueryableByName, RunQueryDsl};

use crate::backend::{HeldStep, NewStep, StepRow, StepStatements};
use crate::lease::Fence;
use crate::schema::Schema;
use crate::sql::{Sql, bind};

/// A recorded step.
macro_rules! step_columns {
    () => {
        "s.name, s.position, s.generation, s.result::pg_catalog.text AS result,
        pg_catalog.floor(extract(epoch FROM s.at) * 1000)::bigint AS at_ms"
    };
}

/// As they were asked for; two attempts may have had another one at the same place.
macro_rules! in_order {
    () => {
        " ORDER BY s.position, s.at, s.name"
    };
}

// No lock: what an earlier lease recorded was committed before the row was taken from it (`RECORD` sees to that), so before
// our claim.
const HELD: &str = concat!(
    "SELECT ",
    step_columns!(),
    " FROM leasehold.jobs AS j LEFT JOIN leasehold.steps AS s ON s.job_id = j.id
    WHERE j.id = $1 AND j.generation = $2 AND j.lease_token = $3 AND j.state = 'running'",
    in_order!()
);

// The row of `jobs` is locked, as in a commit and unlike progress: a sweep or a hard cancel comes before this record, which
// is refused then, or after it. Were the row only read, the record of a late worker could land after the next one has looked
// for it, and that one's effect would happen although a result is there. What is there already is our own, from before its
// answer was lost: under this fence the generation tells that. The record makes itself durable as a claim does, whatever the
// session says: one that a crash forgets is an effect that happens again.
const RECORD: &str = concat!(
    "
    INSERT INTO leasehold.steps AS s (job_id, name, position, generation, result)
    SELECT id, $4, $5, generation, $6::pg_catalog.json FROM leasehold.jobs
    WHERE id = $1 AND generation = $2 AND lease_token = $3 AND state = 'running'
    FOR NO KEY UPDATE
    ON CONFLICT (job_id, name) DO UPDATE SET position = excluded.position WHERE s.generation = excluded.generation
    RETURNING ",
    durable!(),
    "
"
);

const STEPS: &str = concat!(
    "SELECT ",
    step_columns!(),
    " FROM leasehold.steps AS s WHERE s.job_id = $1",
    in_order!()
);

// Locked, so that no worker claims the job, and reads what goes, meanwhile. A job that moved while this waited is found in
// neither table.
const FORGET: &str = "
    WITH open AS MATERIALIZED (
        SELECT id, state FROM leasehold.jobs WHERE id = $1 FOR NO KEY UPDATE
    ),
    ended AS MATERIALIZED (
        SELECT id FROM leasehold.finished_jobs WHERE id = $1 FOR NO KEY UPDATE
    ),
    idle AS MATERIALIZED (
        SELECT id FROM open WHERE state = 'ready' UNION SELECT id FROM ended
    ),
    forgotten AS (
        DELETE FROM leasehold.steps WHERE job_id = (SELECT id FROM idle) RETURNING name
    )
    SELECT CASE WHEN (SELECT id FROM idle) IS NOT NULL THEN (SELECT pg_catalog.count(*) FROM forgotten) END AS forgotten
";

#[derive(QueryableByName)]
struct Forgotten {
    #[diesel(sql_type = Nullable<BigInt>)]
    forgotten: Option<i64>,
}

impl StepStatements for PgConnection {
    fn held_steps(&mut self, schema: &Schema, fence: &Fence) -> QueryResult<Option<Vec<StepRow>>> {
        let binds = (
            bind::<BigInt, _>(fence.id),
            bind::<BigInt, _>(fence.generation),
            bind::<SqlUuid, _>(fence.lease_token),
        );
        Ok(HeldStep::all(Sql(schema.render(HELD), binds).load(self)?))
    }

    fn record_step(&mut self, schema: &Schema, fence: &Fence, step: &NewStep) -> QueryResult<usize> {
        let binds = (
            bind::<BigInt, _>(fence.id),
            bind::<BigInt, _>(fence.generation),
            bind::<SqlUuid, _>(fence.lease_token),
            bind::<Text, _>(step.name.as_str()),
            bind::<BigInt, _>(step.position),
            bind::<Text, _>(step.result.as_str()),
        );
        Sql(schema.render(RECORD), binds).execute(self)
    }

    fn steps(&mut self, schema: &Schema, job_id: i64) -> QueryResult<Vec<StepRow>> {
        Sql(schema.render(STEPS), (bind::<BigInt, _>(job_id),)).load(self)
    }

    fn forget_steps(&mut self, schema: &Schema, job_id: i64) -> QueryResult<Option<i64>> {
        let row: Forgotten = Sql(schema.render(FORGET), (bind::<BigInt, _>(job_id),)).get_result(self)?;
        Ok(row.forgotten)
    }
}
