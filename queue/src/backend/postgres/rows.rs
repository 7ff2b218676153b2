use diesel::pg::Pg;
use diesel::query_builder::QueryFragment;
use diesel::result::{OptionalExtension, QueryResult};
use diesel::sql_types::{Array, BigInt, Text};
use diesel::{PgConnection, RunQueryDsl};

use super::commit::is_marked;
use crate::backend::{
    Completion, RowBeat, RowClaim, RowClaimed, RowFence, RowFound, RowOwnership, RowStatements, RowVersion,
};
use crate::rows::{RowTable, VersionTable};
use crate::sql::{Around, Sql, bind};

/// Whether the row `r` can be claimed, under the ready statuses `$3` and the running one `$4`. The room left below the limit
/// of generations is for one more.
macro_rules! claimable {
    () => {
        "(r.{status} = ANY ($3) OR r.{status} = $4 AND r.{lease_until} <= pg_catalog.clock_timestamp())
            AND r.{generation} < 9223372036854775806"
    };
}

// Before the application's query.
const WANTED: &str = "WITH wanted (id) AS (";

// After the application's query. The rows are locked under a name of this statement's own and at a level of its own, so no
// other table of that query is. They keep its order, which a plain `IN` would lose. The claim makes itself durable, whatever
// the session says: one that a crash forgets would be given to a second owner.
macro_rules! claim {
    ($answer:expr) => {
        concat!(
            "), asked AS MATERIALIZED (
                SELECT id, pg_catalog.min(place) AS place
                FROM (SELECT id, pg_catalog.row_number() OVER () AS place FROM wanted) AS numbered
                WHERE id IS NOT NULL GROUP BY id
            ),
            locked AS MATERIALIZED (
                SELECT r.{id} AS id FROM asked JOIN {table} AS r ON r.{id} = asked.id
                WHERE ",
            claimable!(),
            " ORDER BY asked.place LIMIT $5 FOR NO KEY UPDATE OF r SKIP LOCKED
            ),
            claimed AS (
                UPDATE {table} AS r SET {status} = $4, {generation} = r.{generation} + 1, {lease_token} = $1::{token_type},
                    {lease_until} = pg_catalog.clock_timestamp() + $2 * INTERVAL '1 millisecond'
                WHERE r.{id} = ANY (ARRAY(SELECT id FROM locked)) AND ",
            claimable!(),
            "
                RETURNING r.{id} AS id, r.{generation} AS generation,
                    ", durable!(), "
            )",
            $answer
        )
    };
}

// The rows beside the claimed ones are as the statement's snapshot has them.
const CLAIM: &str = claim!(concat!(
    " SELECT asked.id::pg_catalog.text AS id, claimed.generation AS claimed, r.{status}::pg_catalog.text AS status, coalesce(",
    claimable!(),
    ", false) AS claimable
    FROM asked LEFT JOIN claimed ON claimed.id = asked.id LEFT JOIN {table} AS r ON r.{id} = asked.id"
));

const CLAIM_FROM: &str = claim!(
    " SELECT claimed.id::pg_catalog.text AS id, claimed.generation FROM claimed JOIN asked ON asked.id = claimed.id
    ORDER BY asked.place"
);

const GIVEN: &str = "SELECT given.id::{id_type} FROM unnest($1) AS given (id)";

// A row that its own commit has locked is neither waited for nor called lost: `held` answers from the snapshot, and
// `renewed` has those that were free. A claim skips locked rows, too, so nobody takes such a row meanwhile.
const HEARTBEAT: &str = "
    WITH asked AS MATERIALIZED (
        SELECT id::{id_type} AS id, generation, lease_token::{token_type} AS lease_token, lease_ms
        FROM unnest($1, $2, $3, $4) AS given (id, generation, lease_token, lease_ms)
    ),
    held AS MATERIALIZED (
        SELECT asked.id FROM asked JOIN {table} AS r ON r.{id} = asked.id
        WHERE r.{generation} = asked.generation AND r.{lease_token} = asked.lease_token AND r.{status} = $5
    ),
    locked AS MATERIALIZED (
        SELECT asked.* FROM asked JOIN {table} AS r ON r.{id} = asked.id
        WHERE r.{generation} = asked.generation AND r.{lease_token} = asked.lease_token AND r.{status} = $5
        FOR NO KEY UPDATE OF r SKIP LOCKED
    ),
    renewed AS (
        UPDATE {table} AS r SET {lease_until} = pg_catalog.clock_timestamp() + l.lease_ms * INTERVAL '1 millisecond'
        FROM locked AS l
        WHERE r.{id} = l.id AND r.{generation} = l.generation AND r.{lease_token} = l.lease_token AND r.{status} = $5
        RETURNING r.{id} AS id
    )
    SELECT id::pg_catalog.text AS id, id IN (SELECT id FROM renewed) AS renewed FROM held
";

// The mark is asked for in the same statement: after a raw COMMIT in the closure, the write would pass in a transaction
// of its own, and the closure's writes would stand whatever becomes of it.
const END: &str = "
    UPDATE {table} SET {status} = $5, {lease_until} = NULL
    WHERE {id} = $1::{id_type} AND {generation} = $2 AND {lease_token} = $3::{token_type} AND {status} = $4
      AND pg_catalog.current_setting('in_commit.leasehold', true) = 'on'
";

const LOCK: &str = "
    SELECT {status}::pg_catalog.text AS status, {generation} AS generation, {lease_token}::pg_catalog.text AS lease_token
    FROM {table} WHERE {id} = $1::{id_type} FOR NO KEY UPDATE
";

