//! What people did by hand, and who it was.

use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Nullable, Text};
use diesel::{RunQueryDsl, SqliteConnection};

use super::{json, write};
use crate::backend::{ActionRow, ActionStatements, NewAction};
use crate::schema::Schema;
use crate::sql::{Sql, bind};

macro_rules! action_columns {
    () => {
        "id, at AS at_ms, by, action, job_id, generation, new_generation, scope, target, reason"
    };
}

const RECORD_JOB_ACTIONS: &str = "
    INSERT INTO leasehold_actions (at, by, action, reason, job_id, generation, new_generation)
    SELECT $1, $2, $3, $4, id, generation - $6, generation FROM (
        SELECT id, generation FROM leasehold_jobs WHERE id IN (SELECT value FROM json_each($5))
        UNION ALL
        SELECT id, generation FROM leasehold_finished_jobs WHERE id IN (SELECT value FROM json_each($5))
    ) ORDER BY id
";

const RECORD_ACTION: &str = "
    INSERT INTO leasehold_actions (at, by, action, reason, scope, target) VALUES ($1, $2, $3, $4, $5, $6)
";

const ACTIONS: &str = concat!(
    "SELECT ",
    action_columns!(),
    " FROM leasehold_actions WHERE id < $1 ORDER BY id DESC LIMIT $2 + 0"
);

const ACTIONS_BY: &str = concat!(
    "SELECT ",
    action_columns!(),
    " FROM leasehold_actions WHERE by = $1 AND id < $2 ORDER BY by DESC, id DESC LIMIT $3 + 0"
);

const ACTIONS_OF_JOB: &str = concat!(
    "SELECT ",
    action_columns!(),
    " FROM leasehold_actions WHERE job_id = $1 AND id < $2 AND ($3 IS NULL OR by = $3)
    ORDER BY job_id DESC, id DESC LIMIT $4 + 0"
);

const PURGE_ACTIONS: &str = "
    DELETE FROM leasehold_actions WHERE id IN (SELECT id FROM leasehold_actions WHERE at <= $1 ORDER BY at LIMIT $2 + 0)
";

impl ActionStatements for SqliteConnection {
    fn record_job_actions(
        &mut self,
        schema: &Schema,
        action: &NewAction<'_>,
        ids: &[i64],
        raised: i64,
    ) -> QueryResult<usize> {
        let ids = json(ids)?;
        write(self, |conn, _| {
            let binds = (
                bind::<BigInt, _>(action.at_ms),
                bind::<Text, _>(action.by),
                bind::<Text, _>(action.action),
                bind::<Nullable<Text>, _>(action.reason),
                bind::<Text, _>(&ids),
                bind::<BigInt, _>(raised),
            );
            Sql(schema.render(RECORD_JOB_ACTIONS), binds).execute(conn)
        })
    }

    fn record_action(
        &mut self,
        schema: &Schema,
        action: &NewAction<'_>,
        scope: &str,
        target: &str,
    ) -> QueryResult<usize> {
        write(self, |conn, _| {
            let binds = (
                bind::<BigInt, _>(action.at_ms),
                bind::<Text, _>(action.by),
                bind::<Text, _>(action.action),
                bind::<Nullable<Text>, _>(action.reason),
                bind::<Text, _>(scope),
                bind::<Text, _>(target),
            );
            Sql(schema.render(RECORD_ACTION), binds).execute(conn)
        })
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
        write(self, |conn, now| {
            let binds = (
                bind::<BigInt, _>(now.saturating_sub(older_than_ms)),
                bind::<BigInt, _>(limit),
            );
            Sql(schema.render(PURGE_ACTIONS), binds).execute(conn)
        })
    }
}
