//! Begin and heartbeat.

use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Text};
use diesel::{RunQueryDsl, SqliteConnection};

use super::{fences_json, write};
use crate::backend::{Beat, LeaseStatements};
use crate::lease::Fence;
use crate::schema::Schema;
use crate::sql::{Id, Sql, bind};

const BEGIN: &str = "
    UPDATE leasehold_jobs AS j SET begun = 1 FROM json_each($1) AS f
    WHERE j.id = f.value->>0 AND j.generation = f.value->>1 AND j.lease_token = f.value->>2 AND j.state = 'running'
    RETURNING id
";

/// No row is ever skipped: whoever has the write lock has it to himself, and a database that stays busy is an error.
pub(super) const HEARTBEAT: &str = "
    UPDATE leasehold_jobs AS j SET lease_until = $2 + j.lease_ms FROM json_each($1) AS f
    WHERE j.id = f.value->>0 AND j.generation = f.value->>1 AND j.lease_token = f.value->>2 AND j.state = 'running'
    RETURNING id, true AS renewed, cancel_requested_at IS NOT NULL AS cancel_requested
";

impl LeaseStatements for SqliteConnection {
    fn begin(&mut self, schema: &Schema, fences: &[Fence]) -> QueryResult<Vec<i64>> {
        let fences = fences_json(fences);
        let begun: Vec<Id> = write(self, |conn, _| {
            Sql(schema.render(BEGIN), (bind::<Text, _>(&fences),)).load(conn)
        })?;
        Ok(begun.into_iter().map(|row| row.id).collect())
    }

    fn heartbeat(&mut self, schema: &Schema, fences: &[Fence]) -> QueryResult<Vec<Beat>> {
        let fences = fences_json(fences);
        write(self, |conn, now| {
            Sql(
                schema.render(HEARTBEAT),
                (bind::<Text, _>(&fences), bind::<BigInt, _>(now)),
            )
            .load(conn)
        })
    }
}
