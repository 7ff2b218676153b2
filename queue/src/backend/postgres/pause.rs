use diesel::result::QueryResult;
use diesel::sql_types::Text;
use diesel::{PgConnection, RunQueryDsl};

use crate::backend::{PauseRow, PauseStatements};
use crate::schema::Schema;
use crate::sql::{Sql, bind};

const PAUSE: &str = "
    INSERT INTO leasehold.pauses (scope, name, by, reason) VALUES ($1, $2, $3, $4)
    ON CONFLICT (scope, name) DO UPDATE SET at = excluded.at, by = excluded.by, reason = excluded.reason
";

// Listeners are told by the same statement, and hear of it when it is committed.
const RESUME: &str = concat!(
    "WITH resumed AS (DELETE FROM leasehold.pauses WHERE scope = $1 AND name = $2 RETURNING name)
    SELECT ",
    tell!("leasehold"),
    " FROM resumed"
);

const PAUSES: &str = "
    SELECT scope, name, pg_catalog.floor(extract(epoch FROM at) * 1000)::bigint AS at_ms, by, reason
    FROM leasehold.pauses ORDER BY scope, name
";

impl PauseStatements for PgConnection {
    fn pause(&mut self, schema: &Schema, scope: &str, name: &str, by: &str, reason: &str) -> QueryResult<usize> {
        let binds = (
            bind::<Text, _>(scope),
            bind::<Text, _>(name),
            bind::<Text, _>(by),
            bind::<Text, _>(reason),
        );
        Sql(schema.render(PAUSE), binds).execute(self)
    }

    fn resume(&mut self, schema: &Schema, scope: &str, name: &str) -> QueryResult<usize> {
        Sql(schema.render(RESUME), (bind::<Text, _>(scope), bind::<Text, _>(name))).execute(self)
    }

    fn pauses(&mut self, schema: &Schema) -> QueryResult<Vec<PauseRow>> {
        Sql(schema.render(PAUSES), ()).load(self)
    }
}
