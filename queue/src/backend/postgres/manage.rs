use diesel::result::QueryResult;
use diesel::sql_types::{Array, BigInt, Integer, Nullable, SmallInt, Text, Uuid as SqlUuid};
use diesel::{PgConnection, QueryableByName, RunQueryDsl};
use uuid::Uuid;

use crate::backend::{Change, JobRow, ManageStatements, Matching, PurgeCursor, Purged, RequeuedRow, RunAt};
use crate::inspect::State;
use crate::schema::Schema;
use crate::sql::{Bind, Id, Sql, bind};
use crate::transaction::atomically;

/// The columns of both tables by which jobs are chosen, `$since` being when the age of a row begins.
macro_rules! matching {
    ($since:literal) => {
        concat!(
            "($1 IS NULL OR j.state = $1) AND ($2 IS NULL OR j.kind = $2) AND ($3 IS NULL OR j.queue = $3)
             AND ($4 IS NULL OR j.batch_id = $4)
             AND ($5 IS NULL OR ",
            $since,
            " <= pg_catalog.clock_timestamp() - $5 * INTERVAL '1 millisecond')"
        )
    };
}

/// Part of the text of an attempt's error; `position` knows no wildcards.
macro_rules! failed_with {
    () => {
        "EXISTS (SELECT 1 FROM leasehold.job_errors AS x
                 WHERE x.job_id = j.id AND pg_catalog.strpos(x.error, $6) > 0)"
    };
}

/// These columns of the jobs that were chosen, by id.
macro_rules! chosen {
    (open: [$($open:tt)*], ended: [$($ended:tt)*]) => {
        concat!(
            "(SELECT ",
            $($open)*,
            " FROM leasehold.jobs AS j WHERE ",
            matching!("j.created_at"),
            " AND ($6 IS NULL OR ",
            failed_with!(),
            ") AND j.id > $7 ORDER BY j.id LIMIT $8)
    UNION ALL
    (SELECT ",
            $($ended)*,
            " FROM leasehold.finished_jobs AS j WHERE ",
            matching!("j.finished_at"),
            " AND ($6 IS NULL OR pg_catalog.strpos(j.reason, $6) > 0 OR ",
            failed_with!(),
            ") AND j.id > $7 ORDER BY j.id LIMIT $8)
    ORDER BY id LIMIT $8"
        )
    };
}

const JOBS: &str = chosen!(
    open: [
        job_columns!(),
        ", cancel_requested_at IS NOT NULL AS cancel_requested, NULL::bigint AS finished_at_ms, NULL::pg_catalog.text AS reason"
    ],
    ended: [job_columns!(), ", false, pg_catalog.floor(extract(epoch FROM finished_at) * 1000)::bigint, reason"]
);

// A payload may have a megabyte.
const IDS: &str = chosen!(open: ["j.id"], ended: ["j.id"]);

const LOCK_OPEN: &str = "
    SELECT id, state, generation, lease_token FROM leasehold.jobs WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE
";

const REQUEST_CANCEL: &str = "
    UPDATE leasehold.jobs AS j SET cancel_requested_at = coalesce(j.cancel_requested_at, pg_catalog.clock_timestamp())
    FROM unnest($1, $2, $3) AS l (id, generation, lease_token)
    WHERE j.id = ANY ($1) AND j.id = l.id AND j.generation = l.generation AND j.lease_token = l.lease_token
      AND j.state = 'running'
    RETURNING j.id, pg_catalog.pg_notify('leasehold_cancel', '')
";

const END_OPEN: &str = concat!(
    "WITH ended AS (
        DELETE FROM leasehold.jobs AS j USING unnest($1, $2, $3, $4) AS l (id, generation, lease_token, state)
        WHERE j.id = ANY ($1) AND j.id = l.id AND j.generation = l.generation
          AND j.lease_token IS NOT DISTINCT FROM l.lease_token AND j.state = l.state
        RETURNING j.*
    ),
    ",
    freed!(many: "CASE $6 WHEN 'cancelled' THEN 16 ELSE 8 END"),
    ", ",
    moved!(state: "$6", generation: "e.generation + 1", reason: "$5"),
    " SELECT m.id, CASE WHEN e.state = 'running' THEN pg_catalog.pg_notify('leasehold_cancel', '') END
    FROM moved AS m CROSS JOIN LATERAL (SELECT state FROM ended WHERE ended.id = m.id) AS e"
);

