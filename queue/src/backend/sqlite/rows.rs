//! Ownership of rows in tables of the application.

use std::collections::HashMap;

use diesel::query_builder::QueryFragment;
use diesel::result::{OptionalExtension, QueryResult};
use diesel::sql_types::{BigInt, Text};
use diesel::sqlite::Sqlite;
use diesel::{QueryableByName, RunQueryDsl, SqliteConnection};

use super::commit::is_marked;
use super::{json, write};
use crate::backend::{
    Completion, RowBeat, RowClaim, RowClaimed, RowFence, RowFound, RowOwnership, RowStatements, RowVersion,
};
use crate::rows::{RowTable, VersionTable};
use crate::sql::{Around, Sql, bind};

#[derive(QueryableByName)]
struct Picked {
    #[diesel(sql_type = Text)]
    id: String,
}

/// Whether the row `r` can be claimed. The room left below the limit of generations is for one more.
macro_rules! claimable {
    (ready: $ready:literal, running: $running:literal, now: $now:literal) => {
        concat!(
            "(r.{status} IN (SELECT value FROM json_each(",
            $ready,
            ")) OR r.{status} = ",
            $running,
            " AND r.{lease_until} <= ",
            $now,
            ") AND r.{generation} < 9223372036854775806"
        )
    };
}

/// Before the application's query.
const WANTED: &str = "WITH wanted (id) AS (";

/// After the application's query.
macro_rules! asked {
    () => {
        "), asked AS MATERIALIZED (
            SELECT id, min(place) AS place FROM (SELECT id, row_number() OVER () AS place FROM wanted)
            WHERE id IS NOT NULL GROUP BY id
        )"
    };
}

const FOUND: &str = concat!(
    asked!(),
    " SELECT CAST(asked.id AS TEXT) AS id, NULL AS claimed, r.{status} AS status, coalesce(",
    claimable!(ready: "$1", running: "$2", now: "$3"),
    ", 0) AS claimable FROM asked LEFT JOIN {table} AS r ON r.{id} = asked.id"
);

/// What `RETURNING` gives has no order, so a query's is read here, under the same write lock.
const PICK: &str = concat!(
    asked!(),
    " SELECT CAST(asked.id AS TEXT) AS id FROM asked JOIN {table} AS r ON r.{id} = asked.id WHERE ",
    claimable!(ready: "$1", running: "$2", now: "$3"),
    " ORDER BY asked.place LIMIT $4 + 0"
);

const CLAIM: &str = concat!(
    "UPDATE {table} AS r SET {status} = $4, {generation} = r.{generation} + 1, {lease_token} = $1, {lease_until} = $6 + $2
    WHERE r.{id} IN (SELECT CAST(value AS {id_type}) FROM json_each($5)) AND ",
    claimable!(ready: "$3", running: "$4", now: "$6"),
    " RETURNING CAST({id} AS TEXT) AS id, {generation} AS generation"
);

const GIVEN: &str = "SELECT CAST(value AS {id_type}) FROM json_each($1)";

/// No row is ever skipped: whoever has the write lock has it to itself, and a database that stays busy is an error.
const HEARTBEAT: &str = "
    UPDATE {table} AS r SET {lease_until} = $2 + (f.value->>3) FROM json_each($1) AS f
    WHERE r.{id} = CAST(f.value->>0 AS {id_type}) AND r.{generation} = f.value->>1 AND r.{lease_token} = f.value->>2
      AND r.{status} = $3
    RETURNING CAST({id} AS TEXT) AS id, true AS renewed
";

const END: &str = "
    UPDATE {table} SET {status} = $5, {lease_until} = NULL
    WHERE {id} = CAST($1 AS {id_type}) AND {generation} = $2 AND {lease_token} = $3 AND {status} = $4
";

/// Under the write lock of its transaction, when it is to be locked, so nobody else is changing it.
const READ: &str = "
    SELECT {status} AS status, {generation} AS generation, {lease_token} AS lease_token
    FROM {table} WHERE {id} = CAST($1 AS {id_type})
";

/// No fence to name: these rows were set running without a lease, so nobody holds a generation or a token of theirs. That
/// they have no end of one is what lets them through, and a claim always writes one.
const ADOPT: &str = "UPDATE {table} SET {lease_until} = $2 WHERE {status} = $1 AND {lease_until} IS NULL";

const UPDATE_VERSION: &str = "UPDATE {table} SET ";
const NEXT_VERSION: &str = "{version} = {version} + 1";
const OF_VERSION: &str = " WHERE {id} = CAST($1 AS {id_type}) AND {version} = $2";
const VERSION: &str = "SELECT {version} AS version FROM {table} WHERE {id} = CAST($1 AS {id_type})";