const READ: &str = "
    SELECT {status}::pg_catalog.text AS status, {generation} AS generation, {lease_token}::pg_catalog.text AS lease_token
    FROM {table} WHERE {id} = $1::{id_type}
";

// No fence to name: these rows were set running without a lease, so nobody holds a generation or a token of theirs. That
// they have no end of one is what lets them through, and a claim always writes one.
const ADOPT: &str = "
    UPDATE {table} AS r SET {lease_until} = pg_catalog.clock_timestamp() + $2 * INTERVAL '1 millisecond'
    WHERE r.{id} = ANY (ARRAY(
        SELECT one.{id} FROM {table} AS one WHERE one.{status} = $1 AND one.{lease_until} IS NULL
        FOR NO KEY UPDATE SKIP LOCKED
    )) AND r.{status} = $1 AND r.{lease_until} IS NULL
";

const UPDATE_VERSION: &str = "UPDATE {table} SET ";
const NEXT_VERSION: &str = "{version} = {version} + 1";
const OF_VERSION: &str = " WHERE {id} = $1::{id_type} AND {version} = $2";
const VERSION: &str = "SELECT {version}::pg_catalog.int8 AS version FROM {table} WHERE {id} = $1::{id_type}";

impl RowStatements for PgConnection {
    fn claim_rows(&mut self, table: &RowTable, claim: &RowClaim, ids: &[String]) -> QueryResult<Vec<RowFound>> {
        let given = Sql(table.render(GIVEN), (bind::<Array<Text>, _>(ids),));
        let limit = i64::try_from(ids.len()).unwrap_or(i64::MAX);
        let binds = (
            bind::<Text, _>(claim.lease_token.to_string()),
            bind::<BigInt, _>(claim.lease_ms),
            bind::<Array<Text>, _>(table.ready),
            bind::<Text, _>(table.running),
            bind::<BigInt, _>(limit),
        );
        Around(WANTED, given, Sql(table.render(CLAIM), binds)).load(self)
    }

    fn claim_rows_from<Q>(
        &mut self,
        table: &RowTable,
        claim: &RowClaim,
        query: Q,
        limit: i64,
    ) -> QueryResult<Vec<RowClaimed>>
    where
        Q: QueryFragment<Pg>,
    {
        let binds = (
            bind::<Text, _>(claim.lease_token.to_string()),
            bind::<BigInt, _>(claim.lease_ms),
            bind::<Array<Text>, _>(table.ready),
            bind::<Text, _>(table.running),
            bind::<BigInt, _>(limit),
        );
        Around(WANTED, query, Sql(table.render(CLAIM_FROM), binds)).load(self)
    }

    fn heartbeat_rows(&mut self, table: &RowTable, fences: &[(RowFence, i64)]) -> QueryResult<Vec<RowBeat>> {
        let ids: Vec<&str> = fences.iter().map(|(fence, _)| fence.id.as_str()).collect();
        let generations: Vec<i64> = fences.iter().map(|(fence, _)| fence.generation).collect();
        let tokens: Vec<String> = fences.iter().map(|(fence, _)| fence.lease_token.to_string()).collect();
        let leases: Vec<i64> = fences.iter().map(|(_, lease_ms)| *lease_ms).collect();
        let binds = (
            bind::<Array<Text>, _>(ids),
            bind::<Array<BigInt>, _>(generations),
            bind::<Array<Text>, _>(tokens),
            bind::<Array<BigInt>, _>(leases),
            bind::<Text, _>(table.running),
        );
        Sql(table.render(HEARTBEAT), binds).load(self)
    }

    fn end_row(&mut self, table: &RowTable, fence: &RowFence, status: &str) -> QueryResult<Completion> {
        let binds = (
            bind::<Text, _>(fence.id.as_str()),
            bind::<BigInt, _>(fence.generation),
            bind::<Text, _>(fence.lease_token.to_string()),
            bind::<Text, _>(table.running),
            bind::<Text, _>(status),
        );
        if Sql(table.render(END), binds).execute(self)? == 1 {
            return Ok(Completion::Completed);
        }
        Ok(if is_marked(self)? {
            Completion::Refused
        } else {
            Completion::Ended
        })
    }

    fn lock_row(&mut self, table: &RowTable, id: &str) -> QueryResult<Option<RowOwnership>> {
        Sql(table.render(LOCK), (bind::<Text, _>(id),))
            .get_result(self)
            .optional()
    }

    fn read_row(&mut self, table: &RowTable, id: &str) -> QueryResult<Option<RowOwnership>> {
        Sql(table.render(READ), (bind::<Text, _>(id),))
            .get_result(self)
            .optional()
    }

    fn adopt_rows(&mut self, table: &RowTable, grace_ms: i64) -> QueryResult<usize> {
        let binds = (bind::<Text, _>(table.running), bind::<BigInt, _>(grace_ms));
        Sql(table.render(ADOPT), binds).execute(self)
    }

    fn update_version<Q>(&mut self, table: &VersionTable, id: &str, seen: i64, changes: Q) -> QueryResult<usize>
    where
        Q: QueryFragment<Pg>,
    {
        let next = Sql(table.render(NEXT_VERSION), ());
        let binds = (bind::<Text, _>(id), bind::<BigInt, _>(seen));
        let of_version = Sql(table.render(OF_VERSION), binds);
        Around(table.render(UPDATE_VERSION), (changes, next), of_version).execute(self)
    }

    fn read_version(&mut self, table: &VersionTable, id: &str) -> QueryResult<Option<i64>> {
        let row = Sql(table.render(VERSION), (bind::<Text, _>(id),)).get_result::<RowVersion>(self);
        Ok(row.optional()?.map(|row| row.version))
    }
}
