//! Pause and resume.

use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Text};
use diesel::{RunQueryDsl, SqliteConnection};

use super::write;
use crate::backend::{PauseRow, PauseStatements};
use crate::schema::Schema;
use crate::sql::{Sql, bind};

const PAUSE: &str = "
    INSERT INTO leasehold_pauses (scope, name, by, reason, at) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (scope, name) DO UPDATE SET at = excluded.at, by = excluded.by, reason = excluded.reason
";

const RESUME: &str = "DELETE FROM leasehold_pauses WHERE scope = $1 AND name = $2";

const PAUSES: &str = "SELECT scope, name, at AS at_ms, by, reason FROM leasehold_pauses ORDER BY scope, name";

impl PauseStatements for SqliteConnection {
    fn pause(&mut self, schema: &Schema, scope: &str, name: &str, by: &str, reason: &str) -> QueryResult<usize> {
        write(self, |conn, now| {
            let binds = (
                bind::<Text, _>(scope),
                bind::<Text, _>(name),
                bind::<Text, _>(by),
                bind::<Text, _>(reason),
                bind::<BigInt, _>(now),
            );
            Sql(schema.render(PAUSE), binds).execute(conn)
        })
    }

    fn resume(&mut self, schema: &Schema, scope: &str, name: &str) -> QueryResult<usize> {
        write(self, |conn, _| {
            Sql(schema.render(RESUME), (bind::<Text, _>(scope), bind::<Text, _>(name))).execute(conn)
        })
    }

    fn pauses(&mut self, schema: &Schema) -> QueryResult<Vec<PauseRow>> {
        Sql(schema.render(PAUSES), ()).load(self)
    }
}
