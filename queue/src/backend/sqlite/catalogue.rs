//! What the tables look like, for a comparison with what the migrations make.

use diesel::result::{Error, QueryResult};
use diesel::sql_types::Text;
use diesel::{Connection, RunQueryDsl, SqliteConnection};

use crate::backend::{CatalogueRow, CatalogueStatements};
use crate::migrate::Migrations;
use crate::schema::Schema;
use crate::sql::{Sql, bind};

// A table's text is kept as it was written, checks included.
const CATALOGUE: &str = "
    SELECT type AS what, name, sql AS definition FROM main.sqlite_schema
    WHERE type = 'table' AND substr(name, 1, length($1)) = $1
    UNION ALL
    SELECT type, tbl_name || '.' || name, sql FROM main.sqlite_schema
    WHERE type IN ('index', 'trigger') AND sql IS NOT NULL AND substr(tbl_name, 1, length($1)) = $1
    UNION ALL
    SELECT 'column', t.name || '.' || c.name,
        c.type || ' ' || c.\"notnull\" || ' ' || c.pk || ' ' || c.hidden || ' ' || coalesce(c.dflt_value, '')
    FROM main.sqlite_schema AS t, pragma_table_xinfo(t.name, 'main') AS c
    WHERE t.type = 'table' AND substr(t.name, 1, length($1)) = $1
    ORDER BY 1, 2
";

impl CatalogueStatements for SqliteConnection {
    fn catalogue(&mut self, schema: &Schema) -> QueryResult<Vec<CatalogueRow>> {
        let prefix = format!("{}_", schema.name());
        let mut rows: Vec<CatalogueRow> = Sql(CATALOGUE, (bind::<Text, _>(prefix),)).load(self)?;
        for row in &mut rows {
            row.definition = row.definition.split_whitespace().collect::<Vec<_>>().join(" ");
        }
        Ok(rows)
    }

    fn made_by_migrations(schema: &Schema) -> QueryResult<Vec<CatalogueRow>> {
        let failed = |error: &dyn std::fmt::Display| Error::QueryBuilderError(error.to_string().into());
        let mut conn = Self::establish(":memory:").map_err(|error| failed(&error))?;
        for migration in Migrations::in_schema(schema).sql::<Self>() {
            diesel::connection::SimpleConnection::batch_execute(&mut conn, &migration.up)?;
        }
        conn.catalogue(schema)
    }
}
