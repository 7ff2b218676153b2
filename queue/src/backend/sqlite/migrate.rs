//! The migrations and the ledger, on SQLite.

use std::time::Duration;

use diesel::connection::{AnsiTransactionManager, TransactionManager};
use diesel::result::QueryResult;
use diesel::sql_types::{Bool, Integer, Text};
use diesel::{QueryableByName, RunQueryDsl, SqliteConnection};

use super::begin_immediate;
use super::connect::{use_wal, with_busy_timeout};
use crate::commit::depth;
use crate::migrate::{Migrate, Script};
use crate::schema::Schema;
use crate::sql::{Sql, bind};

/// How long to wait for other connections at the least. A connection's own setting is zero unless its owner set it.
const BUSY_TIMEOUT_MS: i64 = 30_000;

/// A name is looked for in the file itself, not among temporary or attached tables.
const HAS_LEDGER: &str = "SELECT EXISTS (SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = $1) AS there";

const APPLIED: &str = "SELECT version FROM leasehold_migrations ORDER BY version";

const MINIMUM_PROGRAM: &str = "SELECT minimum_program FROM leasehold_compatibility";

#[derive(QueryableByName)]
struct There {
    #[diesel(sql_type = Bool)]
    there: bool,
}

#[derive(QueryableByName)]
struct Version {
    #[diesel(sql_type = Text)]
    version: String,
}

#[derive(QueryableByName)]
struct Minimum {
    #[diesel(sql_type = Integer)]
    minimum_program: i32,
}

impl Migrate for SqliteConnection {
    const MIGRATIONS: &'static [Script] = &[
        Script {
            name: "0001_jobs",
            up: include_str!("../../../migrations/sqlite/0001_jobs/up.sql"),
            down: include_str!("../../../migrations/sqlite/0001_jobs/down.sql"),
        },
        Script {
            name: "0002_schedules",
            up: include_str!("../../../migrations/sqlite/0002_schedules/up.sql"),
            down: include_str!("../../../migrations/sqlite/0002_schedules/down.sql"),
        },
        Script {
            name: "0003_limits",
            up: include_str!("../../../migrations/sqlite/0003_limits/up.sql"),
            down: include_str!("../../../migrations/sqlite/0003_limits/down.sql"),
        },
        Script {
            name: "0004_batches",
            up: include_str!("../../../migrations/sqlite/0004_batches/up.sql"),
            down: include_str!("../../../migrations/sqlite/0004_batches/down.sql"),
        },
        Script {
            name: "0005_steps",
            up: include_str!("../../../migrations/sqlite/0005_steps/up.sql"),
            down: include_str!("../../../migrations/sqlite/0005_steps/down.sql"),
        },
        Script {
            name: "0006_outbox",
            up: include_str!("../../../migrations/sqlite/0006_outbox/up.sql"),
            down: include_str!("../../../migrations/sqlite/0006_outbox/down.sql"),
        },
        Script {
            name: "0007_actions",
            up: include_str!("../../../migrations/sqlite/0007_actions/up.sql"),
            down: include_str!("../../../migrations/sqlite/0007_actions/down.sql"),
        },
    ];

    const LEDGER: &'static str = "leasehold_migrations";

    fn create_ledger(schema: &Schema) -> String {
        // Not `unixepoch('subsec')`: the text may be run by an older SQLite than ours.
        let text = "CREATE TABLE leasehold_migrations (
    version TEXT NOT NULL PRIMARY KEY,
    run_on  INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
) STRICT;
";
        schema.render_once(text).into_owned()
    }

    fn drop_ledger(schema: &Schema) -> String {
        schema.render_once("DROP TABLE leasehold_migrations;\n").into_owned()
    }

    fn patiently<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> QueryResult<T> {
        with_busy_timeout(self, |timeout| timeout.max(BUSY_TIMEOUT_MS), work)
    }

    fn has_ledger(&mut self, schema: &Schema) -> QueryResult<bool> {
        let name = schema.render_once(Self::LEDGER);
        let row: There = Sql(HAS_LEDGER, (bind::<Text, _>(name.as_ref()),)).get_result(self)?;
        Ok(row.there)
    }

    fn applied(&mut self, schema: &Schema) -> QueryResult<Vec<String>> {
        let rows: Vec<Version> = Sql(schema.render(APPLIED), ()).load(self)?;
        Ok(rows.into_iter().map(|row| row.version).collect())
    }

    fn minimum_program(&mut self, schema: &Schema) -> QueryResult<i32> {
        let row: Minimum = Sql(schema.render(MINIMUM_PROGRAM), ()).get_result(self)?;
        Ok(row.minimum_program)
    }

    fn begin_migrating(&mut self, _: &Schema) -> QueryResult<()> {
        match depth(self)? {
            0 => {
                // A worker's start does it otherwise, but a program that only enqueues would pay for five fsyncs a job
                // instead of one until then. Who has the file open at this moment can prevent it.
                let _ = use_wal(self, Duration::ZERO);
                // The write lock first: a transaction that reads before it writes is refused when another one wrote since.
                begin_immediate(self)
            }
            _ => AnsiTransactionManager::begin_transaction(self),
        }
    }
}