// The key of a job that another one has taken since stays with that one, and so does the job among the finished ones: it
// harms itself alone. Of two with one key the elder is first. A key that it still has stays as it is, its period among that; one
// that it takes anew goes with its end, for its period has begun with its enqueue.
// Keys are taken as enqueues take them: first all that nobody has, in their order, and only then those that are there.
const REQUEUE: &str = concat!(
    "
    WITH old AS MATERIALIZED (
        SELECT * FROM leasehold.finished_jobs
        WHERE id = ANY ($1) AND state IN ('discarded', 'cancelled') AND generation < 9223372036854775805
        ORDER BY id FOR NO KEY UPDATE
    ),
    wanted AS MATERIALIZED (
        SELECT DISTINCT ON (unique_key) unique_key, id, unique_states & 3 AS states,
            pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(kind || pg_catalog.chr(10) || payload::pg_catalog.text, 'UTF8')), 'hex') AS fingerprint
        FROM old WHERE unique_key IS NOT NULL ORDER BY unique_key, id
    ),
    keyed AS (
        INSERT INTO leasehold.unique_keys (key, job_id, fingerprint, states)
        SELECT unique_key, id, fingerprint, states FROM wanted ORDER BY unique_key COLLATE pg_catalog.\"C\"
        ON CONFLICT (key) DO NOTHING
        RETURNING job_id
    ),
    locked AS MATERIALIZED (
        SELECT k.key FROM leasehold.unique_keys AS k
        WHERE (SELECT pg_catalog.count(*) FROM keyed) >= 0 AND k.key = ANY (ARRAY(SELECT unique_key FROM wanted))
        ORDER BY k.key FOR NO KEY UPDATE
    ),
    again AS (
        UPDATE leasehold.unique_keys AS k SET
            job_id = w.id, fingerprint = w.fingerprint,
            states = CASE WHEN k.expires_at <= pg_catalog.clock_timestamp() THEN w.states ELSE k.states END,
            expires_at = CASE WHEN k.expires_at > pg_catalog.clock_timestamp() THEN k.expires_at END
        FROM wanted AS w
        WHERE k.key = ANY (ARRAY(SELECT key FROM locked)) AND k.key = w.unique_key
          AND (k.job_id = w.id OR k.expires_at <= pg_catalog.clock_timestamp())
        RETURNING k.job_id
    ),
    back AS (
        DELETE FROM leasehold.finished_jobs AS f USING old AS o
        WHERE f.id = ANY (ARRAY(SELECT id FROM old)) AND f.id = o.id AND f.generation = o.generation
          AND (o.unique_key IS NULL
            OR o.id = ANY (ARRAY(SELECT job_id FROM keyed UNION ALL SELECT job_id FROM again)))
        RETURNING f.*
    ),
    ready AS (
        INSERT INTO leasehold.jobs (id, queue, kind, version, payload, priority, max_attempts, generation, lease_token, lease_ms,
            idempotency_key, unique_key, unique_states, limit_key, limit_rank, blocked_by, batch_id, awaited, created_at)
        SELECT id, queue, kind, version, payload, priority, max_attempts, generation + 1, lease_token, lease_ms,
            idempotency_key, unique_key, unique_states, limit_key, limit_rank, CASE WHEN limit_key IS NOT NULL THEN 'limit' END, batch_id,
            (SELECT 1 FROM leasehold.job_waits AS w WHERE w.on_job_id = back.id LIMIT 1) IS NOT NULL, created_at
        FROM back ORDER BY id
        RETURNING id
    )
    SELECT o.id, r.id IS NOT NULL AS requeued, CASE WHEN r.id IS NOT NULL THEN (SELECT ",
    tell!("leasehold"),
    ") END
    FROM old AS o LEFT JOIN ready AS r ON r.id = o.id ORDER BY o.id"
);

