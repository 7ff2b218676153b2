//! What people do to jobs by hand.

use std::collections::HashSet;

use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Bool, Integer, Nullable, SmallInt, Text};
use diesel::{QueryableByName, RunQueryDsl, SqliteConnection};

use super::settle::{Moved, complete_move};
use super::{json, now_ms, write};
use crate::backend::{Change, JobRow, ManageStatements, Matching, PurgeCursor, Purged, RequeuedRow, RunAt};
use crate::inspect::State;
use crate::schema::Schema;
use crate::sql::{Bind, Id, Sql, bind};

/// The columns of both tables by which jobs are chosen, `$since` being when the age of a row begins, `$now` the time.
macro_rules! matching {
    ($since:literal, $now:literal) => {
        concat!(
            "($1 IS NULL OR j.state = $1) AND ($2 IS NULL OR j.kind = $2) AND ($3 IS NULL OR j.queue = $3)
             AND ($4 IS NULL OR j.batch_id = $4) AND ($5 IS NULL OR ",
            $since,
            " <= ",
            $now,
            " - $5)"
        )
    };
}

/// A part of the text of an attempt's error; `instr` knows no wildcards.
macro_rules! failed_with {
    () => {
        "EXISTS (SELECT 1 FROM leasehold_job_errors AS x WHERE x.job_id = j.id AND instr(x.error, $6) > 0)"
    };
}

/// These columns of the jobs that were chosen, by id.
macro_rules! chosen {
    (open: [$($open:tt)*], ended: [$($ended:tt)*]) => {
        concat!(
            "SELECT * FROM (SELECT ",
            $($open)*,
            " FROM leasehold_jobs AS j WHERE ",
            matching!("j.created_at", "$9"),
            " AND ($6 IS NULL OR ",
            failed_with!(),
            ") AND j.id > $7 ORDER BY j.id LIMIT $8 + 0)
    UNION ALL
    SELECT * FROM (SELECT ",
            $($ended)*,
            " FROM leasehold_finished_jobs AS j WHERE ",
            matching!("j.finished_at", "$9"),
            " AND ($6 IS NULL OR instr(j.reason, $6) > 0 OR ",
            failed_with!(),
            ") AND j.id > $7 ORDER BY j.id LIMIT $8 + 0)
    ORDER BY id LIMIT $8 + 0"
        )
    };
}

const JOBS: &str = chosen!(
    open: [job_columns!(), ", cancel_requested_at IS NOT NULL AS cancel_requested, NULL AS finished_at_ms, NULL AS reason"],
    ended: [job_columns!(), ", false, finished_at, reason"]
);

// A payload may have a megabyte.
const IDS: &str = chosen!(open: ["j.id"], ended: ["j.id"]);

const REQUEST_CANCEL: &str = "
    UPDATE leasehold_jobs SET cancel_requested_at = coalesce(cancel_requested_at, $2)
    WHERE id IN (SELECT value FROM json_each($1)) AND state = 'running'
    RETURNING id
";

const COPY_OPEN: &str = "
    INSERT OR REPLACE INTO leasehold_finished_jobs
        (id, queue, kind, version, payload, priority, run_at, attempt, max_attempts, lease_token, lease_ms,
         idempotency_key, unique_key, unique_states, limit_key, limit_rank, batch_id, created_at, state, generation, reason, finished_at)
    SELECT id, queue, kind, version, payload, priority, run_at, attempt, max_attempts, lease_token, lease_ms,
        idempotency_key, unique_key, unique_states, limit_key, limit_rank, batch_id, created_at, $5, generation + 1, $2, $3
    FROM leasehold_jobs WHERE id IN (SELECT value FROM json_each($1)) AND (state = 'ready' OR $4)
    RETURNING id, unique_key
";

/// Whoever ends a job by hand has no fence of its own, so it presents what was copied.
const DELETE_OPEN: &str = "
    DELETE FROM leasehold_jobs AS j WHERE j.id IN (SELECT value FROM json_each($1)) AND EXISTS (
        SELECT 1 FROM leasehold_finished_jobs AS copy
        WHERE copy.id = j.id AND copy.generation = j.generation + 1 AND copy.lease_token IS j.lease_token
    )
";

const FINISHED: &str = "
    SELECT id, kind, payload, unique_key, unique_states & 3 AS states FROM leasehold_finished_jobs
    WHERE id IN (SELECT value FROM json_each($1)) AND state IN ('discarded', 'cancelled')
        AND generation < 9223372036854775805
    ORDER BY id
";

/// The key of a job that another one has taken since stays with that one. Of two with one key the elder is first. A key
/// that it still has stays as it is, its period among that; one that it takes anew goes with its end, for its period has begun
/// with its enqueue.
const TAKE_KEY_AGAIN: &str = "
    INSERT INTO leasehold_unique_keys AS k (key, job_id, fingerprint, states) VALUES ($1, $2, $3, $5)
    ON CONFLICT (key) DO UPDATE SET
        job_id = excluded.job_id, fingerprint = excluded.fingerprint,
        states = CASE WHEN k.expires_at <= $4 THEN excluded.states ELSE k.states END,
        expires_at = CASE WHEN k.expires_at > $4 THEN k.expires_at END
        WHERE k.job_id = excluded.job_id OR k.expires_at <= $4
";

const COPY_BACK: &str = "
    INSERT INTO leasehold_jobs (id, queue, kind, version, payload, priority, run_at, max_attempts, generation, lease_token,
        lease_ms, idempotency_key, unique_key, unique_states, limit_key, limit_rank, blocked_by, batch_id, awaited, created_at)
    SELECT id, queue, kind, version, payload, priority, $2, max_attempts, generation + 1, lease_token,
        lease_ms, idempotency_key, unique_key, unique_states, limit_key, limit_rank, CASE WHEN limit_key IS NOT NULL THEN 'limit' END,
        batch_id, EXISTS (SELECT 1 FROM leasehold_job_waits AS w WHERE w.on_job_id = f.id), created_at
    FROM leasehold_finished_jobs AS f WHERE id IN (SELECT value FROM json_each($1)) ORDER BY id
";

const DELETE_REQUEUED: &str = "DELETE FROM leasehold_finished_jobs WHERE id IN (SELECT value FROM json_each($1))";

/// What waits for other jobs looks at its run time only afterwards, and at its limit last. One that a limit has admitted
/// stays so, unless it is given another run time or limit.
const EDIT: &str = "
    UPDATE leasehold_jobs SET
        generation = generation + 1, priority = coalesce($3, priority), run_at = coalesce($4, run_at),
        scheduled = CASE WHEN blocked_by = 'jobs' THEN 0 ELSE coalesce($4 > $5, scheduled) END,
        payload = coalesce($6, payload), version = coalesce($7, version),
        limit_key = CASE WHEN $7 IS NULL THEN limit_key ELSE $8 END,
        blocked_by = CASE
            WHEN blocked_by = 'jobs' THEN 'jobs'
            WHEN coalesce($4 > $5, scheduled) THEN NULL
            WHEN CASE WHEN $7 IS NULL THEN limit_key ELSE $8 END IS NULL THEN NULL
            WHEN $4 IS NOT NULL OR $7 IS NOT NULL AND $8 IS NOT limit_key THEN 'limit'
            ELSE blocked_by END
    WHERE id = $1 AND generation = $2 AND state = 'ready' AND generation < 9223372036854775805
        AND ($6 IS NULL OR (kind = $9 AND ($7 IS NULL OR unique_key IS $10)))
";

/// What an unfinished batch counts, and what a job still waits for or reads, stays. Such rows may be many and old, so the
/// next look begins behind them.
const SEEN: &str = "
    SELECT id, unique_key, finished_at,
        (EXISTS (SELECT 1 FROM leasehold_batches AS b WHERE b.id = f.batch_id AND b.finished_at IS NULL)
            OR EXISTS (SELECT 1 FROM leasehold_job_waits AS w JOIN leasehold_jobs AS j ON j.id = w.job_id WHERE w.on_job_id = f.id)
        ) AS needed
    FROM leasehold_finished_jobs AS f
    WHERE state = $1 AND finished_at <= $2 AND (finished_at, id) > ($3, $4) ORDER BY finished_at, id LIMIT $5 + 0
";

const PURGE_ERRORS: &str = "DELETE FROM leasehold_job_errors WHERE job_id IN (SELECT value FROM json_each($1))";

const PURGE_RESULTS: &str = "DELETE FROM leasehold_job_results WHERE job_id IN (SELECT value FROM json_each($1))";

const PURGE_PROGRESS: &str = "DELETE FROM leasehold_job_progress WHERE job_id IN (SELECT value FROM json_each($1))";

const PURGE_STEPS: &str = "DELETE FROM leasehold_steps WHERE job_id IN (SELECT value FROM json_each($1))";

const PURGE_WAITS: &str = "DELETE FROM leasehold_job_waits WHERE job_id IN (SELECT value FROM json_each($1))";

const PURGE: &str = "DELETE FROM leasehold_finished_jobs WHERE id IN (SELECT value FROM json_each($1)) AND state = $2";

#[derive(QueryableByName)]
struct Seen {
    #[diesel(embed)]
    job: Moved,
    #[diesel(sql_type = BigInt)]
    finished_at: i64,
    #[diesel(sql_type = Bool)]
    needed: bool,
}

#[derive(QueryableByName)]
struct Finished {
    #[diesel(sql_type = BigInt)]
    id: i64,
    #[diesel(sql_type = Text)]
    kind: String,
    #[diesel(sql_type = Text)]
    payload: String,
    #[diesel(sql_type = Nullable<Text>)]
    unique_key: Option<String>,
    #[diesel(sql_type = SmallInt)]
    states: i16,
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
        bind(now_ms()),
    )
}

impl ManageStatements for SqliteConnection {
    fn jobs(&mut self, schema: &Schema, matching: &Matching, after: i64, limit: i64) -> QueryResult<Vec<JobRow>> {
        Sql(schema.render(JOBS), chosen(matching, after, limit)).load(self)
    }

    fn ids(&mut self, schema: &Schema, matching: &Matching, after: i64, limit: i64) -> QueryResult<Vec<i64>> {
        let ids: Vec<Id> = Sql(schema.render(IDS), chosen(matching, after, limit)).load(self)?;
        Ok(ids.into_iter().map(|row| row.id).collect())
    }

    fn request_cancel(&mut self, schema: &Schema, ids: &[i64]) -> QueryResult<Vec<i64>> {
        let ids = json(ids)?;
        let asked: Vec<Id> = write(self, |conn, now| {
            let binds = (bind::<Text, _>(&ids), bind::<BigInt, _>(now));
            Sql(schema.render(REQUEST_CANCEL), binds).load(conn)
        })?;
        Ok(asked.into_iter().map(|row| row.id).collect())
    }

    fn end_open(
        &mut self,
        schema: &Schema,
        ids: &[i64],
        running: bool,
        state: State,
        reason: &str,
    ) -> QueryResult<Vec<i64>> {
        let ids = json(ids)?;
        write(self, |conn, now| {
            let binds = (
                bind::<Text, _>(&ids),
                bind::<Text, _>(reason),
                bind::<BigInt, _>(now),
                bind::<Bool, _>(running),
                bind::<Text, _>(state.as_str()),
            );
            let moved: Vec<Moved> = Sql(schema.render(COPY_OPEN), binds).load(conn)?;
            if moved.is_empty() {
                return Ok(Vec::new());
            }
            let copied = json(&moved.iter().map(|row| row.id).collect::<Vec<_>>())?;
            let deleted = Sql(schema.render(DELETE_OPEN), (bind::<Text, _>(copied),)).execute(conn)?;
            complete_move(conn, schema, moved, state.as_str(), deleted)
        })
    }

    fn requeue(&mut self, schema: &Schema, ids: &[i64]) -> QueryResult<Vec<RequeuedRow>> {
        let ids = json(ids)?;
        write(self, |conn, now| {
            let found: Vec<Finished> = Sql(schema.render(FINISHED), (bind::<Text, _>(&ids),)).load(conn)?;
            let mut rows = Vec::with_capacity(found.len());
            let mut taken = HashSet::new();
            for job in found {
                let requeued = match &job.unique_key {
                    Some(key) => taken.insert(key.clone()) && take_key_again(conn, schema, key, &job, now)?,
                    None => true,
                };
                rows.push(RequeuedRow { id: job.id, requeued });
            }
            let back = json(
                &rows
                    .iter()
                    .filter(|row| row.requeued)
                    .map(|row| row.id)
                    .collect::<Vec<_>>(),
            )?;
            let binds = (bind::<Text, _>(&back), bind::<BigInt, _>(now));
            Sql(schema.render(COPY_BACK), binds).execute(conn)?;
            Sql(schema.render(DELETE_REQUEUED), (bind::<Text, _>(&back),)).execute(conn)?;
            Ok(rows)
        })
    }

    fn edit(&mut self, schema: &Schema, id: i64, generation: i64, change: &Change) -> QueryResult<usize> {
        let payload = change.payload.as_ref();
        let typed = payload.and_then(|new| new.typed.as_ref());
        write(self, |conn, now| {
            let run_at = change.run_at.map(|run_at| match run_at {
                RunAt::At(ms) => ms,
                RunAt::After(ms) => now.saturating_add(ms),
            });
            let binds = (
                bind::<BigInt, _>(id),
                bind::<BigInt, _>(generation),
                bind::<Nullable<Integer>, _>(change.priority.map(i32::from)),
                bind::<Nullable<BigInt>, _>(run_at),
                bind::<BigInt, _>(now),
                bind::<Nullable<Text>, _>(payload.map(|new| new.payload.as_str())),
                bind::<Nullable<Integer>, _>(typed.map(|new| new.version)),
                bind::<Nullable<Text>, _>(typed.and_then(|new| new.limit_key.as_deref())),
                bind::<Nullable<Text>, _>(payload.map(|new| new.kind.as_ref())),
                bind::<Nullable<Text>, _>(typed.and_then(|new| new.unique_key.as_deref())),
            );
            Sql(schema.render(EDIT), binds).execute(conn)
        })
    }

    fn purge(
        &mut self,
        schema: &Schema,
        state: &str,
        older_than_ms: i64,
        after: PurgeCursor,
        limit: i64,
    ) -> QueryResult<Purged> {
        write(self, |conn, now| {
            let binds = (
                bind::<Text, _>(state),
                bind::<BigInt, _>(now.saturating_sub(older_than_ms)),
                bind::<BigInt, _>(after.finished_at),
                bind::<BigInt, _>(after.id),
                bind::<BigInt, _>(limit),
            );
            let seen: Vec<Seen> = Sql(schema.render(SEEN), binds).load(conn)?;
            let (last, count) = (seen.last().map(|row| (row.finished_at, row.job.id)), seen.len());
            let old: Vec<Moved> = seen.into_iter().filter(|row| !row.needed).map(|row| row.job).collect();
            let ids = json(&old.iter().map(|row| row.id).collect::<Vec<_>>())?;
            for text in [PURGE_ERRORS, PURGE_RESULTS, PURGE_PROGRESS, PURGE_STEPS, PURGE_WAITS] {
                Sql(schema.render(text), (bind::<Text, _>(&ids),)).execute(conn)?;
            }
            super::settle::delete_keys(conn, schema, &old, 0)?;
            let purged = Sql(schema.render(PURGE), (bind::<Text, _>(&ids), bind::<Text, _>(state))).execute(conn)?;
            Ok(Purged {
                purged: i64::try_from(purged).unwrap_or(i64::MAX),
                seen: i64::try_from(count).unwrap_or(i64::MAX),
                finished_at: last.map(|(finished_at, _)| finished_at),
                id: last.map(|(_, id)| id),
            })
        })
    }
}

fn take_key_again(
    conn: &mut SqliteConnection,
    schema: &Schema,
    key: &str,
    job: &Finished,
    now: i64,
) -> QueryResult<bool> {
    let binds = (
        bind::<Text, _>(key),
        bind::<BigInt, _>(job.id),
        bind::<Text, _>(crate::enqueue::fingerprint(&job.kind, &job.payload)),
        bind::<BigInt, _>(now),
        bind::<SmallInt, _>(job.states),
    );
    Ok(Sql(schema.render(TAKE_KEY_AGAIN), binds).execute(conn)? == 1)
}
