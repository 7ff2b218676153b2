//! Finish, retry, snooze, discard, release.

use diesel::result::{DatabaseErrorKind, Error, QueryResult};
use diesel::sql_types::{BigInt, Bool, Integer, Nullable, Text};
use diesel::{QueryableByName, RunQueryDsl, SqliteConnection};

use super::{fences_by_id, fences_json, json, write};
use crate::backend::{AttemptError, End, PutBack, SettleStatements};
use crate::inspect::State;
use crate::lease::Fence;
use crate::schema::Schema;
use crate::sql::{Id, Sql, bind};

/// A job may be there already if an older file was put back under running workers; the newer end counts.
pub(super) const COPY_TO_FINISHED: &str = "
    INSERT OR REPLACE INTO leasehold_finished_jobs
        (id, queue, kind, version, payload, priority, run_at, attempt, max_attempts, lease_token, lease_ms,
         idempotency_key, unique_key, unique_states, limit_key, limit_rank, batch_id, created_at, state, generation, reason, finished_at)
    SELECT j.id, j.queue, j.kind, j.version, j.payload, j.priority, j.run_at, j.attempt, j.max_attempts, j.lease_token,
        j.lease_ms, j.idempotency_key, j.unique_key, j.unique_states, j.limit_key, j.limit_rank, j.batch_id, j.created_at, $2, j.generation + $3, $5, $4
    FROM json_each($1) AS f CROSS JOIN leasehold_jobs AS j
        ON j.id = CAST(f.key AS INTEGER) AND j.generation || '.' || j.lease_token = f.value AND j.state = 'running'
    WHERE NOT $6 OR j.lease_until > $4
    RETURNING id, unique_key
";

/// By the fence in the copy, which is cheaper to read than the JSON text is once more.
pub(super) const DELETE_FINISHED: &str = "
    DELETE FROM leasehold_jobs AS j
    WHERE j.id IN (SELECT CAST(key AS INTEGER) FROM json_each($1)) AND j.state = 'running'
        AND EXISTS (SELECT 1 FROM leasehold_finished_jobs AS f
            WHERE j.id = f.id AND j.generation = f.generation - $3 AND j.lease_token = f.lease_token)
";

const DELETE_KEYS: &str = "
    DELETE FROM leasehold_unique_keys WHERE key IN (SELECT value->>0 FROM json_each($1))
        AND (key, job_id) IN (SELECT value->>0, value->>1 FROM json_each($1)) AND states & $2 = 0
";

const PUT_BACK: &str = "
    UPDATE leasehold_jobs SET state = 'ready', generation = generation + $4, attempt = max(attempt - $5, 0),
        run_at = $7 + $6, scheduled = ($6 > 0),
        blocked_by = CASE WHEN limit_key IS NOT NULL AND $6 <= 0 THEN 'limit' END, lease_until = NULL, worker = NULL, begun = 0
    WHERE id = $1 AND generation = $2 AND lease_token = $3 AND state = 'running'
        AND max($5, cancel_requested_at IS NULL) = 1
    RETURNING attempt + $5 AS attempt
";

/// After the job was put back, for it may have been left as it is.
const NOTE_ERROR: &str = "
    INSERT OR IGNORE INTO leasehold_job_errors (job_id, generation, attempt, at, cause, error) VALUES ($1, $2, $3, $4, $5, $6)
";

const RECORD_ERRORS: &str = "
    INSERT OR IGNORE INTO leasehold_job_errors (job_id, generation, attempt, at, cause, error)
    SELECT j.id, j.generation, j.attempt, $2, $3, $4 FROM json_each($1) AS f CROSS JOIN leasehold_jobs AS j
        ON j.id = f.value->>0 AND j.generation = f.value->>1 AND j.lease_token = f.value->>2 AND j.state = 'running'
";

/// A job gets one at a time, so one is too many at the most.
const TRIM_ERRORS: &str = "
    DELETE FROM leasehold_job_errors WHERE (job_id, generation) IN (
        SELECT f.value->>0, (
            SELECT generation FROM leasehold_job_errors WHERE job_id = f.value->>0
            ORDER BY generation DESC LIMIT 1 OFFSET 100
        ) FROM json_each($1) AS f
    )
";