// What waits for other jobs looks at its run time only afterwards, and at its limit last. One that a limit has admitted
// stays so, unless it is given another run time or limit.
const EDIT: &str = concat!(
    "
    WITH clock AS MATERIALIZED (SELECT pg_catalog.clock_timestamp() AS at),
    given AS MATERIALIZED (
        SELECT at, coalesce(TIMESTAMP WITH TIME ZONE 'epoch' + $4 * INTERVAL '1 millisecond', at + $5 * INTERVAL '1 millisecond') AS due
        FROM clock
    ),
    edited AS (
        UPDATE leasehold.jobs AS j SET
            generation = j.generation + 1, priority = coalesce($3, j.priority), run_at = coalesce(given.due, j.run_at),
            scheduled = CASE WHEN j.blocked_by = 'jobs' THEN false ELSE coalesce(given.due > given.at, j.scheduled) END,
            payload = coalesce($6::pg_catalog.json, j.payload), version = coalesce($7, j.version),
            limit_key = CASE WHEN $7 IS NULL THEN j.limit_key ELSE $8 END,
            blocked_by = CASE
                WHEN j.blocked_by = 'jobs' THEN 'jobs'
                WHEN coalesce(given.due > given.at, j.scheduled) THEN NULL
                WHEN CASE WHEN $7 IS NULL THEN j.limit_key ELSE $8 END IS NULL THEN NULL
                WHEN given.due IS NOT NULL OR $7 IS NOT NULL AND $8 IS DISTINCT FROM j.limit_key THEN 'limit'
                ELSE j.blocked_by END
        FROM given
        WHERE j.id = $1 AND j.generation = $2 AND j.state = 'ready' AND j.generation < 9223372036854775805
          AND ($6 IS NULL OR (j.kind = $9 AND ($7 IS NULL OR j.unique_key IS NOT DISTINCT FROM $10)))
        RETURNING j.id
    )
    SELECT id, ",
    tell!("leasehold"),
    " FROM edited"
);

// What an unfinished batch counts, and what a job still waits for or reads, stays. Such rows may be many and old, so the
// next look begins behind them.
const PURGE: &str = "
    WITH seen AS MATERIALIZED (
        SELECT id, unique_key, batch_id, finished_at FROM leasehold.finished_jobs
        WHERE state = $1 AND finished_at <= (SELECT pg_catalog.clock_timestamp()) - $2 * INTERVAL '1 millisecond'
          AND (finished_at, id) > (TIMESTAMP WITH TIME ZONE 'epoch' + $3 * INTERVAL '1 microsecond', $4)
        ORDER BY finished_at, id LIMIT $5 FOR UPDATE SKIP LOCKED
    ),
    old AS MATERIALIZED (
        SELECT s.id, s.unique_key FROM seen AS s
        WHERE (SELECT b.finished_at IS NULL FROM leasehold.batches AS b WHERE b.id = s.batch_id) IS NOT TRUE
          AND (
              SELECT 1 FROM leasehold.job_waits AS w
              WHERE w.on_job_id = s.id AND (SELECT 1 FROM leasehold.jobs AS j WHERE j.id = w.job_id) IS NOT NULL LIMIT 1
          ) IS NULL
    ),
    errors AS (DELETE FROM leasehold.job_errors WHERE job_id = ANY (ARRAY(SELECT id FROM old))),
    results AS (DELETE FROM leasehold.job_results WHERE job_id = ANY (ARRAY(SELECT id FROM old))),
    progress AS (DELETE FROM leasehold.job_progress WHERE job_id = ANY (ARRAY(SELECT id FROM old))),
    steps AS (DELETE FROM leasehold.steps WHERE job_id = ANY (ARRAY(SELECT id FROM old))),
    waits AS (DELETE FROM leasehold.job_waits WHERE job_id = ANY (ARRAY(SELECT id FROM old))),
    freed AS (
        DELETE FROM leasehold.unique_keys WHERE key = ANY (ARRAY(
            SELECT k.key FROM leasehold.unique_keys AS k
            WHERE k.key = ANY (ARRAY(SELECT unique_key FROM old WHERE unique_key IS NOT NULL)) AND k.job_id = ANY (ARRAY(SELECT id FROM old))
            FOR NO KEY UPDATE SKIP LOCKED
        ))
    ),
    purged AS (DELETE FROM leasehold.finished_jobs WHERE id = ANY (ARRAY(SELECT id FROM old)) RETURNING id)
    SELECT (SELECT pg_catalog.count(*) FROM purged) AS purged, (SELECT pg_catalog.count(*) FROM seen) AS seen,
        pg_catalog.round(extract(epoch FROM last.finished_at) * 1000000)::bigint AS finished_at, last.id
    FROM (SELECT 1) AS one LEFT JOIN (SELECT finished_at, id FROM seen ORDER BY finished_at DESC, id DESC LIMIT 1) AS last ON true
