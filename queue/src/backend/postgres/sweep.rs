use std::ops::RangeInclusive;

use diesel::result::QueryResult;
use diesel::sql_types::BigInt;
use diesel::{PgConnection, RunQueryDsl};

use crate::backend::{SweepStatements, Swept};
use crate::schema::Schema;
use crate::sql::{Id, Sql, bind};

// Read from `jobs_held`, the few rows that somebody has, and fenced on what was read under the lock. A row at the end of
// its numbers is left out, for it would fail the sweep of its neighbours. The generation grows at once, so the old owner
// is refused even before somebody claims the job. One that was asked to stop does not run again, and one that began and
// has used up its attempts may be what kills its worker.
const SWEEP: &str = concat!(
    "WITH expired AS MATERIALIZED (
        SELECT id, generation, lease_token, attempt, begun, CASE
            WHEN cancel_requested_at IS NOT NULL THEN 'cancelled'
            WHEN begun AND attempt >= max_attempts THEN 'discarded'
            ELSE 'ready' END AS fate
        FROM leasehold.jobs
        WHERE worker IS NOT NULL AND state = 'running' AND lease_until <= pg_catalog.clock_timestamp()
          AND generation < 9223372036854775806
          AND id BETWEEN $2 AND $3
        ORDER BY id LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED
    ),
    ready AS (
        UPDATE leasehold.jobs AS j SET state = 'ready', generation = j.generation + 1,
            attempt = CASE WHEN j.begun THEN j.attempt ELSE greatest(j.attempt - 1, 0) END,
            blocked_by = CASE WHEN j.limit_key IS NOT NULL AND j.begun THEN 'limit' END,
            lease_until = NULL, worker = NULL, begun = false
        FROM expired AS x
        WHERE j.id = ANY (ARRAY(SELECT id FROM expired WHERE fate = 'ready'))
          AND j.id = x.id AND j.generation = x.generation AND j.lease_token = x.lease_token AND j.state = 'running'
        RETURNING j.id, j.queue, j.kind, j.attempt, j.generation, j.state
    ),
    ended AS (
        DELETE FROM leasehold.jobs AS j USING expired AS x
        WHERE j.id = ANY (ARRAY(SELECT id FROM expired WHERE fate <> 'ready'))
          AND j.id = x.id AND j.generation = x.generation AND j.lease_token = x.lease_token AND j.state = 'running'
        RETURNING j.*, x.fate
    ),
    ",
    freed!(
        many: "CASE WHEN k.job_id = ANY (ARRAY(SELECT e.id FROM ended AS e WHERE e.fate = 'cancelled')) THEN 16 ELSE 8 END"
    ),
    ", ",
    moved!(state: "e.fate", generation: "e.generation + 1", reason: "'lease expired'"),
    ", ",
    noted!(
        "SELECT x.id, x.generation, x.attempt, 'lease expired', 'the lease ran out without a heartbeat'
                FROM expired AS x WHERE x.begun"
    ),
    "
    SELECT s.id, s.queue, s.kind, s.attempt, s.generation, s.state, x.begun
    FROM (
        SELECT id, queue, kind, attempt, generation, state FROM ready
        UNION ALL
        SELECT id, queue, kind, attempt, generation, state FROM moved
    ) AS s JOIN expired AS x ON x.id = s.id"
);

const EXPIRED: &str = "
    SELECT id FROM leasehold.jobs
    WHERE worker IS NOT NULL AND state = 'running' AND lease_until <= pg_catalog.clock_timestamp() ORDER BY id LIMIT $1
";

// The outer part does not name the expiry: it would let the planner read the whole index on it.
const SWEEP_KEYS: &str = "
    DELETE FROM leasehold.unique_keys
    WHERE key = ANY (ARRAY(
        SELECT key FROM leasehold.unique_keys
        WHERE expires_at IS NOT NULL AND expires_at <= (SELECT pg_catalog.clock_timestamp())
        ORDER BY expires_at LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED
    ))
";

/// Of all jobs, or of one.
fn sweep(conn: &mut PgConnection, schema: &Schema, limit: i64, ids: RangeInclusive<i64>) -> QueryResult<Vec<Swept>> {
    let binds = (
        bind::<BigInt, _>(limit),
        bind::<BigInt, _>(*ids.start()),
        bind::<BigInt, _>(*ids.end()),
    );
    Sql(schema.render(SWEEP), binds).load(conn)
}

impl SweepStatements for PgConnection {
    fn sweep(&mut self, schema: &Schema, limit: i64) -> QueryResult<Vec<Swept>> {
        sweep(self, schema, limit, i64::MIN..=i64::MAX)
    }

    fn expired(&mut self, schema: &Schema, limit: i64) -> QueryResult<Vec<i64>> {
        let ids: Vec<Id> = Sql(schema.render(EXPIRED), (bind::<BigInt, _>(limit),)).load(self)?;
        Ok(ids.into_iter().map(|row| row.id).collect())
    }

    fn sweep_one(&mut self, schema: &Schema, id: i64) -> QueryResult<Option<Swept>> {
        Ok(sweep(self, schema, 1, id..=id)?.pop())
    }

    fn sweep_keys(&mut self, schema: &Schema, limit: i64) -> QueryResult<usize> {
        Sql(schema.render(SWEEP_KEYS), (bind::<BigInt, _>(limit),)).execute(self)
    }
}
