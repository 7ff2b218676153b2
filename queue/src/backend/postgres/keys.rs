use diesel::result::QueryResult;
use diesel::sql_types::{Array, BigInt, Bool, Integer, Nullable, SmallInt, Text};
use diesel::{PgConnection, RunQueryDsl};

use super::enqueue::column;
use crate::backend::{JobState, KeyHolder, KeyStatements, LockedReady, NewKey, ReadyChange, RunAt};
use crate::schema::Schema;
use crate::sql::{Id, Sql, bind};

// In the order of the keys, so that two calls which want the same keys wait for each other in one direction only.
const TAKE_KEYS: &str = "
    INSERT INTO leasehold.unique_keys (key, job_id, fingerprint, states, expires_at)
    SELECT key, job_id, fingerprint, states, pg_catalog.clock_timestamp() + keep_ms * INTERVAL '1 millisecond'
    FROM unnest($1, $2, $3, $4, $5) AS given (key, job_id, fingerprint, states, keep_ms)
    ORDER BY key COLLATE pg_catalog.\"C\"
    ON CONFLICT (key) DO NOTHING
    RETURNING key
";

const KEY_HOLDERS: &str = "
    SELECT key, job_id, fingerprint, states, coalesce(expires_at <= pg_catalog.clock_timestamp(), false) AS expired
    FROM leasehold.unique_keys WHERE key = ANY ($1)
";

// The ready ones alone. A lock on a running one would hold up its completion, and with it those of its whole group, for
// as long as the caller's transaction lasts.
const LOCK_READY: &str = "
    SELECT id, generation, coalesce(expires_at <= pg_catalog.clock_timestamp(), false) AS expired
    FROM leasehold.jobs WHERE id = ANY ($1) AND state = 'ready' ORDER BY id FOR NO KEY UPDATE
";

const JOB_STATES: &str = "
    SELECT id, state FROM leasehold.jobs WHERE id = ANY ($1)
    UNION ALL
    SELECT id, state FROM leasehold.finished_jobs WHERE id = ANY ($1)
";

// In key order. What was read is named again, since another enqueue may have been first.
const TAKE_OVER_KEYS: &str = "
    WITH given AS MATERIALIZED (
        SELECT * FROM unnest($1, $2, $3, $4, $5, $6) AS given (key, job_id, fingerprint, states, keep_ms, holder)
    ),
    locked AS MATERIALIZED (
        SELECT key FROM leasehold.unique_keys WHERE key = ANY ($1) ORDER BY key FOR NO KEY UPDATE
    )
    UPDATE leasehold.unique_keys AS k SET job_id = g.job_id, fingerprint = g.fingerprint, states = g.states,
        expires_at = pg_catalog.clock_timestamp() + g.keep_ms * INTERVAL '1 millisecond'
    FROM given AS g
    WHERE k.key = ANY (ARRAY(SELECT key FROM locked)) AND k.key = g.key AND k.job_id = g.holder
    RETURNING k.key
";

