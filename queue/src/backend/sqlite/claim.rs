//! Claim.

use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Bool, Text};
use diesel::{RunQueryDsl, SqliteConnection};
use uuid::Uuid;

use super::admit::count_begun;
use super::{now_ms, served_json, write};
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
            ORDER BY run_at LIMIT $3))) AS due
        ORDER BY due.value->>1, due.value->>0 LIMIT $3)
    AND state = 'ready' AND scheduled = 1
";

/// Whether what is served is paused.
macro_rules! paused {
    () => {
        "EXISTS (SELECT 1 FROM leasehold_pauses WHERE scope = 'all' OR scope = 'queue' AND name = served.value->>0
            OR scope = 'kind' AND name = served.value->>1)"
    };
}

/// The best `limit` of each (queue, kind, version), straight from the index in its order, then the best `limit` of all:
/// rows that wait for their time, and rows that this program does not serve, are never stepped over. A subquery of a
/// join cannot name the row beside it here, but the argument of `json_each` can.
///
/// The room left below the limit of generations is for the sweep, which adds one more.
macro_rules! claim {
    (of_each: $of_each:expr, order: $order:literal) => {
        concat!(
            "
    UPDATE leasehold_jobs SET
        state = 'running', generation = generation + 1, lease_token = $3, attempt = attempt + 1, worker = $4, begun = $5,
        lease_until = $6 + lease_ms
    WHERE id IN (
        SELECT best.value->>0 FROM json_each($1) AS served, json_each((",
            $of_each,
            "
        )) AS best
        WHERE NOT ",
            paused!(),
            "
        ORDER BY ",
            $order,
            " LIMIT $2
    ) AND state = 'ready'
    RETURNING id, queue, kind, version, payload, attempt, max_attempts, generation, lease_ms, idempotency_key,
        limit_key, batch_id, awaited, priority, run_at, $6 - run_at AS waited_ms, expires_at - $6 AS expires_in_ms
"
        )
    };
}

/// What can be claimed of what is served.
macro_rules! claimable {
    () => {
        "queue = served.value->>0 AND kind = served.value->>1 AND version = served.value->>2
                    AND state = 'ready' AND scheduled = 0 AND blocked_by IS NULL
                    AND generation < 9223372036854775805 AND attempt < 2147483647"
    };
}

pub(super) const CLAIM: &str = claim!(
    of_each: concat!(
        "
            SELECT json_group_array(json_array(id, priority, run_at)) FROM (
                SELECT id, priority, run_at FROM leasehold_jobs
                WHERE ",
        claimable!(),
        "
                ORDER BY priority DESC, run_at, id LIMIT $2
            )"
    ),
    order: "best.value->>1 DESC, best.value->>2, best.value->>0"
);

/// Now and then instead, else jobs of a low priority might wait for ever: the oldest of each of the 64 lowest priorities,
/// and of them the oldest. From priority to priority in the index.
const CLAIM_OLDEST: &str = claim!(
    of_each: concat!(
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
            SELECT json_group_array(json(oldest.value)) FROM levels, json_each((
                SELECT json_group_array(json_array(id, run_at)) FROM (
                    SELECT id, run_at FROM leasehold_jobs WHERE ",
        claimable!(),
        "
                        AND priority = levels.priority
                    ORDER BY run_at, id LIMIT $2
                )
            )) AS oldest"
    ),
    order: "best.value->>1, best.value->>0"
);

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
    paused!(),
    " AS paused FROM json_each($1) AS served
    ),
    counted AS MATERIALIZED (
        SELECT paused,
            (SELECT count(*) FROM (SELECT 1 FROM leasehold_jobs WHERE queue = served.queue AND kind = served.kind
                AND version = served.version AND state = 'ready' AND scheduled = 0 AND blocked_by IS NULL LIMIT $3)) AS ready,
            (SELECT count(*) FROM (SELECT 1 FROM leasehold_jobs WHERE queue = served.queue AND kind = served.kind
                AND version = served.version AND scheduled = 1 LIMIT $3)) AS scheduled,
            (SELECT min(run_at) FROM leasehold_jobs WHERE queue = served.queue AND kind = served.kind
                AND version = served.version AND scheduled = 1) AS next_at
        FROM served
    ),
    blocked AS MATERIALIZED (
        SELECT min(paused) AS paused,
            (SELECT count(*) FROM (SELECT 1 FROM leasehold_jobs WHERE kind = served.kind AND blocked_by = 'limit' LIMIT $3))
            + (SELECT count(*) FROM (SELECT 1 FROM leasehold_jobs WHERE kind = served.kind AND blocked_by = 'jobs' LIMIT $3)) AS jobs
        FROM served GROUP BY kind
    )
    SELECT coalesce(sum(ready) FILTER (WHERE NOT paused), 0) AS ready,
        (SELECT count(*) FROM (SELECT 1 FROM leasehold_jobs INDEXED BY leasehold_jobs_held WHERE worker IS NOT NULL
            AND (queue, kind, version) IN (SELECT queue, kind, version FROM served) LIMIT $3)) AS running,
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
        let binds = (
            bind::<Text, _>(served_json(request.serves)?),
            bind::<BigInt, _>(request.limit),
            bind::<Text, _>(request.lease_token.to_string()),
            bind::<Text, _>(request.worker.to_string()),
            bind::<Bool, _>(request.begun),
        );
        write(self, |conn, now| {
            let (serves, limit, lease_token, worker, begun) = binds;
            let rows: Vec<ClaimedRow> = Sql(
                schema.render(if request.oldest { CLAIM_OLDEST } else { CLAIM }),
                (serves, limit, lease_token, worker, begun, bind::<BigInt, _>(now)),
            )
            .load(conn)?;
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
