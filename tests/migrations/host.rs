//! A host program with migrations of its own, under the same version.

use std::fmt;

use diesel::backend::Backend;
use diesel::connection::{BoxableConnection, SimpleConnection};
use diesel::migration::{Migration, MigrationMetadata, MigrationName, MigrationSource, MigrationVersion, Result};
use diesel_migrations::{FileBasedMigrations, MigrationHarness};
use leasehold::migrate;
use leasehold::migrate::Migrations;
use leasehold_tests::{TestDb, conformance};

use crate::{ALL, catalog};

/// The host's migrations: one, `0001`.
#[derive(Clone, Copy)]
struct Host;

impl<DB: Backend> MigrationSource<DB> for Host {
    fn migrations(&self) -> Result<Vec<Box<dyn Migration<DB>>>> {
        Ok(vec![Box::new(*self)])
    }
}

impl<DB: Backend> Migration<DB> for Host {
    fn run(&self, conn: &mut dyn BoxableConnection<DB>) -> Result<()> {
        Ok(conn.batch_execute("CREATE TABLE jobs (id integer)")?)
    }

    fn revert(&self, conn: &mut dyn BoxableConnection<DB>) -> Result<()> {
        Ok(conn.batch_execute("DROP TABLE jobs")?)
    }

    fn metadata(&self) -> &dyn MigrationMetadata {
        self
    }

    fn name(&self) -> &dyn MigrationName {
        self
    }
}

impl MigrationMetadata for Host {}

impl MigrationName for Host {
    fn version(&self) -> MigrationVersion<'_> {
        "0001".into()
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("0001_jobs")
    }
}

conformance! {
    fn a_hosts_own_0001_lives_beside_ours_in_either_order(db: &mut Db) {
        for host_first in [true, false] {
            let mut conn = db.connect();
            let host = |conn: &mut Connection| assert_eq!(conn.run_pending_migrations(Host).unwrap().len(), 1);
            if host_first {
                host(&mut conn);
            }
            assert_eq!(migrate(&mut conn).unwrap(), ALL);
            if !host_first {
                host(&mut conn);
            }
            assert!(migrate(&mut conn).unwrap().is_empty());
            assert!(!conn.has_pending_migration(Host).unwrap());

            // Reverting one leaves the other alone.
            conn.revert_all_migrations(Host).unwrap();
            assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 0);
            assert!(migrate(&mut conn).unwrap().is_empty());
            host(&mut conn);
            Migrations::new().down_all(&mut conn).unwrap();
            assert_eq!(db.integer("SELECT count(*) FROM jobs"), 0);
            assert!(!conn.has_pending_migration(Host).unwrap());
            conn.revert_all_migrations(Host).unwrap();
        }
    }
}

conformance! {
    fn the_host_may_migrate_both_in_one_transaction(db: &mut Db) {
        use diesel::Connection as _;

        let mut conn = db.connect();
        conn.transaction(|conn| {
            conn.run_pending_migrations(Host)?;
            migrate(conn)?;
            conn.batch_execute("INSERT INTO jobs VALUES (1)")?;
            Result::Ok(())
        }).unwrap();
        assert!(migrate(&mut conn).unwrap().is_empty());
        assert_eq!(db.integer("SELECT count(*) FROM jobs"), 1);
    }
}

conformance! {
    fn the_printed_sql_may_be_a_migration_of_the_hosts(db: &mut Db) {
        let printed = Migrations::new().sql::<Connection>();
        let up: Vec<&str> = printed.iter().map(|script| script.up.as_str()).collect();
        let down: Vec<&str> = printed.iter().rev().map(|script| script.down.as_str()).collect();
        let folder = tempfile::tempdir().unwrap();
        let migration = folder.path().join("migrations/2026-12-01-000000_leasehold");
        std::fs::create_dir_all(&migration).unwrap();
        std::fs::write(migration.join("up.sql"), up.join("\n")).unwrap();
        std::fs::write(migration.join("down.sql"), down.join("\n")).unwrap();
        let source = FileBasedMigrations::from_path(folder.path().join("migrations")).unwrap();

        let mut conn = db.connect();
        conn.run_pending_migrations(source.clone()).unwrap();
        assert!(migrate(&mut conn).unwrap().is_empty());
        Migrations::new().check(&mut conn).unwrap();
        let mut migrated = Db::new();
        migrate(&mut migrated.connect()).unwrap();
        assert_eq!(catalog(db), catalog(&mut migrated));

        conn.revert_last_migration(source).unwrap();
        assert_eq!(catalog(db), Vec::<String>::new());
    }
}
