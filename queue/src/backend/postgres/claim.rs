use diesel::pg::data_types::PgTimestamp;
use diesel::result::QueryResult;
use diesel::sql_types::{Array, BigInt, Bool, Integer, Text, Timestamptz, Uuid as SqlUuid};
use diesel::{PgConnection, RunQueryDsl};
use uuid::Uuid;

use crate::backend::{ClaimRequest, ClaimStatements, ClaimedRow, Place, Served, Waiting};
use crate::schema::Schema;
use crate::sql::{Bind, Sql, bind};

// The clock is read in a sub-select, once: a volatile function cannot bound an index scan. The outer part does not name
// `scheduled`, which the lock has secured: it would let the planner read all of `jobs_scheduled`.
const PROMOTE: &str = "
    UPDATE leasehold.jobs AS j SET scheduled = false, blocked_by = CASE WHEN j.limit_key IS NOT NULL THEN 'limit' END
    WHERE j.id = ANY (ARRAY(
        SELECT due.id FROM unnest($1, $2, $3) AS served (queue, kind, version)
        CROSS JOIN LATERAL (
            SELECT id, run_at FROM leasehold.jobs
            WHERE queue = served.queue AND kind = served.kind AND version = served.version
              AND scheduled AND run_at <= (SELECT pg_catalog.clock_timestamp())
            ORDER BY run_at LIMIT $4 FOR NO KEY UPDATE SKIP LOCKED
        ) AS due
        ORDER BY due.run_at LIMIT $4
    )) AND j.state = 'ready'
";

/// Whether what is served (as `given`) is paused. Each list is read once for the whole statement.
macro_rules! paused {
    () => {
        "(EXISTS (SELECT 1 FROM leasehold.pauses WHERE scope = 'all')
            OR given.queue = ANY (ARRAY(SELECT name FROM leasehold.pauses WHERE scope = 'queue'))
            OR given.kind = ANY (ARRAY(SELECT name FROM leasehold.pauses WHERE scope = 'kind')))"
    };
}

// One look-up in `jobs_claim` for each thing that is served, so nothing else is stepped over. The array is built once:
// a limit in a sub-select that is joined may be run again and take more rows than it says. Rows at the end of their
// numbers are left out, for one of them would fail the claim of its neighbours; the room left below the limit of
// generations is for the sweep, which adds one more. A priority counts by its negative, so that all of the order goes up
// and one comparison of rows says where to begin. The claim makes itself durable, whatever
// the session says: a claim that a crash forgets would be given to a second worker.
macro_rules! claim {
    (of_each: $of_each:expr, order: $order:literal) => {
        concat!(
            "
    UPDATE leasehold.jobs AS j SET
        state = 'running', generation = j.generation + 1, lease_token = $5, attempt = j.attempt + 1, worker = $6, begun = $7,
        lease_until = pg_catalog.clock_timestamp() + j.lease_ms * INTERVAL '1 millisecond'
    WHERE j.id = ANY (ARRAY(
        SELECT best.id FROM (
            SELECT given.* FROM unnest($1, $2, $3, $8, $9, $10) AS given (queue, kind, version, rank, run_at, id) WHERE NOT ",
            paused!(),
            "
        ) AS served
        CROSS JOIN LATERAL (",
            $of_each,
            "
        ) AS best
        ORDER BY ",
            $order,
            " LIMIT $4
    )) AND j.state = 'ready'
    RETURNING j.id, j.queue, j.kind, j.version, j.payload::pg_catalog.text, j.attempt, j.max_attempts, j.generation, j.lease_ms,
        j.idempotency_key, j.limit_key, j.batch_id, j.awaited, j.priority, ",
            micros!("j.run_at"),
            " AS run_at,
        pg_catalog.floor(pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - j.run_at) * 1000)::bigint AS waited_ms,
        pg_catalog.ceil(pg_catalog.date_part('epoch', j.expires_at - pg_catalog.clock_timestamp()) * 1000)::bigint AS expires_in_ms,
        ",
            durable!(),
            "
"
        )
    };
    (counted: $claim:expr) => {
        concat!(
            "WITH claimed AS (",
            $claim,
            "), ",
            counted!(from: "claimed", kinds: "$11", periods: "$12"),
            " SELECT * FROM claimed"
        )
    };
}

/// What can be claimed of what is served.
macro_rules! claimable {
    () => {
        "queue = served.queue AND kind = served.kind AND version = served.version AND state = 'ready' AND NOT scheduled
              AND blocked_by IS NULL AND generation < 9223372036854775805 AND attempt < 2147483647"
    };
}