// One that waits for other jobs still does. Otherwise a run time that is to come keeps it, and without one a limit does
// unless the job was admitted for the same key and keeps its run time.
const CHANGE_READY: &str = concat!(
    "
    WITH clock AS MATERIALIZED (SELECT pg_catalog.clock_timestamp() AS at),
    given AS MATERIALIZED (
        SELECT given.*, clock.at, coalesce(
            TIMESTAMP WITH TIME ZONE 'epoch' + at_ms * INTERVAL '1 millisecond',
            clock.at + after_ms * INTERVAL '1 millisecond'
        ) AS due
        FROM unnest($1, $2, $3, $4, $5, $6, $7, $8)
            AS given (id, generation, replaces, payload, version, limit_key, after_ms, at_ms)
        CROSS JOIN clock
    ),
    changed AS (
        UPDATE leasehold.jobs AS j SET generation = j.generation + 1,
            payload = CASE WHEN g.replaces THEN g.payload::pg_catalog.json ELSE j.payload END,
            version = CASE WHEN g.replaces THEN g.version ELSE j.version END,
            limit_key = CASE WHEN g.replaces THEN g.limit_key ELSE j.limit_key END,
            run_at = coalesce(g.due, j.run_at),
            scheduled = CASE WHEN j.blocked_by = 'jobs' THEN false ELSE coalesce(g.due > g.at, j.scheduled) END,
            blocked_by = CASE
                WHEN j.blocked_by = 'jobs' THEN 'jobs'
                WHEN coalesce(g.due > g.at, j.scheduled) THEN NULL
                WHEN CASE WHEN g.replaces THEN g.limit_key ELSE j.limit_key END IS NULL THEN NULL
                WHEN g.due IS NOT NULL OR g.replaces AND g.limit_key IS DISTINCT FROM j.limit_key THEN 'limit'
                ELSE j.blocked_by END
        FROM given AS g
        WHERE j.id = ANY ($1) AND j.id = g.id AND j.generation = g.generation AND j.state = 'ready'
        RETURNING j.id
    )
    SELECT id, (SELECT ",
    tell!("leasehold"),
    ") FROM changed ORDER BY id"
);

#[derive(diesel::QueryableByName)]
struct Key {
    #[diesel(sql_type = Text)]
    key: String,
}

fn texts(keys: Vec<Key>) -> Vec<String> {
    keys.into_iter().map(|row| row.key).collect()
}

impl KeyStatements for PgConnection {
    fn take_keys(&mut self, schema: &Schema, keys: &[NewKey]) -> QueryResult<Vec<String>> {
        let binds = (
            column::<Text, _, _>(keys, |key| key.key.as_str()),
            column::<BigInt, _, _>(keys, |key| key.job_id),
            column::<Text, _, _>(keys, |key| key.fingerprint.as_str()),
            column::<SmallInt, _, _>(keys, |key| key.states),
            column::<Nullable<BigInt>, _, _>(keys, |key| key.keep_ms),
        );
        Sql(schema.render(TAKE_KEYS), binds).load(self).map(texts)
    }

    fn key_holders(&mut self, schema: &Schema, keys: &[String]) -> QueryResult<Vec<KeyHolder>> {
        Sql(schema.render(KEY_HOLDERS), (bind::<Array<Text>, _>(keys),)).load(self)
    }

    fn lock_ready(&mut self, schema: &Schema, ids: &[i64]) -> QueryResult<Vec<LockedReady>> {
        Sql(schema.render(LOCK_READY), (bind::<Array<BigInt>, _>(ids),)).load(self)
    }

    fn job_states(&mut self, schema: &Schema, ids: &[i64]) -> QueryResult<Vec<JobState>> {
        Sql(schema.render(JOB_STATES), (bind::<Array<BigInt>, _>(ids),)).load(self)
    }

    fn take_over_keys(&mut self, schema: &Schema, keys: &[(NewKey, i64)]) -> QueryResult<Vec<String>> {
        let binds = (
            column::<Text, _, _>(keys, |(key, _)| key.key.as_str()),
            column::<BigInt, _, _>(keys, |(key, _)| key.job_id),
            column::<Text, _, _>(keys, |(key, _)| key.fingerprint.as_str()),
            column::<SmallInt, _, _>(keys, |(key, _)| key.states),
            column::<Nullable<BigInt>, _, _>(keys, |(key, _)| key.keep_ms),
            column::<BigInt, _, _>(keys, |(_, holder)| *holder),
        );
        Sql(schema.render(TAKE_OVER_KEYS), binds).load(self).map(texts)
    }

    fn change_ready(&mut self, schema: &Schema, changes: &[ReadyChange]) -> QueryResult<Vec<i64>> {
        let binds = (
            column::<BigInt, _, _>(changes, |change| change.id),
            column::<BigInt, _, _>(changes, |change| change.generation),
            column::<Bool, _, _>(changes, |change| change.replaced.is_some()),
            column::<Nullable<Text>, _, _>(changes, |change| Some(change.replaced.as_ref()?.payload.as_str())),
            column::<Nullable<Integer>, _, _>(changes, |change| Some(change.replaced.as_ref()?.version)),
            column::<Nullable<Text>, _, _>(changes, |change| change.replaced.as_ref()?.limit_key.as_deref()),
            column::<Nullable<BigInt>, _, _>(changes, |change| match change.run_at {
                Some(RunAt::After(ms)) => Some(ms),
                _ => None,
            }),
            column::<Nullable<BigInt>, _, _>(changes, |change| match change.run_at {
                Some(RunAt::At(ms)) => Some(ms),
                _ => None,
            }),
        );
        let changed: Vec<Id> = Sql(schema.render(CHANGE_READY), binds).load(self)?;
        Ok(changed.into_iter().map(|row| row.id).collect())
    }
}
