//! Claim.

use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Bool, Integer, Text};
use diesel::{QueryableByName, RunQueryDsl, SqliteConnection};
use uuid::Uuid;

use super::admit::count_begun;
use super::{json, now_ms, served_json, write};
use crate::backend::{ClaimRequest, ClaimStatements, ClaimedRow, Served, Waiting};
use crate::lease::Fence;
use crate::schema::Schema;
use crate::sql::{Sql, bind};

/// The earliest of each (queue, kind, version), then the earliest of all: one flood does not keep the others waiting.
const PROMOTE: &str = "
    UPDATE leasehold_jobs SET scheduled = 0, blocked_by = CASE WHEN limit_key IS NOT NULL THEN 'limit' END
    WHERE id IN (SELECT due.value->>0 FROM json_each($1) AS served,
        json_each((SELECT json_group_array(json_array(id, run_at)) FROM
            (SELECT id, run_at FROM leasehold_jobs WHERE scheduled = 1
            AND queue = served.value->>0 AND kind = served.value->>1 AND version = served.value->>2 AND run_at <= $2
            ORDER BY run_at LIMIT $3 + 0))) AS due
        ORDER BY due.value->>1, due.value->>0 LIMIT $3 + 0)
    AND state = 'ready' AND scheduled = 1
";

/// Whether what is served is paused.
macro_rules! paused {
    (queue: $queue:literal, kind: $kind:literal) => {
        concat!(
            "EXISTS (SELECT 1 FROM leasehold_pauses WHERE scope = 'all' OR scope = 'queue' AND name = ",
            $queue,
            "
            OR scope = 'kind' AND name = ",
            $kind,
            ")"
        )
    };
}

/// What can be claimed of what is served.
///
/// The room left below the limit of generations is for the sweep, which adds one more.
macro_rules! claimable {
    () => {
        "queue = $1 AND kind = $2 AND version = $3 AND state = 'ready' AND scheduled = 0 AND blocked_by IS NULL
        AND generation < 9223372036854775805 AND attempt < 2147483647"
    };
}

/// The best of one (queue, kind, version), straight from the index in its order: rows that wait for their time, and rows
/// that this program does not serve, are never stepped over.
pub(super) const CANDIDATES: &str = concat!(
    "
    SELECT id, priority, run_at FROM leasehold_jobs
    WHERE ",
    claimable!(),
    "
        AND NOT ",
    paused!(queue: "$1", kind: "$2"),
    "
    ORDER BY priority DESC, run_at, id LIMIT $4 + 0
"
);