/// The highest priority first, and of each the oldest.
macro_rules! best {
    () => {
        claim!(of_each: concat!(
            "
            SELECT id, -priority::pg_catalog.int4 AS rank, run_at FROM leasehold.jobs
            WHERE ",
            claimable!(),
            "
              AND (-priority::pg_catalog.int4, run_at, id) > (served.rank, served.run_at, served.id)
            ORDER BY -priority::pg_catalog.int4, run_at, id LIMIT $4 FOR NO KEY UPDATE SKIP LOCKED"
        ), order: "best.rank, best.run_at, best.id")
    };
}

/// The oldest of each of the 64 lowest priorities, and of them the oldest: from priority to priority in the index.
macro_rules! oldest {
    () => {
        claim!(of_each: concat!(
            "
            WITH RECURSIVE levels (rank, place) AS (
                (SELECT -priority::pg_catalog.int4, 1 FROM leasehold.jobs WHERE ",
            claimable!(),
            " ORDER BY -priority::pg_catalog.int4 DESC LIMIT 1)
                UNION ALL
                SELECT higher.rank, levels.place + 1 FROM levels CROSS JOIN LATERAL (
                    SELECT -priority::pg_catalog.int4 AS rank FROM leasehold.jobs WHERE ",
            claimable!(),
            "
                      AND -priority::pg_catalog.int4 < levels.rank ORDER BY -priority::pg_catalog.int4 DESC LIMIT 1
                ) AS higher
                WHERE levels.place < 64
            )
            SELECT one.* FROM levels CROSS JOIN LATERAL (
                SELECT id, run_at FROM leasehold.jobs WHERE ",
            claimable!(),
            "
                  AND -priority::pg_catalog.int4 = levels.rank
                ORDER BY run_at, id LIMIT $4 FOR NO KEY UPDATE SKIP LOCKED
            ) AS one"
        ), order: "best.run_at, best.id")
    };
}

pub(super) const CLAIM: &str = best!();

// Now and then instead: else jobs of a low priority might wait for ever.
const CLAIM_OLDEST: &str = oldest!();

// For programs with rates, when handlers begin at once: the starts are counted in the same statement.
const CLAIM_COUNTED: &str = claim!(counted: best!());
const CLAIM_OLDEST_COUNTED: &str = claim!(counted: oldest!());

const FIND_CLAIMED: &str = concat!(
    "
    SELECT id, queue, kind, version, payload::pg_catalog.text, attempt, max_attempts, generation, lease_ms, idempotency_key,
        limit_key, batch_id, awaited, priority, ",
    micros!("run_at"),
    " AS run_at,
        pg_catalog.floor(pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - run_at) * 1000)::bigint AS waited_ms,
        pg_catalog.ceil(pg_catalog.date_part('epoch', expires_at - pg_catalog.clock_timestamp()) * 1000)::bigint AS expires_in_ms
    FROM leasehold.jobs WHERE worker IS NOT NULL AND state = 'running' AND lease_token = $1
"
);

// The cold path: it counts no further than it is asked to, each (queue, kind, version) by its own index entries. What is
// paused is counted apart: a claimer that took it for ready would look again and again.
const WAITING: &str = concat!(
    "
    WITH served AS MATERIALIZED (
        SELECT given.*, ",
    paused!(),
    " AS paused FROM unnest($1, $2, $3) AS given (queue, kind, version)
    ),
    ready AS (
        SELECT pg_catalog.count(*) FILTER (WHERE NOT served.paused) AS jobs,
            pg_catalog.count(*) FILTER (WHERE served.paused) AS paused
        FROM served CROSS JOIN LATERAL (
            SELECT 1 FROM leasehold.jobs AS j
            WHERE j.queue = served.queue AND j.kind = served.kind AND j.version = served.version
              AND j.state = 'ready' AND NOT j.scheduled AND j.blocked_by IS NULL LIMIT $4
        ) AS one
    ),
    running AS (
        SELECT pg_catalog.count(*) AS jobs FROM (
            SELECT 1 FROM leasehold.jobs AS j
            WHERE j.worker IS NOT NULL AND j.state = 'running'
              AND (j.queue, j.kind, j.version) IN (SELECT queue, kind, version FROM served)
            LIMIT $4
        ) AS one
    ),
    scheduled AS (
        SELECT pg_catalog.count(*) AS jobs, pg_catalog.min(one.run_at) FILTER (WHERE NOT served.paused) AS next_at
        FROM served CROSS JOIN LATERAL (
            SELECT j.run_at FROM leasehold.jobs AS j
            WHERE j.queue = served.queue AND j.kind = served.kind AND j.version = served.version AND j.scheduled
            ORDER BY j.run_at LIMIT $4
        ) AS one
    ),
    blocked AS (
        SELECT pg_catalog.count(*) FILTER (WHERE NOT served.paused) AS jobs,
            pg_catalog.count(*) FILTER (WHERE served.paused) AS paused
        FROM (SELECT kind, pg_catalog.bool_and(paused) AS paused FROM served GROUP BY kind) AS served CROSS JOIN LATERAL (
            (SELECT 1 FROM leasehold.jobs AS j WHERE j.kind = served.kind AND j.blocked_by = 'limit' LIMIT $4)
            UNION ALL
            (SELECT 1 FROM leasehold.jobs AS j WHERE j.kind = served.kind AND j.blocked_by = 'jobs' LIMIT $4)
        ) AS one
    )
    SELECT blocked.jobs AS blocked, ready.jobs AS ready, running.jobs AS running, scheduled.jobs AS scheduled,
        ready.paused + blocked.paused AS paused,
        CASE WHEN scheduled.next_at IS NOT NULL THEN
            greatest(0, pg_catalog.ceil(extract(epoch FROM scheduled.next_at - pg_catalog.clock_timestamp()) * 1000)::bigint)
        END AS next_due_ms
    FROM ready, running, scheduled, blocked
"
);

