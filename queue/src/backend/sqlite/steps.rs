//! Recorded steps of handlers.

use diesel::result::{OptionalExtension, QueryResult};
use diesel::sql_types::{BigInt, Text};
use diesel::{RunQueryDsl, SqliteConnection};

use super::write;
use crate::backend::{HeldStep, NewStep, StepRow, StepStatements};
use crate::lease::Fence;
use crate::schema::Schema;
use crate::sql::{Id, Sql, bind};

/// A recorded step.
macro_rules! step_columns {
    () => {
        "s.name AS name, s.position AS position, s.generation AS generation, s.result AS result, s.at AS at_ms"
    };
}

/// As they were asked for; two attempts may have had another one at the same place.
macro_rules! in_order {
    () => {
        " ORDER BY s.position, s.at, s.name"
    };
}

const HELD: &str = concat!(
    "SELECT ",
    step_columns!(),
    " FROM leasehold_jobs AS j LEFT JOIN leasehold_steps AS s ON s.job_id = j.id
    WHERE j.id = $1 AND j.generation = $2 AND j.lease_token = $3 AND j.state = 'running'",
    in_order!()
);

/// The write lock puts it before or after a sweep or a hard cancel. What is there already is our own, from before its answer
/// was lost: under this fence the generation tells that. It is as durable as a commit on this connection.
const RECORD: &str = "
    INSERT INTO leasehold_steps AS s (job_id, name, position, generation, result, at)
    SELECT id, $4, $5, generation, $6, $7 FROM leasehold_jobs
    WHERE id = $1 AND generation = $2 AND lease_token = $3 AND state = 'running'
    ON CONFLICT (job_id, name) DO UPDATE SET position = excluded.position WHERE s.generation = excluded.generation
";

const STEPS: &str = concat!(
    "SELECT ",
    step_columns!(),
    " FROM leasehold_steps AS s WHERE s.job_id = $1",
    in_order!()
);

const IDLE: &str = "
    SELECT id FROM leasehold_jobs WHERE id = $1 AND state = 'ready'
    UNION ALL
    SELECT id FROM leasehold_finished_jobs WHERE id = $1
    LIMIT 1
";

const FORGET: &str = "DELETE FROM leasehold_steps WHERE job_id = $1";

impl StepStatements for SqliteConnection {
    fn held_steps(&mut self, schema: &Schema, fence: &Fence) -> QueryResult<Option<Vec<StepRow>>> {
        let binds = (
            bind::<BigInt, _>(fence.id),
            bind::<BigInt, _>(fence.generation),
            bind::<Text, _>(fence.lease_token.to_string()),
        );
        Ok(HeldStep::all(Sql(schema.render(HELD), binds).load(self)?))
    }

    fn record_step(&mut self, schema: &Schema, fence: &Fence, step: &NewStep) -> QueryResult<usize> {
        write(self, |conn, now| {
            let binds = (
                bind::<BigInt, _>(fence.id),
                bind::<BigInt, _>(fence.generation),
                bind::<Text, _>(fence.lease_token.to_string()),
                bind::<Text, _>(step.name.as_str()),
                bind::<BigInt, _>(step.position),
                bind::<Text, _>(step.result.as_str()),
                bind::<BigInt, _>(now),
            );
            Sql(schema.render(RECORD), binds).execute(conn)
        })
    }

    fn steps(&mut self, schema: &Schema, job_id: i64) -> QueryResult<Vec<StepRow>> {
        Sql(schema.render(STEPS), (bind::<BigInt, _>(job_id),)).load(self)
    }

    fn forget_steps(&mut self, schema: &Schema, job_id: i64) -> QueryResult<Option<i64>> {
        write(self, |conn, _| {
            let idle: Option<Id> = Sql(schema.render(IDLE), (bind::<BigInt, _>(job_id),))
                .get_result(conn)
                .optional()?;
            let Some(Id { id }) = idle else { return Ok(None) };
            let forgotten = Sql(schema.render(FORGET), (bind::<BigInt, _>(id),)).execute(conn)?;
            Ok(Some(i64::try_from(forgotten).unwrap_or(i64::MAX)))
        })
    }
}