/// A start that was counted when the job was claimed has not come about.
const UNCOUNT: &str = "
    DELETE FROM leasehold_starts WHERE (kind, limit_key, at, job_id) IN (
        SELECT j.kind, j.limit_key, (
            SELECT max(x.at) FROM leasehold_starts AS x
            WHERE x.kind = j.kind AND x.limit_key = j.limit_key AND x.job_id = j.id
        ), j.id
        FROM json_each($1) AS f CROSS JOIN leasehold_jobs AS j
            ON j.id = f.value->>0 AND j.generation = f.value->>1 AND j.lease_token = f.value->>2 AND j.state = 'running'
        WHERE j.begun = 1 AND j.limit_key IS NOT NULL
    )
";

const RELEASE: &str = "
    UPDATE leasehold_jobs AS j SET
        state = 'ready', attempt = max(j.attempt - 1, 0), lease_until = NULL, worker = NULL, begun = 0
    FROM json_each($1) AS f
    WHERE j.id = f.value->>0 AND j.generation = f.value->>1 AND j.lease_token = f.value->>2 AND j.state = 'running'
    RETURNING id
";

impl SettleStatements for SqliteConnection {
    fn finish(&mut self, schema: &Schema, fences: &[Fence]) -> QueryResult<Vec<i64>> {
        let fences = fences_by_id(fences);
        let completed = Ending {
            state: "completed",
            takes_away: false,
            reason: None,
            strict: false,
        };
        write(self, |conn, now| {
            move_to_finished(conn, schema, &fences, &completed, now)
        })
    }

    fn put_back(&mut self, schema: &Schema, fence: &Fence, how: &PutBack) -> QueryResult<usize> {
        write(self, |conn, now| {
            let binds = (
                bind::<BigInt, _>(fence.id),
                bind::<BigInt, _>(fence.generation),
                bind::<Text, _>(fence.lease_token.to_string()),
                bind::<Bool, _>(how.takes_away),
                bind::<Bool, _>(!how.uses_attempt),
                bind::<BigInt, _>(how.delay_ms),
                bind::<BigInt, _>(now),
            );
            let put_back: Vec<Attempt> = Sql(schema.render(PUT_BACK), binds).load(conn)?;
            if let (Some(error), [row]) = (&how.error, &put_back[..]) {
                note_error(conn, schema, fence, row.attempt, error, now)?;
            }
            Ok(put_back.len())
        })
    }

    fn end(&mut self, schema: &Schema, fence: &Fence, how: &End) -> QueryResult<usize> {
        let fences = [*fence];
        let ending = Ending {
            state: how.state,
            takes_away: how.takes_away,
            reason: how.reason.as_deref(),
            strict: false,
        };
        write(self, |conn, now| {
            if let Some(error) = &how.error {
                record_errors(conn, schema, &fences_json(&fences), error, now)?;
            }
            Ok(move_to_finished(conn, schema, &fences_by_id(&fences), &ending, now)?.len())
        })
    }

    fn release(&mut self, schema: &Schema, fences: &[Fence]) -> QueryResult<Vec<i64>> {
        let fences = fences_json(fences);
        let released: Vec<Id> = write(self, |conn, _| {
            Sql(schema.render(UNCOUNT), (bind::<Text, _>(&fences),)).execute(conn)?;
            Sql(schema.render(RELEASE), (bind::<Text, _>(&fences),)).load(conn)
        })?;
        Ok(released.into_iter().map(|row| row.id).collect())
    }
}

/// The attempt that a job was put back from.
#[derive(QueryableByName)]
struct Attempt {
    #[diesel(sql_type = Integer)]
    attempt: i32,
}

/// How running jobs end.
pub(super) struct Ending<'a> {
    pub(super) state: &'a str,
    pub(super) takes_away: bool,
    pub(super) reason: Option<&'a str>,
    /// Leaves out rows whose lease has run out.
    pub(super) strict: bool,
}

/// A row that was copied to the finished jobs.
#[derive(QueryableByName)]
pub(super) struct Moved {
    #[diesel(sql_type = BigInt)]
    pub(super) id: i64,
    #[diesel(sql_type = Nullable<Text>)]
    pub(super) unique_key: Option<String>,
}