";

#[derive(QueryableByName)]
struct Locked {
    #[diesel(sql_type = BigInt)]
    id: i64,
    #[diesel(sql_type = Text)]
    state: String,
    #[diesel(sql_type = BigInt)]
    generation: i64,
    #[diesel(sql_type = Nullable<SqlUuid>)]
    lease_token: Option<Uuid>,
}

/// Whoever cancels has no fence of its own, so it presents what it read under the lock. In two statements: one alone
/// would look for the row as it was before the wait, and miss a job that was claimed meanwhile.
fn under_lock(
    conn: &mut PgConnection,
    schema: &Schema,
    ids: &[i64],
    write: impl FnOnce(&mut PgConnection, &[Locked]) -> QueryResult<Vec<Id>>,
) -> QueryResult<Vec<i64>> {
    let work = |conn: &mut PgConnection| {
        let rows: Vec<Locked> = Sql(schema.render(LOCK_OPEN), (bind::<Array<BigInt>, _>(ids),)).load(conn)?;
        write(conn, &rows)
    };
    let written = atomically(conn, work)?;
    Ok(written.into_iter().map(|row| row.id).collect())
}

type Chosen<'m> = (
    Bind<Nullable<Text>, Option<&'static str>>,
    Bind<Nullable<Text>, Option<&'m str>>,
    Bind<Nullable<Text>, Option<&'m str>>,
    Bind<Nullable<BigInt>, Option<i64>>,
    Bind<Nullable<BigInt>, Option<i64>>,
    Bind<Nullable<Text>, Option<&'m str>>,
    Bind<BigInt, i64>,
    Bind<BigInt, i64>,
);

fn chosen(matching: &Matching, after: i64, limit: i64) -> Chosen<'_> {
    (
        bind(matching.state),
        bind(matching.kind.as_deref()),
        bind(matching.queue.as_deref()),
        bind(matching.batch_id),
        bind(matching.older_than_ms),
        bind(matching.error.as_deref()),
        bind(after),
        bind(limit),
    )
}

impl ManageStatements for PgConnection {
    fn jobs(&mut self, schema: &Schema, matching: &Matching, after: i64, limit: i64) -> QueryResult<Vec<JobRow>> {
        Sql(schema.render(JOBS), chosen(matching, after, limit)).load(self)
    }

    fn ids(&mut self, schema: &Schema, matching: &Matching, after: i64, limit: i64) -> QueryResult<Vec<i64>> {
        let ids: Vec<Id> = Sql(schema.render(IDS), chosen(matching, after, limit)).load(self)?;
        Ok(ids.into_iter().map(|row| row.id).collect())
    }

