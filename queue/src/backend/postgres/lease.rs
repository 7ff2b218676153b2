use diesel::result::QueryResult;
use diesel::{PgConnection, RunQueryDsl};

use super::bind_fences;
use crate::backend::{Beat, LeaseStatements};
use crate::lease::Fence;
use crate::schema::Schema;
use crate::sql::{Id, Sql};

// Durable as a claim is: were it forgotten, a job that killed its worker would have its attempt back.
const BEGIN: &str = concat!(
    "WITH ",
    locked!("FOR NO KEY UPDATE"),
    " UPDATE leasehold.jobs AS j SET begun = true WHERE ",
    under_the_fence!(),
    " RETURNING j.id, ",
    durable!()
);

// A row that its own commit has locked is neither waited for nor called lost: it is among those that were `skipped`, whose
// answer is from the snapshot. The sweep skips locked rows, too, so nobody takes such a row meanwhile. The new end is counted
// from now alone: were it the later of two ends, a wrong one far in the future would stay. `OFFSET 0` keeps the look-up a
// look-up, where a lock does not do so; `IS NOT TRUE` keeps the comparison one with a hash table.
pub(super) const HEARTBEAT: &str = concat!(
    "WITH ",
    locked!("FOR NO KEY UPDATE SKIP LOCKED"),
    ",
    renewed AS (
        UPDATE leasehold.jobs AS j SET lease_until = pg_catalog.clock_timestamp() + j.lease_ms * INTERVAL '1 millisecond'
        WHERE ",
    under_the_fence!(),
    "
        RETURNING j.id, j.cancel_requested_at IS NOT NULL AS cancel_requested
    )
    SELECT id, true AS renewed, cancel_requested FROM renewed
    UNION ALL
    SELECT skipped.id, false, skipped.cancel_requested
    FROM unnest($1, $2, $3) AS asked (id, generation, lease_token)
    CROSS JOIN LATERAL (
        SELECT j.id, j.cancel_requested_at IS NOT NULL AS cancel_requested FROM leasehold.jobs AS j
        WHERE j.id = asked.id AND j.generation = asked.generation AND j.lease_token = asked.lease_token
          AND j.state = 'running' OFFSET 0
    ) AS skipped
    WHERE (asked.id IN (SELECT id FROM renewed)) IS NOT TRUE"
);

impl LeaseStatements for PgConnection {
    fn begin(&mut self, schema: &Schema, fences: &[Fence]) -> QueryResult<Vec<i64>> {
        let begun: Vec<Id> = Sql(schema.render(BEGIN), bind_fences(fences)).load(self)?;
        Ok(begun.into_iter().map(|row| row.id).collect())
    }

    fn heartbeat(&mut self, schema: &Schema, fences: &[Fence]) -> QueryResult<Vec<Beat>> {
        Sql(schema.render(HEARTBEAT), bind_fences(fences)).load(self)
    }
}