/// Moves the rows under `fences`, as [`fences_by_id`] writes them, to the finished jobs and frees their unique keys; returns the ids that were ours. Part of
/// a transaction that has the write lock.
pub(super) fn move_to_finished(
    conn: &mut SqliteConnection,
    schema: &Schema,
    fences: &str,
    ending: &Ending<'_>,
    now: i64,
) -> QueryResult<Vec<i64>> {
    let binds = (
        bind::<Text, _>(fences),
        bind::<Text, _>(ending.state),
        bind::<Bool, _>(ending.takes_away),
        bind::<BigInt, _>(now),
        bind::<Nullable<Text>, _>(ending.reason),
        bind::<Bool, _>(ending.strict),
    );
    let moved: Vec<Moved> = Sql(schema.render(COPY_TO_FINISHED), binds).load(conn)?;
    if moved.is_empty() {
        return Ok(Vec::new());
    }
    let binds = (
        bind::<Text, _>(fences),
        bind::<Text, _>(ending.state),
        bind::<Bool, _>(ending.takes_away),
    );
    let deleted = Sql(schema.render(DELETE_FINISHED), binds).execute(conn)?;
    complete_move(conn, schema, moved, ending.state, deleted)
}

/// Frees the keys that jobs do not keep in the state in which they ended. A job must not be in both tables: the answer counts only if as many rows were deleted as were copied.
pub(super) fn complete_move(
    conn: &mut SqliteConnection,
    schema: &Schema,
    moved: Vec<Moved>,
    state: &str,
    deleted: usize,
) -> QueryResult<Vec<i64>> {
    delete_keys(conn, schema, &moved, State::parse(state).bit())?;
    let mut ids: Vec<i64> = moved.into_iter().map(|row| row.id).collect();
    ids.sort_unstable();
    ids.dedup();
    if deleted != ids.len() {
        let message = format!(
            "{} jobs were copied to the finished ones and {deleted} deleted",
            ids.len()
        );
        return Err(Error::DatabaseError(DatabaseErrorKind::Unknown, Box::new(message)));
    }
    Ok(ids)
}

/// Frees the unique keys that these jobs have, but for those that are kept in the state with this bit; with 0, all.
pub(super) fn delete_keys(conn: &mut SqliteConnection, schema: &Schema, jobs: &[Moved], bit: u8) -> QueryResult<()> {
    let keys: Vec<_> = jobs
        .iter()
        .filter_map(|row| Some((row.unique_key.as_ref()?, row.id)))
        .collect();
    if !keys.is_empty() {
        let binds = (bind::<Text, _>(json(&keys)?), bind::<BigInt, _>(i64::from(bit)));
        Sql(schema.render(DELETE_KEYS), binds).execute(conn)?;
    }
    Ok(())
}

/// Keeps a failed attempt with a job that has been put back.
fn note_error(
    conn: &mut SqliteConnection,
    schema: &Schema,
    fence: &Fence,
    attempt: i32,
    error: &AttemptError,
    now: i64,
) -> QueryResult<()> {
    let binds = (
        bind::<BigInt, _>(fence.id),
        bind::<BigInt, _>(fence.generation),
        bind::<Integer, _>(attempt),
        bind::<BigInt, _>(now),
        bind::<Text, _>(error.cause),
        bind::<Text, _>(&error.error),
    );
    Sql(schema.render(NOTE_ERROR), binds).execute(conn)?;
    let fences = fences_json(&[*fence]);
    Sql(schema.render(TRIM_ERRORS), (bind::<Text, _>(fences),)).execute(conn)?;
    Ok(())
}

/// Keeps a failed attempt with each of the jobs under `fences`, before they leave `running`.
pub(super) fn record_errors(
    conn: &mut SqliteConnection,
    schema: &Schema,
    fences: &str,
    error: &AttemptError,
    now: i64,
) -> QueryResult<()> {
    let binds = (
        bind::<Text, _>(fences),
        bind::<BigInt, _>(now),
        bind::<Text, _>(error.cause),
        bind::<Text, _>(&error.error),
    );
    if Sql(schema.render(RECORD_ERRORS), binds).execute(conn)? > 0 {
        Sql(schema.render(TRIM_ERRORS), (bind::<Text, _>(fences),)).execute(conn)?;
    }
    Ok(())
}