    fn request_cancel(&mut self, schema: &Schema, ids: &[i64]) -> QueryResult<Vec<i64>> {
        under_lock(self, schema, ids, |conn, rows| {
            let binds = (
                bind::<Array<BigInt>, _>(rows.iter().map(|row| row.id).collect::<Vec<_>>()),
                bind::<Array<BigInt>, _>(rows.iter().map(|row| row.generation).collect::<Vec<_>>()),
                bind::<Array<Nullable<SqlUuid>>, _>(rows.iter().map(|row| row.lease_token).collect::<Vec<_>>()),
            );
            Sql(schema.render(REQUEST_CANCEL), binds).load(conn)
        })
    }

    fn end_open(
        &mut self,
        schema: &Schema,
        ids: &[i64],
        running: bool,
        state: State,
        reason: &str,
    ) -> QueryResult<Vec<i64>> {
        under_lock(self, schema, ids, |conn, rows| {
            let rows: Vec<&Locked> = rows.iter().filter(|row| running || row.state == "ready").collect();
            let binds = (
                bind::<Array<BigInt>, _>(rows.iter().map(|row| row.id).collect::<Vec<_>>()),
                bind::<Array<BigInt>, _>(rows.iter().map(|row| row.generation).collect::<Vec<_>>()),
                bind::<Array<Nullable<SqlUuid>>, _>(rows.iter().map(|row| row.lease_token).collect::<Vec<_>>()),
                bind::<Array<Text>, _>(rows.iter().map(|row| row.state.as_str()).collect::<Vec<_>>()),
                bind::<Text, _>(reason),
                bind::<Text, _>(state.as_str()),
            );
            Sql(schema.render(END_OPEN), binds).load(conn)
        })
    }

    fn requeue(&mut self, schema: &Schema, ids: &[i64]) -> QueryResult<Vec<RequeuedRow>> {
        Sql(schema.render(REQUEUE), (bind::<Array<BigInt>, _>(ids),)).load(self)
    }

    fn edit(&mut self, schema: &Schema, id: i64, generation: i64, change: &Change) -> QueryResult<usize> {
        let payload = change.payload.as_ref();
        let typed = payload.and_then(|new| new.typed.as_ref());
        let (at_ms, after_ms) = match change.run_at {
            Some(RunAt::At(ms)) => (Some(ms), None),
            Some(RunAt::After(ms)) => (None, Some(ms)),
            None => (None, None),
        };
        let binds = (
            bind::<BigInt, _>(id),
            bind::<BigInt, _>(generation),
            bind::<Nullable<SmallInt>, _>(change.priority),
            bind::<Nullable<BigInt>, _>(at_ms),
            bind::<Nullable<BigInt>, _>(after_ms),
            bind::<Nullable<Text>, _>(payload.map(|new| new.payload.as_str())),
            bind::<Nullable<Integer>, _>(typed.map(|new| new.version)),
            bind::<Nullable<Text>, _>(typed.and_then(|new| new.limit_key.as_deref())),
            bind::<Nullable<Text>, _>(payload.map(|new| new.kind.as_ref())),
            bind::<Nullable<Text>, _>(typed.and_then(|new| new.unique_key.as_deref())),
        );
        Sql(schema.render(EDIT), binds).execute(self)
    }

    fn purge(
        &mut self,
        schema: &Schema,
        state: &str,
        older_than_ms: i64,
        after: PurgeCursor,
        limit: i64,
    ) -> QueryResult<Purged> {
        let binds = (
            bind::<Text, _>(state),
            bind::<BigInt, _>(older_than_ms),
            bind::<BigInt, _>(after.finished_at),
            bind::<BigInt, _>(after.id),
            bind::<BigInt, _>(limit),
        );
        Sql(schema.render(PURGE), binds).get_result(self)
    }
}
