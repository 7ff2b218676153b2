//! Enqueue.

use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Bool, Integer, Nullable, Text};
use diesel::{QueryableByName, RunQueryDsl, SqliteConnection};

use super::{json, now_ms};
use crate::backend::{EnqueueStatements, NewJob, RunAt};
use crate::enqueue::stored_idempotency_key;
use crate::schema::Schema;
use crate::sql::{Id, Sql, bind};

/// SQLite takes no text of more than 10^9 bytes, and a thousand payloads can be longer.
const MAX_TEXT_BYTES: usize = 32 * 1024 * 1024;

pub(super) const INSERT: &str = "
    INSERT INTO leasehold_jobs (queue, kind, version, payload, priority, run_at, scheduled, max_attempts, lease_ms,
        idempotency_key, unique_key, created_at, expires_at, limit_key, limit_rank, batch_id, awaited, blocked_by, unique_states)
    SELECT value->>0, value->>1, value->>2, value->>3, value->>4, value->>5, value->>6, value->>7, value->>8,
        coalesce(value->>9, lower(hex(randomblob(16)))), value->>10, $2,
        $2 + (value->11->>0), value->11->>1, value->11->>2, value->11->>3, value->11->>4, value->11->>5, value->11->>6
    FROM json_each($1)
    RETURNING id
";

/// One job by itself, which has no need of JSON.
const INSERT_ONE: &str = "
    INSERT INTO leasehold_jobs (queue, kind, version, payload, priority, run_at, scheduled, max_attempts, lease_ms,
        idempotency_key, unique_key, created_at, expires_at, limit_key, limit_rank, batch_id, awaited, blocked_by, unique_states)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9,
        coalesce($10, lower(hex(randomblob(16)))), $11, $12, $12 + $13, $14, $15, $16, $17, $18, $19)
    RETURNING id
";

const WITHDRAW: &str = "
    DELETE FROM leasehold_jobs WHERE id IN (SELECT value FROM json_each($1)) AND state = 'ready' AND generation = 0
    RETURNING id, unique_key, idempotency_key
";

/// By the text under which they are stored, since there is no index on the job.
const WITHDRAW_KEYS: &str = "
    DELETE FROM leasehold_unique_keys WHERE key IN (SELECT value->>0 FROM json_each($1))
        AND (key, job_id) IN (SELECT value->>0, value->>1 FROM json_each($1))
";

#[derive(QueryableByName)]
struct Withdrawn {
    #[diesel(sql_type = BigInt)]
    id: i64,
    #[diesel(sql_type = Nullable<Text>)]
    unique_key: Option<String>,
    #[diesel(sql_type = Text)]
    idempotency_key: String,
}

impl EnqueueStatements for SqliteConnection {
    fn insert(&mut self, schema: &Schema, jobs: &[NewJob]) -> QueryResult<Vec<i64>> {
        // No transaction of our own around it: a caller may have begun one that Diesel does not know of.
        let now = now_ms();
        if let [job] = jobs {
            return insert_one(self, schema, job, now);
        }
        let mut ids = Vec::with_capacity(jobs.len());
        let mut rest = jobs;
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(how_many_fit(rest));
            let rows = json(&chunk.iter().map(|job| row(job, now)).collect::<Vec<_>>())?;
            let inserted: Vec<Id> =
                Sql(schema.render(INSERT), (bind::<Text, _>(rows), bind::<BigInt, _>(now))).load(self)?;
            ids.extend(inserted.into_iter().map(|row| row.id));
            rest = after;
        }
        // Ids grow in the order of the insert; nothing is promised about the order of the answer.
        ids.sort_unstable();
        Ok(ids)
    }

    fn withdraw(&mut self, schema: &Schema, ids: &[i64]) -> QueryResult<usize> {
        let withdrawn: Vec<Withdrawn> = Sql(schema.render(WITHDRAW), (bind::<Text, _>(json(ids)?),)).load(self)?;
        let mut keys: Vec<(String, i64)> = Vec::with_capacity(2 * withdrawn.len());
        for row in &withdrawn {
            keys.extend(row.unique_key.clone().map(|key| (key, row.id)));
            keys.push((stored_idempotency_key(&row.idempotency_key), row.id));
        }
        Sql(schema.render(WITHDRAW_KEYS), (bind::<Text, _>(json(&keys)?),)).execute(self)?;
        Ok(withdrawn.len())
    }
}

fn how_many_fit(jobs: &[NewJob]) -> usize {
    let mut bytes = 0;
    let fit = jobs.iter().take_while(|job| {
        bytes += job.payload.len();
        bytes <= MAX_TEXT_BYTES
    });
    fit.count().max(1)
}

pub(super) fn due(run_at: RunAt, now: i64) -> i64 {
    match run_at {
        RunAt::After(after) => now.saturating_add(after),
        RunAt::At(at) => at,
    }
}

fn blocked_by(job: &NewJob, run_at: i64, now: i64) -> Option<&'static str> {
    match &job.limit_key {
        _ if job.waits => Some("jobs"),
        Some(_) if run_at <= now => Some("limit"),
        _ => None,
    }
}

fn insert_one(conn: &mut SqliteConnection, schema: &Schema, job: &NewJob, now: i64) -> QueryResult<Vec<i64>> {
    let run_at = due(job.run_at, now);
    let binds = (
        bind::<Text, _>(&job.queue),
        bind::<Text, _>(job.kind.as_ref()),
        bind::<Integer, _>(job.version),
        bind::<Text, _>(&job.payload),
        bind::<Integer, _>(i32::from(job.priority)),
        bind::<BigInt, _>(run_at),
        bind::<Bool, _>(run_at > now && !job.waits),
        bind::<Integer, _>(job.max_attempts),
        bind::<BigInt, _>(job.lease_ms),
        bind::<Nullable<Text>, _>(job.idempotency_key.as_deref()),
        bind::<Nullable<Text>, _>(job.unique_key.as_deref()),
        bind::<BigInt, _>(now),
        bind::<Nullable<BigInt>, _>(job.expires_ms),
        bind::<Nullable<Text>, _>(job.limit_key.as_deref()),
        bind::<Integer, _>(i32::from(job.limit_rank)),
        bind::<Nullable<BigInt>, _>(job.batch_id),
        bind::<Bool, _>(job.awaited),
        bind::<Nullable<Text>, _>(blocked_by(job, run_at, now)),
        bind::<Integer, _>(i32::from(job.unique.mask())),
    );
    let inserted: Vec<Id> = Sql(schema.render(INSERT_ONE), binds).load(conn)?;
    Ok(inserted.into_iter().map(|row| row.id).collect())
}

/// A job as the elements that [`INSERT`] reads.
fn row(job: &NewJob, now: i64) -> impl serde::Serialize {
    let run_at = due(job.run_at, now);
    (
        &job.queue,
        &job.kind,
        job.version,
        &job.payload,
        job.priority,
        run_at,
        i32::from(run_at > now && !job.waits),
        job.max_attempts,
        job.lease_ms,
        &job.idempotency_key,
        &job.unique_key,
        // Nested, because serde knows tuples of sixteen elements at the most.
        (
            job.expires_ms,
            &job.limit_key,
            job.limit_rank,
            job.batch_id,
            i32::from(job.awaited),
            blocked_by(job, run_at, now),
            job.unique.mask(),
        ),
    )
}