type Serves<'s> = (
    Bind<Array<Text>, Vec<&'s str>>,
    Bind<Array<Text>, Vec<&'s str>>,
    Bind<Array<Integer>, Vec<i32>>,
);

pub(super) fn bind_serves(serves: &[Served]) -> Serves<'_> {
    (
        bind(serves.iter().map(|served| served.queue.as_str()).collect()),
        bind(serves.iter().map(|served| served.kind.as_str()).collect()),
        bind(serves.iter().map(|served| served.version).collect()),
    )
}

impl ClaimStatements for PgConnection {
    const LEAVES_DEAD_ENTRIES: bool = true;

    fn promote(&mut self, schema: &Schema, serves: &[Served], limit: i64) -> QueryResult<usize> {
        let (queues, kinds, versions) = bind_serves(serves);
        Sql(
            schema.render(PROMOTE),
            (queues, kinds, versions, bind::<BigInt, _>(limit)),
        )
        .execute(self)
    }

    fn claim(&mut self, schema: &Schema, request: &ClaimRequest<'_>) -> QueryResult<Vec<ClaimedRow>> {
        let (queues, kinds, versions) = bind_serves(request.serves);
        let token = bind::<SqlUuid, _>(request.lease_token);
        let worker = bind::<SqlUuid, _>(request.worker);
        let limit = bind::<BigInt, _>(request.limit);
        let begun = bind::<Bool, _>(request.begun);
        let places = (0..request.serves.len()).map(|index| request.behind.get(index).copied().unwrap_or(Place::FRONT));
        let ranks = bind::<Array<Integer>, Vec<i32>>(places.clone().map(|place| place.rank).collect());
        // The lowest number is the database's own minus infinity.
        let times = bind::<Array<Timestamptz>, Vec<PgTimestamp>>(
            places.clone().map(|place| PgTimestamp(place.run_at)).collect(),
        );
        let ids = bind::<Array<BigInt>, Vec<i64>>(places.map(|place| place.id).collect());
        if !request.begun || request.counted.is_empty() {
            let binds = (queues, kinds, versions, limit, token, worker, begun, ranks, times, ids);
            let text = if request.oldest { CLAIM_OLDEST } else { CLAIM };
            return Sql(schema.render(text), binds).load(self);
        }
        let counted: Vec<&str> = request.counted.iter().map(|counted| counted.kind.as_str()).collect();
        let periods: Vec<i64> = request.counted.iter().map(|counted| counted.per_ms).collect();
        let (counted, periods) = (bind::<Array<Text>, _>(counted), bind::<Array<BigInt>, _>(periods));
        let binds = (
            queues, kinds, versions, limit, token, worker, begun, ranks, times, ids, counted, periods,
        );
        let text = if request.oldest {
            CLAIM_OLDEST_COUNTED
        } else {
            CLAIM_COUNTED
        };
        Sql(schema.render(text), binds).load(self)
    }

    fn find_claimed(&mut self, schema: &Schema, lease_token: Uuid) -> QueryResult<Vec<ClaimedRow>> {
        Sql(schema.render(FIND_CLAIMED), (bind::<SqlUuid, _>(lease_token),)).load(self)
    }

    fn waiting(&mut self, schema: &Schema, serves: &[Served], at_most: i64) -> QueryResult<Waiting> {
        let (queues, kinds, versions) = bind_serves(serves);
        Sql(
            schema.render(WAITING),
            (queues, kinds, versions, bind::<BigInt, _>(at_most)),
        )
        .get_result(self)
    }
}
