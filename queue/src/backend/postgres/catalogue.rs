//! What the tables look like, for a comparison with what the migrations make.

use diesel::result::QueryResult;
use diesel::sql_types::Text;
use diesel::{PgConnection, RunQueryDsl};

use crate::backend::{CatalogueRow, CatalogueStatements};
use crate::schema::Schema;
use crate::sql::{Sql, bind};

/// What [`CATALOGUE`] gives of tables that the migrations have just made: what, name and definition, with tabs between.
/// The test that compares the two says how to write it anew.
const MADE: &str = include_str!("catalogue.tsv");

// Of a function the text alone, which the server keeps as it was written; the rest of it in words that no version changes.
// From version 18 on a column's NOT NULL is a constraint, too, so those are left out.
const CATALOGUE: &str = r#"
    WITH ours AS MATERIALIZED (
        SELECT c.oid, c.relname::pg_catalog.text, c.relkind::pg_catalog.text, c.relpersistence::pg_catalog.text FROM pg_catalog.pg_class AS c
        WHERE c.relnamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = $1) AND c.relkind IN ('r', 'p', 'f', 'v', 'm')
    ),
    rows (what, name, definition) AS (
        SELECT 'table', o.relname, o.relkind || ' ' || o.relpersistence FROM ours AS o
        UNION ALL
        SELECT 'column', o.relname || '.' || a.attname,
            pg_catalog.format_type(a.atttypid, a.atttypmod) || CASE WHEN a.attnotnull THEN ' not null' ELSE '' END
            || CASE a.attidentity WHEN '' THEN '' ELSE ' identity ' || a.attidentity::pg_catalog.text END
            || coalesce(' default ' || pg_catalog.pg_get_expr(d.adbin, d.adrelid), '')
            || coalesce((SELECT ' collate ' || l.collname FROM pg_catalog.pg_collation AS l WHERE l.oid = a.attcollation AND l.collname <> 'default'), '')
        FROM ours AS o JOIN pg_catalog.pg_attribute AS a ON a.attrelid = o.oid AND a.attnum > 0 AND NOT a.attisdropped
        LEFT JOIN pg_catalog.pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        UNION ALL
        SELECT 'constraint', o.relname || '.' || k.conname, pg_catalog.pg_get_constraintdef(k.oid)
        FROM ours AS o JOIN pg_catalog.pg_constraint AS k ON k.conrelid = o.oid AND k.contype <> 'n'
        UNION ALL
        SELECT 'index', o.relname || '.' || x.relname, pg_catalog.pg_get_indexdef(i.indexrelid)
        FROM ours AS o JOIN pg_catalog.pg_index AS i ON i.indrelid = o.oid JOIN pg_catalog.pg_class AS x ON x.oid = i.indexrelid
        WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_constraint AS k WHERE k.conindid = i.indexrelid AND k.contype IN ('p', 'u', 'x'))
        UNION ALL
        SELECT 'trigger', o.relname || '.' || t.tgname, pg_catalog.pg_get_triggerdef(t.oid)
        FROM ours AS o JOIN pg_catalog.pg_trigger AS t ON t.tgrelid = o.oid AND NOT t.tgisinternal
        UNION ALL
        SELECT 'function', p.proname::pg_catalog.text,
            pg_catalog.pg_get_function_identity_arguments(p.oid) || CASE WHEN p.prosecdef THEN ' definer ' ELSE ' invoker ' END
            || coalesce(pg_catalog.array_to_string(p.proconfig, ' '), '') || ' ' || p.prosrc
        FROM pg_catalog.pg_proc AS p WHERE p.pronamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = $1)
    )
    SELECT r.what, r.name,
        pg_catalog.btrim(pg_catalog.regexp_replace(
            CASE r.what WHEN 'function' THEN r.definition ELSE pg_catalog.replace(r.definition, pg_catalog.quote_ident($1) || '.', 'leasehold.') END,
            '\s+', ' ', 'g'
        )) AS definition
    FROM rows AS r ORDER BY r.what COLLATE pg_catalog."C", r.name COLLATE pg_catalog."C"
"#;

impl CatalogueStatements for PgConnection {
    fn catalogue(&mut self, schema: &Schema) -> QueryResult<Vec<CatalogueRow>> {
        Sql(CATALOGUE, (bind::<Text, _>(schema.name()),)).load(self)
    }

    fn made_by_migrations(schema: &Schema) -> QueryResult<Vec<CatalogueRow>> {
        let rows = MADE.lines().filter_map(|line| {
            let (what, rest) = line.split_once('\t')?;
            let (name, definition) = rest.split_once('\t')?;
            // The server keeps it as the migration wrote it.
            let definition = match what {
                "function" => schema.render_once(definition).into_owned(),
                _ => definition.to_owned(),
            };
            Some(CatalogueRow {
                what: what.to_owned(),
                name: name.to_owned(),
                definition,
            })
        });
        Ok(rows.collect())
    }
}