/// The generations that a claim of these rows gave, by id.
fn claim_given(
    conn: &mut SqliteConnection,
    table: &RowTable,
    claim: &RowClaim,
    ids: &str,
    now: i64,
) -> QueryResult<HashMap<String, i64>> {
    let binds = (
        bind::<Text, _>(claim.lease_token.to_string()),
        bind::<BigInt, _>(claim.lease_ms),
        bind::<Text, _>(json(table.ready)?),
        bind::<Text, _>(table.running),
        bind::<Text, _>(ids),
        bind::<BigInt, _>(now),
    );
    let claimed: Vec<RowClaimed> = Sql(table.render(CLAIM), binds).load(conn)?;
    Ok(claimed.into_iter().map(|row| (row.id, row.generation)).collect())
}

impl RowStatements for SqliteConnection {
    fn claim_rows(&mut self, table: &RowTable, claim: &RowClaim, ids: &[String]) -> QueryResult<Vec<RowFound>> {
        let (ids, ready) = (json(ids)?, json(table.ready)?);
        write(self, |conn, now| {
            let given = Sql(table.render(GIVEN), (bind::<Text, _>(&ids),));
            let binds = (
                bind::<Text, _>(&ready),
                bind::<Text, _>(table.running),
                bind::<BigInt, _>(now),
            );
            let mut found: Vec<RowFound> = Around(WANTED, given, Sql(table.render(FOUND), binds)).load(conn)?;
            let claimed = claim_given(conn, table, claim, &ids, now)?;
            for row in &mut found {
                row.claimed = claimed.get(&row.id).copied();
            }
            Ok(found)
        })
    }

    fn claim_rows_from<Q>(
        &mut self,
        table: &RowTable,
        claim: &RowClaim,
        query: Q,
        limit: i64,
    ) -> QueryResult<Vec<RowClaimed>>
    where
        Q: QueryFragment<Sqlite>,
    {
        let ready = json(table.ready)?;
        write(self, |conn, now| {
            let binds = (
                bind::<Text, _>(&ready),
                bind::<Text, _>(table.running),
                bind::<BigInt, _>(now),
                bind::<BigInt, _>(limit),
            );
            let picked: Vec<Picked> = Around(WANTED, query, Sql(table.render(PICK), binds)).load(conn)?;
            let ids: Vec<String> = picked.into_iter().map(|row| row.id).collect();
            let mut claimed = claim_given(conn, table, claim, &json(&ids)?, now)?;
            let claimed = ids.into_iter().filter_map(|id| {
                let generation = claimed.remove(&id)?;
                Some(RowClaimed { id, generation })
            });
            Ok(claimed.collect())
        })
    }

    fn heartbeat_rows(&mut self, table: &RowTable, fences: &[(RowFence, i64)]) -> QueryResult<Vec<RowBeat>> {
        let fences: Vec<_> = fences
            .iter()
            .map(|(fence, lease_ms)| (&fence.id, fence.generation, fence.lease_token.to_string(), lease_ms))
            .collect();
        let fences = json(&fences)?;
        write(self, |conn, now| {
            let binds = (
                bind::<Text, _>(&fences),
                bind::<BigInt, _>(now),
                bind::<Text, _>(table.running),
            );
            Sql(table.render(HEARTBEAT), binds).load(conn)
        })
    }

    fn end_row(&mut self, table: &RowTable, fence: &RowFence, status: &str) -> QueryResult<Completion> {
        if !is_marked(self)? {
            return Ok(Completion::Ended);
        }
        let binds = (
            bind::<Text, _>(fence.id.as_str()),
            bind::<BigInt, _>(fence.generation),
            bind::<Text, _>(fence.lease_token.to_string()),
            bind::<Text, _>(table.running),
            bind::<Text, _>(status),
        );
        let ended = Sql(table.render(END), binds).execute(self)?;
        Ok(if ended == 1 {
            Completion::Completed
        } else {
            Completion::Refused
        })
    }

    fn lock_row(&mut self, table: &RowTable, id: &str) -> QueryResult<Option<RowOwnership>> {
        Sql(table.render(READ), (bind::<Text, _>(id),))
            .get_result(self)
            .optional()
    }

    fn read_row(&mut self, table: &RowTable, id: &str) -> QueryResult<Option<RowOwnership>> {
        Sql(table.render(READ), (bind::<Text, _>(id),))
            .get_result(self)
            .optional()
    }

    fn adopt_rows(&mut self, table: &RowTable, grace_ms: i64) -> QueryResult<usize> {
        write(self, |conn, now| {
            let until = bind::<BigInt, _>(now.saturating_add(grace_ms));
            Sql(table.render(ADOPT), (bind::<Text, _>(table.running), until)).execute(conn)
        })
    }

    fn update_version<Q>(&mut self, table: &VersionTable, id: &str, seen: i64, changes: Q) -> QueryResult<usize>
    where
        Q: QueryFragment<Sqlite>,
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
