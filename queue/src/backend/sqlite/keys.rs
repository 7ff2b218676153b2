//! Unique and idempotency keys.

use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Text};
use diesel::{QueryableByName, RunQueryDsl, SqliteConnection};

use super::enqueue::due;
use super::{json, now_ms};
use crate::backend::{JobState, KeyHolder, KeyStatements, LockedReady, NewKey, ReadyChange};
use crate::schema::Schema;
use crate::sql::{Id, Sql, bind};

/// `WHERE true`, or the parser would take `ON CONFLICT` for a join's condition.
const TAKE_KEYS: &str = "
    INSERT INTO leasehold_unique_keys (key, job_id, fingerprint, states, expires_at)
    SELECT value->>0, value->>1, value->>2, value->>3, $2 + (value->>4) FROM json_each($1) WHERE true
    ON CONFLICT (key) DO NOTHING
    RETURNING key
";

const KEY_HOLDERS: &str = "
    SELECT key, job_id, fingerprint, states, coalesce(expires_at <= $2, 0) AS expired
    FROM leasehold_unique_keys WHERE key IN (SELECT value FROM json_each($1))
";

/// The enqueue has written already, so nobody else can: there is nothing to lock.
const LOCK_READY: &str = "
    SELECT id, generation, coalesce(expires_at <= $2, 0) AS expired
    FROM leasehold_jobs WHERE id IN (SELECT value FROM json_each($1)) AND state = 'ready' ORDER BY id
";

const JOB_STATES: &str = "
    SELECT id, state FROM leasehold_jobs WHERE id IN (SELECT value FROM json_each($1))
    UNION ALL
    SELECT id, state FROM leasehold_finished_jobs WHERE id IN (SELECT value FROM json_each($1))
";

const TAKE_OVER_KEYS: &str = "
    UPDATE leasehold_unique_keys AS k SET job_id = g.value->>1, fingerprint = g.value->>2, states = g.value->>3,
        expires_at = $2 + (g.value->>4)
    FROM json_each($1) AS g WHERE k.key = g.value->>0 AND k.job_id = g.value->>5
    RETURNING key
";

/// One that waits for other jobs still does. Otherwise a run time that is to come keeps it, and without one a limit does
/// unless the job was admitted for the same key and keeps its run time.
const CHANGE_READY: &str = "
    UPDATE leasehold_jobs AS j SET generation = j.generation + 1,
        payload = CASE WHEN g.value->>2 THEN g.value->>3 ELSE j.payload END,
        version = CASE WHEN g.value->>2 THEN g.value->>4 ELSE j.version END,
        limit_key = CASE WHEN g.value->>2 THEN g.value->>5 ELSE j.limit_key END,
        run_at = coalesce(g.value->>6, j.run_at),
        scheduled = CASE WHEN j.blocked_by = 'jobs' THEN 0 ELSE coalesce(g.value->>6 > $2, j.scheduled) END,
        blocked_by = CASE
            WHEN j.blocked_by = 'jobs' THEN 'jobs'
            WHEN coalesce(g.value->>6 > $2, j.scheduled) THEN NULL
            WHEN CASE WHEN g.value->>2 THEN g.value->>5 ELSE j.limit_key END IS NULL THEN NULL
            WHEN g.value->>6 IS NOT NULL OR g.value->>2 AND g.value->>5 IS NOT j.limit_key THEN 'limit'
            ELSE j.blocked_by END
    FROM json_each($1) AS g
    WHERE j.id = g.value->>0 AND j.generation = g.value->>1 AND j.state = 'ready'
    RETURNING id
";

#[derive(QueryableByName)]
struct Key {
    #[diesel(sql_type = Text)]
    key: String,
}

fn texts(keys: Vec<Key>) -> Vec<String> {
    keys.into_iter().map(|row| row.key).collect()
}

impl KeyStatements for SqliteConnection {
    fn take_keys(&mut self, schema: &Schema, keys: &[NewKey]) -> QueryResult<Vec<String>> {
        let keys: Vec<_> = keys
            .iter()
            .map(|key| (&key.key, key.job_id, &key.fingerprint, key.states, key.keep_ms))
            .collect();
        let binds = (bind::<Text, _>(json(&keys)?), bind::<BigInt, _>(now_ms()));
        Sql(schema.render(TAKE_KEYS), binds).load(self).map(texts)
    }

    fn key_holders(&mut self, schema: &Schema, keys: &[String]) -> QueryResult<Vec<KeyHolder>> {
        let binds = (bind::<Text, _>(json(keys)?), bind::<BigInt, _>(now_ms()));
        Sql(schema.render(KEY_HOLDERS), binds).load(self)
    }

    fn lock_ready(&mut self, schema: &Schema, ids: &[i64]) -> QueryResult<Vec<LockedReady>> {
        let binds = (bind::<Text, _>(json(ids)?), bind::<BigInt, _>(now_ms()));
        Sql(schema.render(LOCK_READY), binds).load(self)
    }

    fn job_states(&mut self, schema: &Schema, ids: &[i64]) -> QueryResult<Vec<JobState>> {
        Sql(schema.render(JOB_STATES), (bind::<Text, _>(json(ids)?),)).load(self)
    }

    fn take_over_keys(&mut self, schema: &Schema, keys: &[(NewKey, i64)]) -> QueryResult<Vec<String>> {
        let keys: Vec<_> = keys
            .iter()
            .map(|(key, holder)| (&key.key, key.job_id, &key.fingerprint, key.states, key.keep_ms, holder))
            .collect();
        let binds = (bind::<Text, _>(json(&keys)?), bind::<BigInt, _>(now_ms()));
        Sql(schema.render(TAKE_OVER_KEYS), binds).load(self).map(texts)
    }

    fn change_ready(&mut self, schema: &Schema, changes: &[ReadyChange]) -> QueryResult<Vec<i64>> {
        let now = now_ms();
        let changes: Vec<_> = changes
            .iter()
            .map(|change| {
                let replaced = change.replaced.as_ref();
                (
                    change.id,
                    change.generation,
                    i32::from(replaced.is_some()),
                    replaced.map(|new| &new.payload),
                    replaced.map(|new| new.version),
                    replaced.and_then(|new| new.limit_key.as_ref()),
                    change.run_at.map(|run_at| due(run_at, now)),
                )
            })
            .collect();
        let binds = (bind::<Text, _>(json(&changes)?), bind::<BigInt, _>(now));
        let changed: Vec<Id> = Sql(schema.render(CHANGE_READY), binds).load(self)?;
        Ok(changed.into_iter().map(|row| row.id).collect())
    }
}
