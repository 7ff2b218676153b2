//! The migrations and the ledger, on PostgreSQL.

use diesel::connection::{AnsiTransactionManager, TransactionManager};
use diesel::result::QueryResult;
use diesel::sql_types::{Bool, Integer, Text};
use diesel::{PgConnection, QueryableByName, RunQueryDsl};

use crate::commit::depth;
use crate::migrate::{Migrate, Script};
use crate::schema::Schema;
use crate::sql::{Sql, bind};

/// The first key of the advisory lock; the second one is the hash of the schema's name. The bytes `Leas`.
const LOCK: i32 = 0x4c65_6173;

/// Held to the transaction's end, so it works through a pooler and cannot outlive its process.
const TAKE_LOCK: &str = "SELECT pg_catalog.pg_advisory_xact_lock($1, pg_catalog.hashtext($2))";

/// Not `to_regclass`: it answers from the session's cache, which a wait for an advisory lock does not refresh, so the
/// second of two processes would not see the first one's table.
const HAS_LEDGER: &str = "SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_class AS c \
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace \
    WHERE n.nspname = $1 AND c.relname = 'migrations') AS there";

const APPLIED: &str = "SELECT version FROM leasehold.migrations ORDER BY version";

const MINIMUM_PROGRAM: &str = "SELECT minimum_program FROM leasehold.compatibility";

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

impl Migrate for PgConnection {
    const MIGRATIONS: &'static [Script] = &[
        Script {
            name: "0001_jobs",
            up: include_str!("../../../migrations/postgres/0001_jobs/up.sql"),
            down: include_str!("../../../migrations/postgres/0001_jobs/down.sql"),
        },
        Script {
            name: "0002_schedules",
            up: include_str!("../../../migrations/postgres/0002_schedules/up.sql"),
            down: include_str!("../../../migrations/postgres/0002_schedules/down.sql"),
        },
        Script {
            name: "0003_limits",
            up: include_str!("../../../migrations/postgres/0003_limits/up.sql"),
            down: include_str!("../../../migrations/postgres/0003_limits/down.sql"),
        },
        Script {
            name: "0004_batches",
            up: include_str!("../../../migrations/postgres/0004_batches/up.sql"),
            down: include_str!("../../../migrations/postgres/0004_batches/down.sql"),
        },
        Script {
            name: "0005_steps",
            up: include_str!("../../../migrations/postgres/0005_steps/up.sql"),
            down: include_str!("../../../migrations/postgres/0005_steps/down.sql"),
        },
        Script {
            name: "0006_outbox",
            up: include_str!("../../../migrations/postgres/0006_outbox/up.sql"),
            down: include_str!("../../../migrations/postgres/0006_outbox/down.sql"),
        },
        Script {
            name: "0007_actions",
            up: include_str!("../../../migrations/postgres/0007_actions/up.sql"),
            down: include_str!("../../../migrations/postgres/0007_actions/down.sql"),
        },
    ];

    const LEDGER: &'static str = "leasehold.migrations";

    fn create_ledger(schema: &Schema) -> String {
        let name = schema.name();
        format!(
            "-- Asked first: IF NOT EXISTS wants the right to create schemas even when there is nothing to create.
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = '{name}') THEN
        CREATE SCHEMA \"{name}\";
    END IF;
END $$;
CREATE TABLE \"{name}\".migrations (
    version text PRIMARY KEY,
    run_on  timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
);
"
        )
    }

    fn drop_ledger(schema: &Schema) -> String {
        let name = schema.name();
        format!(
            "DROP TABLE \"{name}\".migrations;
DO $$ BEGIN
    DROP SCHEMA \"{name}\";
EXCEPTION WHEN dependent_objects_still_exist OR insufficient_privilege THEN
    NULL;
END $$;
"
        )
    }

    fn patiently<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> QueryResult<T> {
        // The server waits for locks by itself.
        Ok(work(self))
    }

    fn has_ledger(&mut self, schema: &Schema) -> QueryResult<bool> {
        let row: There = Sql(HAS_LEDGER, (bind::<Text, _>(schema.name()),)).get_result(self)?;
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

    fn begin_migrating(&mut self, schema: &Schema) -> QueryResult<()> {
        match depth(self)? {
            // At a stricter level, which may be the session's default, what another process committed while we waited
            // for the lock would stay invisible.
            0 => AnsiTransactionManager::begin_transaction_sql(self, "BEGIN ISOLATION LEVEL READ COMMITTED")?,
            _ => AnsiTransactionManager::begin_transaction(self)?,
        }
        Sql(TAKE_LOCK, (bind::<Integer, _>(LOCK), bind::<Text, _>(schema.name()))).execute(self)?;
        Ok(())
    }
}
