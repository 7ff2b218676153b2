//! Parts of statements that several of them share. Macros, because statement texts are constants.

/// Tells those who listen on a channel, if anybody is idle: `worker/listener/mark.rs` says what the two locks are and why this
/// order. A transaction shares `SILENT` to its end; `IDLE` is given back at once. One that somebody else has alone at this
/// instant is being looked at, so no idle process has it. Equal notifications of one transaction are delivered as one.
macro_rules! tell {
    ($channel:literal) => {
        concat!(
            "CASE WHEN pg_catalog.pg_try_advisory_xact_lock_shared(1215656808, pg_catalog.hashtext('",
            $channel,
            "')) THEN
                CASE WHEN pg_catalog.pg_try_advisory_lock(1231318117, pg_catalog.hashtext('",
            $channel,
            "')) THEN
                    CASE WHEN NOT pg_catalog.pg_advisory_unlock(1231318117, pg_catalog.hashtext('",
            $channel,
            "')) THEN pg_catalog.pg_notify('",
            $channel,
            "', '') END
                WHEN pg_catalog.pg_try_advisory_lock_shared(1231318117, pg_catalog.hashtext('",
            $channel,
            "')) THEN
                    CASE WHEN pg_catalog.pg_advisory_unlock_shared(1231318117, pg_catalog.hashtext('",
            $channel,
            "')) THEN pg_catalog.pg_notify('",
            $channel,
            "', '') END
                END
            ELSE pg_catalog.pg_notify('",
            $channel,
            "', '') END"
        )
    };
}

/// The first keys of the advisory locks that `tell` reads. The bytes `Hush` and `Idle`.
pub(crate) const SILENT: i32 = 1_215_656_808;
pub(crate) const IDLE: i32 = 1_231_318_117;

/// Makes the statement durable when it commits, whatever the session says; a stronger setting is left as it is.
macro_rules! durable {
    () => {
        "pg_catalog.set_config('synchronous_commit', CASE pg_catalog.current_setting('synchronous_commit')
            WHEN 'off' THEN 'on' ELSE pg_catalog.current_setting('synchronous_commit') END, true)"
    };
}

/// A time in microseconds since 2000, as Diesel binds it.
macro_rules! micros {
    ($time:literal) => {
        concat!(
            "(pg_catalog.date_part('epoch', ",
            $time,
            ") * 1000000)::bigint - 946684800000000"
        )
    };
}

/// Rows locked in id order, each under its own fence (`$1`, `$2`, `$3`: ids, generations, tokens). The write that follows
/// names the fence again, from here: what a lock protects is the row as it was after the wait.
macro_rules! locked {
    ($lock:literal) => {
        concat!(
            "locked AS MATERIALIZED (
                SELECT mine.id, mine.generation, mine.lease_token
                FROM (SELECT * FROM unnest($1, $2, $3) AS given (id, generation, lease_token) ORDER BY id) AS asked
                CROSS JOIN LATERAL (
                    SELECT j.id, j.generation, j.lease_token FROM leasehold.jobs AS j
                    WHERE j.id = asked.id AND j.generation = asked.generation AND j.lease_token = asked.lease_token
                      AND j.state = 'running'
                    ",
            $lock,
            "
                ) AS mine
            )"
        )
    };
}

/// The fence of a write whose rows are in `locked`. A join would be planned as a nested loop over the rows that the
/// planner expects, a handful, and cost the square of those that come; `IS TRUE` keeps it a look-up in a hash table.
macro_rules! under_the_fence {
    () => {
        "j.id = ANY (ARRAY(SELECT id FROM locked)) AND j.state = 'running'
         AND ((j.id, j.generation, j.lease_token) IN (SELECT id, generation, lease_token FROM locked)) IS TRUE"
    };
}

/// Frees the unique keys of the rows of `ended` that are not kept in the state in which they ended, whose bit is given;
/// follows on a `WITH`. A key that another transaction has locked is left: it is being taken over, or if not, the next
/// enqueue finds that its holder has ended. So no end waits for an enqueue. For one row the planner is told that it is
/// one: the commit runs on the handlers' connections, where it may choose to read a table whole.
macro_rules! freed {
    (one: $bit:literal) => {
        concat!(
            "freed AS (
                DELETE FROM leasehold.unique_keys WHERE key = (
                    SELECT k.key FROM leasehold.unique_keys AS k
                    WHERE k.key = (SELECT e.unique_key FROM ended AS e) AND k.job_id = (SELECT e.id FROM ended AS e)
                      AND k.states & ",
            $bit,
            " = 0
                    FOR NO KEY UPDATE SKIP LOCKED
                )
            )"
        )
    };
    (many: $bit:literal) => {
        concat!(
            "freed AS (
                DELETE FROM leasehold.unique_keys WHERE key = ANY (ARRAY(
                    SELECT k.key FROM leasehold.unique_keys AS k
                    WHERE k.key = ANY (ARRAY(SELECT e.unique_key FROM ended AS e WHERE e.unique_key IS NOT NULL))
                      AND k.job_id = ANY (ARRAY(SELECT e.id FROM ended AS e))
                      AND k.states & ",
            $bit,
            " = 0
                    FOR NO KEY UPDATE SKIP LOCKED
                ))
            )"
        )
    };
}

/// Copies the rows of `ended` to `finished_jobs`; the head of what moves them.
macro_rules! copied {
    (state: $state:literal, generation: $generation:literal, reason: $reason:literal) => {
        concat!(
            "INSERT INTO leasehold.finished_jobs
                    (id, queue, kind, version, payload, priority, run_at, attempt, max_attempts, lease_token, lease_ms,
                     idempotency_key, unique_key, unique_states, limit_key, limit_rank, batch_id, created_at, state, generation, reason)
                SELECT e.id, e.queue, e.kind, e.version, e.payload, e.priority, e.run_at, e.attempt, e.max_attempts,
                    e.lease_token, e.lease_ms, e.idempotency_key, e.unique_key, e.unique_states, e.limit_key, e.limit_rank, e.batch_id, e.created_at, ",
            $state,
            ", ",
            $generation,
            ", ",
            $reason,
            " FROM ended AS e"
        )
    };
}

/// Moves the rows of `ended` to `finished_jobs`; follows on a `WITH`. A row that is there already (an id that was given
/// twice, after a sequence was set back) is overwritten: it must not fail its neighbours.
macro_rules! moved {
    (state: $state:literal, generation: $generation:literal, reason: $reason:literal) => {
        concat!(
            "moved AS (
                ",
            copied!(state: $state, generation: $generation, reason: $reason),
            "
                ON CONFLICT (id) DO UPDATE SET
                    (queue, kind, version, payload, priority, run_at, attempt, max_attempts, lease_token, lease_ms,
                     idempotency_key, unique_key, unique_states, limit_key, limit_rank, batch_id, created_at, state, generation, reason, finished_at)
                    = ROW (excluded.queue, excluded.kind, excluded.version, excluded.payload, excluded.priority,
                     excluded.run_at, excluded.attempt, excluded.max_attempts, excluded.lease_token, excluded.lease_ms,
                     excluded.idempotency_key, excluded.unique_key, excluded.unique_states, excluded.limit_key, excluded.limit_rank, excluded.batch_id,
                     excluded.created_at, excluded.state,
                     excluded.generation, excluded.reason, excluded.finished_at)
                RETURNING id, queue, kind, attempt, generation, state
            )"
        )
    };
}

/// Notes failed attempts and keeps the newest 100 of each job: the 99 newest of those before, and this one, which the
/// statement itself cannot see yet. Follows on a `WITH`.
macro_rules! noted {
    ($failed:literal) => {
        concat!(
            "noted AS (
                INSERT INTO leasehold.job_errors (job_id, generation, attempt, cause, error) ",
            $failed,
            "
                ON CONFLICT (job_id, generation) DO NOTHING
                RETURNING job_id
            ),
            oldest AS MATERIALIZED (
                SELECT n.job_id, cut.generation FROM noted AS n
                CROSS JOIN LATERAL (
                    SELECT x.generation FROM leasehold.job_errors AS x
                    WHERE x.job_id = n.job_id ORDER BY x.generation DESC OFFSET 99 LIMIT 1
                ) AS cut
            ),
            trimmed AS (
                DELETE FROM leasehold.job_errors AS x
                WHERE x.job_id = ANY (ARRAY(SELECT o.job_id FROM oldest AS o))
                  AND x.generation <= (SELECT o.generation FROM oldest AS o WHERE o.job_id = x.job_id)
            )"
        )
    };
}

/// Writes down the starts of the rows of `from`, for the rates of their kinds; follows on a `WITH`. In the statement that
/// records that a handler begins: a job is at each instant either still to begin or counted here.
macro_rules! counted {
    (from: $from:literal, kinds: $kinds:literal, periods: $periods:literal) => {
        concat!(
            "counted AS (
                INSERT INTO leasehold.starts (kind, limit_key, at, job_id, expires_at)
                SELECT b.kind, b.limit_key, clock.at, b.id, clock.at + c.per_ms * INTERVAL '1 millisecond'
                FROM ",
            $from,
            " AS b JOIN unnest(",
            $kinds,
            ", ",
            $periods,
            ") AS c (kind, per_ms) ON c.kind = b.kind
                CROSS JOIN (SELECT pg_catalog.clock_timestamp() AS at) AS clock
                WHERE b.limit_key IS NOT NULL
                ON CONFLICT (kind, limit_key, at, job_id) DO NOTHING
            )"
        )
    };
}

/// As [`locked`], of the outbox's events.
macro_rules! locked_events {
    () => {
        "locked AS MATERIALIZED (
            SELECT mine.id, mine.generation, mine.lease_token
            FROM (SELECT * FROM unnest($1, $2, $3) AS given (id, generation, lease_token) ORDER BY id) AS asked
            CROSS JOIN LATERAL (
                SELECT e.id, e.generation, e.lease_token FROM leasehold.outbox_events AS e
                WHERE e.id = asked.id AND e.generation = asked.generation AND e.lease_token = asked.lease_token
                  AND e.state = 'running'
                FOR NO KEY UPDATE
            ) AS mine
        )"
    };
}

/// As [`under_the_fence`], of the outbox's events.
macro_rules! event_under_the_fence {
    () => {
        "e.id = ANY (ARRAY(SELECT id FROM locked)) AND e.state = 'running'
         AND ((e.id, e.generation, e.lease_token) IN (SELECT id, generation, lease_token FROM locked)) IS TRUE"
    };
}