/// The 64 lowest priorities of one (queue, kind, version), from priority to priority in the index.
const LEVELS: &str = concat!(
    "
    WITH RECURSIVE levels (priority, place) AS (
        SELECT (SELECT min(priority) FROM leasehold_jobs WHERE ",
    claimable!(),
    "), 1
        UNION ALL
        SELECT (SELECT min(priority) FROM leasehold_jobs WHERE ",
    claimable!(),
    "
            AND priority > levels.priority), place + 1
        FROM levels WHERE priority IS NOT NULL AND place < 64
    )
    SELECT priority FROM levels WHERE priority IS NOT NULL AND NOT ",
    paused!(queue: "$1", kind: "$2")
);

/// The oldest of one (queue, kind, version) and priority.
const OLDEST: &str = concat!(
    "
    SELECT id, priority, run_at FROM leasehold_jobs
    WHERE ",
    claimable!(),
    " AND priority = $4
    ORDER BY run_at, id LIMIT $5 + 0
"
);

/// Those that were read under the same write lock.
pub(super) const CLAIM: &str = "
    UPDATE leasehold_jobs SET
        state = 'running', generation = generation + 1, lease_token = $2, attempt = attempt + 1, worker = $3, begun = $4,
        lease_until = $5 + lease_ms
    WHERE id IN (SELECT value FROM json_each($1)) AND state = 'ready'
    RETURNING id, queue, kind, version, payload, attempt, max_attempts, generation, lease_ms, idempotency_key,
        limit_key, batch_id, awaited, priority, run_at, $5 - run_at AS waited_ms, expires_at - $5 AS expires_in_ms
";

const FIND_CLAIMED: &str = "
    SELECT id, queue, kind, version, payload, attempt, max_attempts, generation, lease_ms, idempotency_key,
        limit_key, batch_id, awaited, priority, run_at, $2 - run_at AS waited_ms, expires_at - $2 AS expires_in_ms
    FROM leasehold_jobs INDEXED BY leasehold_jobs_held
    WHERE worker IS NOT NULL AND state = 'running' AND lease_token = $1
";

/// The cold path: it counts no further than it is asked to, each (queue, kind, version) by its own index entries. What is
/// paused is counted apart: a claimer that took it for ready would look again and again.
const WAITING: &str = concat!(
    "
    WITH served AS MATERIALIZED (
        SELECT value->>0 AS queue, value->>1 AS kind, value->>2 AS version, ",
    paused!(queue: "served.value->>0", kind: "served.value->>1"),
    " AS paused FROM json_each($1) AS served
    ),
    counted AS MATERIALIZED (
        SELECT paused,
            (SELECT count(*) FROM (SELECT 1 FROM leasehold_jobs WHERE queue = served.queue AND kind = served.kind
                AND version = served.version AND state = 'ready' AND scheduled = 0 AND blocked_by IS NULL LIMIT $3 + 0)) AS ready,
            (SELECT count(*) FROM (SELECT 1 FROM leasehold_jobs WHERE queue = served.queue AND kind = served.kind
                AND version = served.version AND scheduled = 1 LIMIT $3 + 0)) AS scheduled,
            (SELECT min(run_at) FROM leasehold_jobs WHERE queue = served.queue AND kind = served.kind
                AND version = served.version AND scheduled = 1) AS next_at
        FROM served
    ),
    blocked AS MATERIALIZED (
        SELECT min(paused) AS paused,
            (SELECT count(*) FROM (SELECT 1 FROM leasehold_jobs WHERE kind = served.kind AND blocked_by = 'limit' LIMIT $3 + 0))
            + (SELECT count(*) FROM (SELECT 1 FROM leasehold_jobs WHERE kind = served.kind AND blocked_by = 'jobs' LIMIT $3 + 0)) AS jobs
        FROM served GROUP BY kind
    )
    SELECT coalesce(sum(ready) FILTER (WHERE NOT paused), 0) AS ready,
        (SELECT count(*) FROM (SELECT 1 FROM leasehold_jobs INDEXED BY leasehold_jobs_held WHERE worker IS NOT NULL
            AND (queue, kind, version) IN (SELECT queue, kind, version FROM served) LIMIT $3 + 0)) AS running,
        (SELECT coalesce(sum(jobs), 0) FROM blocked WHERE NOT paused) AS blocked,
        coalesce(sum(ready) FILTER (WHERE paused), 0)
            + (SELECT coalesce(sum(jobs), 0) FROM blocked WHERE paused) AS paused,
        coalesce(sum(scheduled), 0) AS scheduled,
        max(min(next_at) FILTER (WHERE NOT paused) - $2, 0) AS next_due_ms
    FROM counted
"
);

impl ClaimStatements for SqliteConnection {
    const LEAVES_DEAD_ENTRIES: bool = false;

    fn promote(&mut self, schema: &Schema, serves: &[Served], limit: i64) -> QueryResult<usize> {
        let serves = served_json(serves)?;
        write(self, |conn, now| {
            let binds = (
                bind::<Text, _>(&serves),
                bind::<BigInt, _>(now),
                bind::<BigInt, _>(limit),
            );
            Sql(schema.render(PROMOTE), binds).execute(conn)
        })
    }

    fn claim(&mut self, schema: &Schema, request: &ClaimRequest<'_>) -> QueryResult<Vec<ClaimedRow>> {
        write(self, |conn, now| {
            let candidates = match request.oldest {
                true => oldest(conn, schema, request)?,
                false => best(conn, schema, request)?,
            };
            if candidates.is_empty() {
                return Ok(Vec::new());
            }
            let binds = (
                bind::<Text, _>(json(&candidates)?),
                bind::<Text, _>(request.lease_token.to_string()),
                bind::<Text, _>(request.worker.to_string()),
                bind::<Bool, _>(request.begun),
                bind::<BigInt, _>(now),
            );
            let rows: Vec<ClaimedRow> = Sql(schema.render(CLAIM), binds).load(conn)?;
            if request.begun && !request.counted.is_empty() && rows.iter().any(|row| row.limit_key.is_some()) {
                let fence = |row: &ClaimedRow| Fence {
                    id: row.id,
                    generation: row.generation,
                    lease_token: request.lease_token,
                };
                let fences: Vec<Fence> = rows.iter().map(fence).collect();
                count_begun(conn, schema, &fences, request.counted, now)?;
            }
            Ok(rows)
        })
    }

    fn find_claimed(&mut self, schema: &Schema, lease_token: Uuid) -> QueryResult<Vec<ClaimedRow>> {
        let binds = (bind::<Text, _>(lease_token.to_string()), bind::<BigInt, _>(now_ms()));
        Sql(schema.render(FIND_CLAIMED), binds).load(self)
    }

    fn waiting(&mut self, schema: &Schema, serves: &[Served], at_most: i64) -> QueryResult<Waiting> {
        let binds = (
            bind::<Text, _>(served_json(serves)?),
            bind::<BigInt, _>(now_ms()),
            bind::<BigInt, _>(at_most),
        );
        Sql(schema.render(WAITING), binds).get_result(self)
    }
}

/// A row that may be claimed.
#[derive(QueryableByName)]
struct Candidate {
    #[diesel(sql_type = BigInt)]
    id: i64,
    #[diesel(sql_type = BigInt)]
    priority: i64,
    #[diesel(sql_type = BigInt)]
    run_at: i64,
}

#[derive(QueryableByName)]
struct Level {
    #[diesel(sql_type = BigInt)]
    priority: i64,
}

/// The best of each (queue, kind, version), and of these the best: one flood does not keep the others waiting.
fn best(conn: &mut SqliteConnection, schema: &Schema, request: &ClaimRequest<'_>) -> QueryResult<Vec<i64>> {
    let mut candidates: Vec<Candidate> = Vec::new();
    for served in request.serves {
        let binds = (
            bind::<Text, _>(&served.queue),
            bind::<Text, _>(&served.kind),
            bind::<Integer, _>(served.version),
            bind::<BigInt, _>(request.limit),
        );
        candidates.append(&mut Sql(schema.render(CANDIDATES), binds).load(conn)?);
    }
    Ok(first_by(candidates, request.limit, |row| {
        (-row.priority, row.run_at, row.id)
    }))
}

/// Now and then instead, else jobs of a low priority might wait for ever: the oldest of each of the 64 lowest priorities,
/// and of them the oldest.
fn oldest(conn: &mut SqliteConnection, schema: &Schema, request: &ClaimRequest<'_>) -> QueryResult<Vec<i64>> {
    let mut candidates: Vec<Candidate> = Vec::new();
    for served in request.serves {
        let binds = || {
            (
                bind::<Text, _>(&served.queue),
                bind::<Text, _>(&served.kind),
                bind::<Integer, _>(served.version),
            )
        };
        let levels: Vec<Level> = Sql(schema.render(LEVELS), binds()).load(conn)?;
        for level in levels {
            let (queue, kind, version) = binds();
            let (priority, limit) = (bind::<BigInt, _>(level.priority), bind::<BigInt, _>(request.limit));
            let binds = (queue, kind, version, priority, limit);
            candidates.append(&mut Sql(schema.render(OLDEST), binds).load(conn)?);
        }
    }
    Ok(first_by(candidates, request.limit, |row| (row.run_at, row.id)))
}

/// The ids of the first `limit` in the order of `key`.
fn first_by<K: Ord>(mut candidates: Vec<Candidate>, limit: i64, key: impl Fn(&Candidate) -> K) -> Vec<i64> {
    candidates.sort_unstable_by_key(key);
    let limit = usize::try_from(limit).unwrap_or_default();
    candidates.into_iter().take(limit).map(|row| row.id).collect()
}
