use std::ops::RangeInclusive;

use diesel::result::QueryResult;
use diesel::sql_types::BigInt;
use diesel::{PgConnection, RunQueryDsl};

use crate::backend::{ExpiryStatements, Swept};
use crate::schema::Schema;
use crate::sql::{Id, Sql, bind};

// Read from `jobs_expires`, and fenced on what was read under the lock. A row at the end of its numbers is left out, for
// it would fail its neighbours. The outer part does not name the expiry, and `id + 0` is in no index: a planner that knows
// of no values may take the wide range of ids for the narrow one.
const DISCARD_EXPIRED: &str = concat!(
    "WITH expired AS MATERIALIZED (
        SELECT id, generation FROM leasehold.jobs
        WHERE state = 'ready' AND expires_at IS NOT NULL AND expires_at <= (SELECT pg_catalog.clock_timestamp())
          AND generation < 9223372036854775806
          AND id + 0 BETWEEN $2 AND $3
        ORDER BY expires_at LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED
    ),
    ended AS (
        DELETE FROM leasehold.jobs AS j USING expired AS x
        WHERE j.id = ANY (ARRAY(SELECT id FROM expired))
          AND j.id = x.id AND j.generation = x.generation AND j.state = 'ready'
        RETURNING j.*
    ),
    ",
    freed!(many: "8"),
    ", ",
    moved!(state: "'discarded'", generation: "e.generation + 1", reason: "'expired'"),
    " SELECT id, queue, kind, attempt, generation, state, false AS begun FROM moved"
);

const EXPIRED_JOBS: &str = "
    SELECT id FROM leasehold.jobs
    WHERE state = 'ready' AND expires_at IS NOT NULL AND expires_at <= (SELECT pg_catalog.clock_timestamp())
    ORDER BY expires_at LIMIT $1
";

/// Of all jobs, or of one.
fn discard(conn: &mut PgConnection, schema: &Schema, limit: i64, ids: RangeInclusive<i64>) -> QueryResult<Vec<Swept>> {
    let binds = (
        bind::<BigInt, _>(limit),
        bind::<BigInt, _>(*ids.start()),
        bind::<BigInt, _>(*ids.end()),
    );
    Sql(schema.render(DISCARD_EXPIRED), binds).load(conn)
}

impl ExpiryStatements for PgConnection {
    fn discard_expired(&mut self, schema: &Schema, limit: i64) -> QueryResult<Vec<Swept>> {
        discard(self, schema, limit, i64::MIN..=i64::MAX)
    }

    fn expired_jobs(&mut self, schema: &Schema, limit: i64) -> QueryResult<Vec<i64>> {
        let ids: Vec<Id> = Sql(schema.render(EXPIRED_JOBS), (bind::<BigInt, _>(limit),)).load(self)?;
        Ok(ids.into_iter().map(|row| row.id).collect())
    }

    fn discard_expired_one(&mut self, schema: &Schema, id: i64) -> QueryResult<Option<Swept>> {
        Ok(discard(self, schema, 1, id..=id)?.pop())
    }
}
