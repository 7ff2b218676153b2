use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Nullable, Text, Uuid as SqlUuid};
use diesel::{PgConnection, RunQueryDsl};

use super::bind_fences;
use crate::backend::{End, PutBack, SettleStatements};
use crate::lease::Fence;
use crate::schema::Schema;
use crate::sql::{Id, Sql, bind};

// The hot path of many short jobs, so every row is visited once: the scan of the primary key goes through the ids in their
// order, and so do the locks. A row that is among the finished ones already (an id that was given twice, after a sequence
// was set back) fails the statement; the caller ends those jobs one by one then, by `END`, which overwrites it.
pub(super) const FINISH: &str = concat!(
    "WITH ended AS (
        DELETE FROM leasehold.jobs AS j WHERE j.id = ANY ($1) AND j.state = 'running'
         AND ((j.id, j.generation, j.lease_token) IN (SELECT id, generation, lease_token
            FROM unnest($1, $2, $3) AS given (id, generation, lease_token))) IS TRUE
        RETURNING j.*
    ),
    ",
    freed!(many: "4"),
    ",
    moved AS (
        ",
    copied!(state: "'completed'", generation: "e.generation", reason: "NULL"),
    " RETURNING id
    )
    SELECT id FROM moved"
);

// The token stays: a worker whose answer was lost finds by it that this was its own write. An attempt given back stops at
// zero, so that a row which was changed by hand can be put back, too.
const PUT_BACK: &str = concat!(
    "WITH ready AS (
        UPDATE leasehold.jobs SET state = 'ready', generation = generation + $4, attempt = greatest(attempt - $5, 0)::integer,
            run_at = pg_catalog.clock_timestamp() + $6 * INTERVAL '1 millisecond', scheduled = $6 > 0,
            blocked_by = CASE WHEN limit_key IS NOT NULL AND $6 <= 0 THEN 'limit' END, lease_until = NULL, worker = NULL, begun = false
        WHERE id = $1 AND generation = $2 AND lease_token = $3 AND state = 'running'
          AND greatest($5, (cancel_requested_at IS NULL)::integer) = 1
        RETURNING id, (attempt + $5)::integer AS attempt
    ),
    ",
    noted!("SELECT id, $2, attempt, $7, $8 FROM ready WHERE $7 IS NOT NULL"),
    " SELECT id FROM ready"
);

const END: &str = concat!(
    "WITH ended AS (
        DELETE FROM leasehold.jobs WHERE id = $1 AND generation = $2 AND lease_token = $3 AND state = 'running' RETURNING *
    ),
    ",
    freed!(one: "CASE $4 WHEN 'completed' THEN 4 WHEN 'cancelled' THEN 16 ELSE 8 END"),
    ", ",
    moved!(state: "$4", generation: "e.generation + $5", reason: "$6"),
    ", ",
    noted!("SELECT id, $2, attempt, $7, $8 FROM ended WHERE $7 IS NOT NULL"),
    " SELECT id FROM moved"
);

// A start that was counted when the job was claimed has not come about.
const RELEASE: &str = concat!(
    "WITH ",
    locked!("FOR NO KEY UPDATE"),
    ",
    uncounted AS (
        DELETE FROM leasehold.starts AS s USING (
            SELECT j.kind, j.limit_key, j.id, last.at FROM leasehold.jobs AS j CROSS JOIN LATERAL (
                SELECT x.at FROM leasehold.starts AS x
                WHERE x.kind = j.kind AND x.limit_key = j.limit_key AND x.job_id = j.id ORDER BY x.at DESC LIMIT 1
            ) AS last
            WHERE j.id = ANY (ARRAY(SELECT id FROM locked)) AND j.begun AND j.limit_key IS NOT NULL
        ) AS counted
        WHERE s.kind = counted.kind AND s.limit_key = counted.limit_key AND s.at = counted.at AND s.job_id = counted.id
    )
    UPDATE leasehold.jobs AS j SET state = 'ready', attempt = greatest(j.attempt - 1, 0), lease_until = NULL, worker = NULL,
        begun = false
        WHERE ",
    under_the_fence!(),
    " RETURNING j.id"
);

fn ids(rows: Vec<Id>) -> Vec<i64> {
    rows.into_iter().map(|row| row.id).collect()
}

impl SettleStatements for PgConnection {
    fn finish(&mut self, schema: &Schema, fences: &[Fence]) -> QueryResult<Vec<i64>> {
        Sql(schema.render(FINISH), bind_fences(fences)).load(self).map(ids)
    }

    fn put_back(&mut self, schema: &Schema, fence: &Fence, how: &PutBack) -> QueryResult<usize> {
        let binds = (
            bind::<BigInt, _>(fence.id),
            bind::<BigInt, _>(fence.generation),
            bind::<SqlUuid, _>(fence.lease_token),
            bind::<BigInt, _>(i64::from(how.takes_away)),
            bind::<BigInt, _>(i64::from(!how.uses_attempt)),
            bind::<BigInt, _>(how.delay_ms),
            bind::<Nullable<Text>, _>(how.error.as_ref().map(|error| error.cause)),
            bind::<Nullable<Text>, _>(how.error.as_ref().map(|error| error.error.as_str())),
        );
        Sql(schema.render(PUT_BACK), binds).execute(self)
    }

    fn end(&mut self, schema: &Schema, fence: &Fence, how: &End) -> QueryResult<usize> {
        let binds = (
            bind::<BigInt, _>(fence.id),
            bind::<BigInt, _>(fence.generation),
            bind::<SqlUuid, _>(fence.lease_token),
            bind::<Text, _>(how.state),
            bind::<BigInt, _>(i64::from(how.takes_away)),
            bind::<Nullable<Text>, _>(how.reason.as_deref()),
            bind::<Nullable<Text>, _>(how.error.as_ref().map(|error| error.cause)),
            bind::<Nullable<Text>, _>(how.error.as_ref().map(|error| error.error.as_str())),
        );
        Sql(schema.render(END), binds).execute(self)
    }

    fn release(&mut self, schema: &Schema, fences: &[Fence]) -> QueryResult<Vec<i64>> {
        Sql(schema.render(RELEASE), bind_fences(fences)).load(self).map(ids)
    }
}
