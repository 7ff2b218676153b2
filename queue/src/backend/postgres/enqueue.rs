use diesel::result::QueryResult;
use diesel::sql_types::{Array, BigInt, Bool, Integer, Nullable, SmallInt, Text};
use diesel::{PgConnection, RunQueryDsl};

use crate::backend::{EnqueueStatements, NewJob, RunAt};
use crate::schema::Schema;
use crate::sql::{Bind, Id, Sql, bind};

/// Inserts what `given` has, in its order. One clock reading for all rows: equal run times fall back to the order of the ids,
/// which is that of the jobs.
macro_rules! inserted {
    (given: $given:literal) => {
        concat!(
            "INSERT INTO leasehold.jobs (queue, kind, version, payload, priority, run_at, scheduled, max_attempts, lease_ms,
            idempotency_key, unique_key, expires_at, limit_key, limit_rank, batch_id, awaited, blocked_by, unique_states)
        SELECT queue, kind, version, payload::pg_catalog.json, priority, due, due > at AND NOT waits, max_attempts, lease_ms,
            coalesce(idempotency_key, pg_catalog.gen_random_uuid()::pg_catalog.text), unique_key,
            at + expires_ms * INTERVAL '1 millisecond', limit_key, limit_rank, batch_id, awaited,
            CASE WHEN waits THEN 'jobs' WHEN limit_key IS NOT NULL AND due <= at THEN 'limit' END, unique_states
        FROM (
            SELECT given.*, clock.at, coalesce(
                TIMESTAMP WITH TIME ZONE 'epoch' + at_ms * INTERVAL '1 millisecond',
                clock.at + after_ms * INTERVAL '1 millisecond'
            ) AS due
            FROM ",
            $given,
            " AS given (queue, kind, version, payload, priority, after_ms, at_ms, max_attempts, lease_ms, idempotency_key,
                unique_key, expires_ms, limit_key, limit_rank, batch_id, waits, awaited, unique_states, position)
            CROSS JOIN clock
        ) AS job
        ORDER BY position
        RETURNING id"
        )
    };
}

// Idle workers are told by the same statement, in a sub-select that is evaluated once.
pub(super) const INSERT: &str = concat!(
    "WITH clock AS MATERIALIZED (SELECT pg_catalog.clock_timestamp() AS at),
    inserted AS (
        ",
    inserted!(
        given: "unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18) WITH ORDINALITY"
    ),
    "
    )
    SELECT id, (SELECT ",
    tell!("leasehold"),
    ") FROM inserted ORDER BY id"
);

// One row takes the server a third less without arrays, a sort and a scan of what was returned, and most enqueues are of one.
pub(super) const INSERT_ONE: &str = concat!(
    "WITH clock AS MATERIALIZED (SELECT pg_catalog.clock_timestamp() AS at)
        ",
    inserted!(
        given: "(VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, 1))"
    ),
    ", (SELECT ",
    tell!("leasehold"),
    ")"
);

// Keys are found by the text under which they are stored (the enqueue hashes idempotency keys), since there is no index
// on the job.
// A function of the schema's owner: whoever enqueues needs it, and no right to delete jobs.
const WITHDRAW: &str = "SELECT id FROM leasehold.withdraw($1) AS withdrawn (id)";

/// One column of many rows.
pub(super) fn column<'r, ST, R, V>(rows: &'r [R], value: impl Fn(&'r R) -> V) -> Bind<Array<ST>, Vec<V>> {
    bind(rows.iter().map(value).collect())
}

impl EnqueueStatements for PgConnection {
    fn insert(&mut self, schema: &Schema, jobs: &[NewJob]) -> QueryResult<Vec<i64>> {
        if let [job] = jobs {
            return Ok(vec![insert_one(self, schema, job)?]);
        }
        let binds = (
            column::<Text, _, _>(jobs, |job| job.queue.as_str()),
            column::<Text, _, _>(jobs, |job| job.kind.as_ref()),
            column::<Integer, _, _>(jobs, |job| job.version),
            column::<Text, _, _>(jobs, |job| job.payload.as_str()),
            column::<SmallInt, _, _>(jobs, |job| job.priority),
            column::<Nullable<BigInt>, _, _>(jobs, |job| due(job).0),
            column::<Nullable<BigInt>, _, _>(jobs, |job| due(job).1),
            column::<Integer, _, _>(jobs, |job| job.max_attempts),
            column::<BigInt, _, _>(jobs, |job| job.lease_ms),
            column::<Nullable<Text>, _, _>(jobs, |job| job.idempotency_key.as_deref()),
            column::<Nullable<Text>, _, _>(jobs, |job| job.unique_key.as_deref()),
            column::<Nullable<BigInt>, _, _>(jobs, |job| job.expires_ms),
            column::<Nullable<Text>, _, _>(jobs, |job| job.limit_key.as_deref()),
            column::<SmallInt, _, _>(jobs, |job| job.limit_rank),
            column::<Nullable<BigInt>, _, _>(jobs, |job| job.batch_id),
            column::<Bool, _, _>(jobs, |job| job.waits),
            column::<Bool, _, _>(jobs, |job| job.awaited),
            column::<SmallInt, _, _>(jobs, |job| job.unique.mask()),
        );
        let ids: Vec<Id> = Sql(schema.render(INSERT), binds).load(self)?;
        Ok(ids.into_iter().map(|row| row.id).collect())
    }

    fn withdraw(&mut self, schema: &Schema, ids: &[i64]) -> QueryResult<usize> {
        Sql(schema.render(WITHDRAW), (bind::<Array<BigInt>, _>(ids),)).execute(self)
    }
}

fn insert_one(conn: &mut PgConnection, schema: &Schema, job: &NewJob) -> QueryResult<i64> {
    let (after_ms, at_ms) = due(job);
    let binds = (
        bind::<Text, _>(job.queue.as_str()),
        bind::<Text, _>(job.kind.as_ref()),
        bind::<Integer, _>(job.version),
        bind::<Text, _>(job.payload.as_str()),
        bind::<SmallInt, _>(job.priority),
        bind::<Nullable<BigInt>, _>(after_ms),
        bind::<Nullable<BigInt>, _>(at_ms),
        bind::<Integer, _>(job.max_attempts),
        bind::<BigInt, _>(job.lease_ms),
        bind::<Nullable<Text>, _>(job.idempotency_key.as_deref()),
        bind::<Nullable<Text>, _>(job.unique_key.as_deref()),
        bind::<Nullable<BigInt>, _>(job.expires_ms),
        bind::<Nullable<Text>, _>(job.limit_key.as_deref()),
        bind::<SmallInt, _>(job.limit_rank),
        bind::<Nullable<BigInt>, _>(job.batch_id),
        bind::<Bool, _>(job.waits),
        bind::<Bool, _>(job.awaited),
        bind::<SmallInt, _>(job.unique.mask()),
    );
    let row: Id = Sql(schema.render(INSERT_ONE), binds).get_result(conn)?;
    Ok(row.id)
}

/// Milliseconds from now, or since 1970.
fn due(job: &NewJob) -> (Option<i64>, Option<i64>) {
    match job.run_at {
        RunAt::After(ms) => (Some(ms), None),
        RunAt::At(ms) => (None, Some(ms)),
    }
}
