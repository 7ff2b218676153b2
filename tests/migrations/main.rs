//! The queue's own migrations, on both backends.

#![cfg(any(feature = "sqlite", feature = "postgres"))]
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod by_hand;
mod host;
mod life;
#[cfg(feature = "postgres")]
mod other_queues;
#[cfg(feature = "postgres")]
mod rights;
#[cfg(feature = "postgres")]
mod roles;
#[cfg(feature = "postgres")]
mod settings;
#[cfg(feature = "postgres")]
mod sql_enqueue;
#[cfg(feature = "sqlite")]
mod sqlite_locks;

use leasehold_tests::TestDb;

/// The versions, oldest first.
const ALL: [&str; 7] = ["0001", "0002", "0003", "0004", "0005", "0006", "0007"];

/// The versions in the order in which they are reverted.
fn newest_first() -> Vec<&'static str> {
    ALL.into_iter().rev().collect()
}

/// What the database says of everything whose name begins with `leasehold`: two catalogs are equal when the tables are.
fn catalog<Db: TestDb>(db: &mut Db) -> Vec<String> {
    let query = match Db::BACKEND {
        "sqlite" => {
            "SELECT type || ' ' || name || ' ' || coalesce(sql, '') FROM sqlite_schema WHERE name LIKE 'leasehold%' ORDER BY 1"
        }
        _ => POSTGRES_CATALOG,
    };
    db.texts(query).into_iter().flatten().collect()
}

const POSTGRES_CATALOG: &str = "\
    WITH ours AS (SELECT oid FROM pg_namespace WHERE nspname = 'leasehold')
    SELECT concat_ws(' ', 'column', c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
            a.attidentity, pg_get_expr(d.adbin, d.adrelid), c.reloptions)
        FROM ours JOIN pg_class AS c ON c.relnamespace = ours.oid AND c.relkind = 'r'
            JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0
            LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
    UNION ALL SELECT concat_ws(' ', 'constraint', conrelid::regclass, conname, pg_get_constraintdef(c.oid))
        FROM ours JOIN pg_constraint AS c ON connamespace = ours.oid
    UNION ALL SELECT concat_ws(' ', 'index', indexdef) FROM pg_indexes WHERE schemaname = 'leasehold'
    UNION ALL SELECT concat_ws(' ', 'function', pg_get_functiondef(p.oid)) FROM ours JOIN pg_proc AS p ON pronamespace = ours.oid
    UNION ALL SELECT concat_ws(' ', 'schema', nspname) FROM pg_namespace WHERE nspname = 'leasehold'
    ORDER BY 1";
