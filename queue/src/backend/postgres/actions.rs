use diesel::result::QueryResult;
use diesel::sql_types::{Array, BigInt, Nullable, Text};
use diesel::{PgConnection, RunQueryDsl};

use crate::backend::{ActionRow, ActionStatements, NewAction};
use crate::schema::Schema;
use crate::sql::{Sql, bind};

macro_rules! action_columns {
    () => {
        "id, pg_catalog.floor(extract(epoch FROM at) * 1000)::bigint AS at_ms, by, action, job_id, generation, new_generation,
         scope, target, reason"
    };
}

// Nobody else changes these rows before this transaction has ended: it has locked or written them.
const RECORD_JOB_ACTIONS: &str = "
    INSERT INTO leasehold.actions (at, by, action, reason, job_id, generation, new_generation)
    SELECT TIMESTAMP WITH TIME ZONE 'epoch' + $1 * INTERVAL '1 millisecond', $2, $3, $4, asked.id, one.generation - $6, one.generation
    FROM unnest($5) AS asked (id) CROSS JOIN LATERAL (
        SELECT j.generation FROM leasehold.jobs AS j WHERE j.id = asked.id
        UNION ALL
        SELECT f.generation FROM leasehold.finished_jobs AS f WHERE f.id = asked.id
        LIMIT 1
    ) AS one ORDER BY asked.id
";

const RECORD_ACTION: &str = "
    INSERT INTO leasehold.actions (at, by, action, reason, scope, target)
    VALUES (TIMESTAMP WITH TIME ZONE 'epoch' + $1 * INTERVAL '1 millisecond', $2, $3, $4, $5, $6)
";

const ACTIONS: &str = concat!(
    "SELECT ",
    action_columns!(),
    " FROM leasehold.actions WHERE id < $1 ORDER BY id DESC LIMIT $2"
);

// The order and the range are those of one index: by an equality a planner may take every row for one that matches, and walk the
// other index to look for it.
const ACTIONS_BY: &str = concat!(
    "SELECT ",
    action_columns!(),
    " FROM leasehold.actions WHERE (by, id) < ($1, $2) AND by >= $1 ORDER BY by DESC, id DESC LIMIT $3"
);

const ACTIONS_OF_JOB: &str = concat!(
    "SELECT ",
    action_columns!(),
    " FROM leasehold.actions
    WHERE job_id IS NOT NULL AND (job_id, id) < ($1, $2) AND job_id >= $1 AND ($3 IS NULL OR by = $3)
    ORDER BY job_id DESC, id DESC LIMIT $4"
);

// The outer part does not name the time: it would let the planner read the whole index on it.
const PURGE_ACTIONS: &str = "
    DELETE FROM leasehold.actions AS a WHERE a.id = ANY (ARRAY(
        SELECT id FROM leasehold.actions
        WHERE at <= (SELECT pg_catalog.clock_timestamp() - $1 * INTERVAL '1 millisecond')
        ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED
    ))
";

impl ActionStatements for PgConnection {
    fn record_job_actions(
        &mut self,
        schema: &Schema,
        action: &NewAction<'_>,
        ids: &[i64],
        raised: i64,
    ) -> QueryResult<usize> {
        let binds = (
            bind::<BigInt, _>(action.at_ms),
            bind::<Text, _>(action.by),
            bind::<Text, _>(action.action),
            bind::<Nullable<Text>, _>(action.reason),
            bind::<Array<BigInt>, _>(ids),
            bind::<BigInt, _>(raised),
        );
        Sql(schema.render(RECORD_JOB_ACTIONS), binds).execute(self)
    }

    fn record_action(
        &mut self,
        schema: &Schema,
        action: &NewAction<'_>,
        scope: &str,
        target: &str,
    ) -> QueryResult<usize> {
        let binds = (
            bind::<BigInt, _>(action.at_ms),
            bind::<Text, _>(action.by),
            bind::<Text, _>(action.action),
            bind::<Nullable<Text>, _>(action.reason),
            bind::<Text, _>(scope),
            bind::<Text, _>(target),
        );
        Sql(schema.render(RECORD_ACTION), binds).execute(self)
    }

    fn actions(&mut self, schema: &Schema, before: i64, limit: i64) -> QueryResult<Vec<ActionRow>> {
        let binds = (bind::<BigInt, _>(before), bind::<BigInt, _>(limit));
        Sql(schema.render(ACTIONS), binds).load(self)
    }

    fn actions_by(&mut self, schema: &Schema, by: &str, before: i64, limit: i64) -> QueryResult<Vec<ActionRow>> {
        let binds = (bind::<Text, _>(by), bind::<BigInt, _>(before), bind::<BigInt, _>(limit));
        Sql(schema.render(ACTIONS_BY), binds).load(self)
    }

    fn actions_of_job(
        &mut self,
        schema: &Schema,
        job_id: i64,
        by: Option<&str>,
        before: i64,
        limit: i64,
    ) -> QueryResult<Vec<ActionRow>> {
        let binds = (
            bind::<BigInt, _>(job_id),
            bind::<BigInt, _>(before),
            bind::<Nullable<Text>, _>(by),
            bind::<BigInt, _>(limit),
        );
        Sql(schema.render(ACTIONS_OF_JOB), binds).load(self)
    }

    fn purge_actions(&mut self, schema: &Schema, older_than_ms: i64, limit: i64) -> QueryResult<usize> {
        let binds = (bind::<BigInt, _>(older_than_ms), bind::<BigInt, _>(limit));
        Sql(schema.render(PURGE_ACTIONS), binds).execute(self)
    }
}
