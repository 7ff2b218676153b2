//! Up, down, at once, side by side, newer than the program.

use std::sync::{Arc, Barrier};

use diesel::Connection as _;
use diesel::connection::SimpleConnection;
use leasehold::migrate::{MigrateError, Migrations, PROGRAM};
use leasehold::{Schema, migrate};
use leasehold_tests::{TestDb, conformance};

use crate::{ALL, catalog, newest_first};

conformance! {
    fn up_and_down_and_up_again_gives_the_same_tables(db: &mut Db) {
        let (mut conn, migrations) = (db.connect(), Migrations::new());
        let before = migrations.status(&mut conn).unwrap();
        assert_eq!((before.applied.len(), before.pending, before.minimum_program), (0, ALL.map(str::to_owned).into(), None));

        assert_eq!(migrate(&mut conn).unwrap(), ALL);
        assert!(migrate(&mut conn).unwrap().is_empty());
        let after = migrations.status(&mut conn).unwrap();
        assert_eq!((after.applied, after.pending.len(), after.minimum_program), (ALL.map(str::to_owned).into(), 0, Some(1)));
        let tables = catalog(db);
        assert!(tables.len() > 6, "{tables:?}");

        for version in newest_first() {
            assert_eq!(migrations.down(&mut conn).unwrap().as_deref(), Some(version));
        }
        assert_eq!(catalog(db), Vec::<String>::new());
        assert_eq!(migrations.down(&mut conn).unwrap(), None);

        assert_eq!(migrate(&mut conn).unwrap(), ALL);
        assert_eq!(catalog(db), tables);
        assert_eq!(migrations.down_all(&mut conn).unwrap(), newest_first());
        assert_eq!(catalog(db), Vec::<String>::new());
        assert!(migrations.down_all(&mut conn).unwrap().is_empty());
    }
}

conformance! {
    fn of_24_that_start_at_once_one_migrates_and_none_fails(db: &mut Db) {
        // The strictest default: what another one committed while we waited must be seen all the same.
        if Db::BACKEND == "postgres" {
            db.sql("DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = serializable',
                    current_database()); END $$");
        }
        for round in 0..4 {
            if Db::BACKEND == "sqlite" && round == 2 {
                db.sql("PRAGMA journal_mode = WAL");
            }
            let start = Arc::new(Barrier::new(24));
            let starters: Vec<_> = (0..24).map(|_| {
                let (url, start) = (db.url(), Arc::clone(&start));
                std::thread::spawn(move || {
                    // As a program opens it: without patience for another one's lock.
                    let mut conn = Connection::establish(&url).unwrap();
                    start.wait();
                    migrate(&mut conn).map(|applied| applied.len())
                })
            }).collect();
            let applied: Vec<_> = starters.into_iter().map(|starter| starter.join().unwrap()).collect();
            assert!(applied.iter().all(Result::is_ok), "round {round}: {applied:?}");
            assert_eq!(applied.into_iter().flatten().sum::<usize>(), ALL.len());
            Migrations::new().down_all(&mut db.connect()).unwrap();
        }
    }
}

conformance! {
    fn a_migration_is_part_of_the_callers_transaction(db: &mut Db) {
        let mut conn = db.connect();
        conn.begin_test_transaction().unwrap();
        migrate(&mut conn).unwrap();
        conn.batch_execute("SELECT 1").unwrap();
        assert!(migrate(&mut conn).unwrap().is_empty());
        drop(conn);
        assert_eq!(catalog(db), Vec::<String>::new());
    }
}

conformance! {
    fn a_migration_that_fails_leaves_nothing_and_the_callers_transaction_goes_on(db: &mut Db) {
        if Db::BACKEND == "postgres" {
            db.sql("CREATE SCHEMA leasehold");
        }
        db.sql("CREATE TABLE leasehold.workers (in_the_way integer)");
        let (mut conn, before) = (db.connect(), catalog(db));
        let failed = migrate(&mut conn).unwrap_err();
        assert!(matches!(&failed, MigrateError::Failed { name, .. } if name == "0001_jobs"), "{failed:?}");
        assert!(failed.to_string().contains("already exists"), "{failed}");
        assert_eq!(catalog(db), before);

        conn.transaction(|conn| {
            assert!(migrate(conn).is_err());
            conn.batch_execute("CREATE TABLE of_the_host (id integer)")
        }).unwrap();
        db.sql("SELECT * FROM of_the_host");
        assert_eq!(catalog(db), before);
    }
}

conformance! {
    fn two_schemas_live_side_by_side(db: &mut Db) {
        // A word that SQL keeps for itself.
        let (mut conn, other) = (db.connect(), Migrations::in_schema(&Schema::named("order").unwrap()));
        assert_eq!(migrate(&mut conn).unwrap(), ALL);
        let tables = catalog(db);
        assert_eq!(other.up(&mut conn).unwrap(), ALL);
        assert!(other.up(&mut conn).unwrap().is_empty());
        assert_eq!(other.down_all(&mut conn).unwrap(), newest_first());
        assert_eq!(other.status(&mut conn).unwrap().pending, ALL);
        assert_eq!(catalog(db), tables);
        assert!(migrate(&mut conn).unwrap().is_empty());
    }
}

conformance! {
    fn a_newer_schema_is_used_until_it_states_a_minimum_above_the_program(db: &mut Db) {
        let (mut conn, migrations) = (db.connect(), Migrations::new());
        migrate(&mut conn).unwrap();
        db.sql("INSERT INTO leasehold.migrations (version) VALUES ('9999')");
        assert!(migrate(&mut conn).unwrap().is_empty());
        migrations.check(&mut conn).unwrap();
        assert_eq!(migrations.status(&mut conn).unwrap().applied.last().map(String::as_str), Some("9999"));

        // How to revert it, this program cannot know.
        for reverted in [migrations.down(&mut conn).map(|_| ()), migrations.down_all(&mut conn).map(|_| ())] {
            let unknown = reverted.unwrap_err();
            assert!(matches!(&unknown, MigrateError::Unknown { version, .. } if version == "9999"), "{unknown:?}");
        }

        db.sql(&format!("UPDATE leasehold.compatibility SET minimum_program = {PROGRAM} + 1"));
        for refused in [migrate(&mut conn).map(|_| ()), migrations.check(&mut conn)] {
            let refused = refused.unwrap_err();
            assert!(matches!(refused, MigrateError::ProgramTooOld { minimum, .. } if minimum == PROGRAM + 1), "{refused:?}");
            assert!(refused.to_string().ends_with("update the program"), "{refused}");
        }
    }
}

conformance! {
    fn an_older_program_leaves_a_newer_schema_as_it_is(db: &mut Db) {
        use leasehold::{Job as _, Worker};
        use leasehold_tests::jobs::Note;

        migrate(&mut db.connect()).unwrap();
        // As a newer program's migration does, which has not stated a minimum.
        db.sql("INSERT INTO leasehold.migrations (version) VALUES ('9999');
            ALTER TABLE leasehold.jobs ADD COLUMN of_the_newer integer;
            CREATE INDEX leasehold_of_the_newer ON leasehold.jobs (of_the_newer);
            CREATE TABLE effects (n bigint NOT NULL)");
        if Db::BACKEND == "postgres" {
            db.sql("CREATE OR REPLACE FUNCTION leasehold.enqueue(kind text, payload json, options jsonb DEFAULT '{}') RETURNS bigint
                LANGUAGE sql AS 'SELECT 1::bigint'");
        }
        let newer = catalog(db);
        let mut conn = db.connect();
        assert!(migrate(&mut conn).unwrap().is_empty());
        Migrations::new().check(&mut conn).unwrap();
        Note { n: 1 }.enqueue(&mut conn).unwrap();
        let worker = Worker::<Connection, _>::new(db.url(), ()).register::<Note>();
        assert_eq!(worker.run_until_empty().unwrap().counts.completed, 1);
        assert!(Migrations::new().down_all(&mut conn).is_err());
        assert_eq!(catalog(db), newer);
    }
}

conformance! {
    fn a_check_says_that_migrate_must_run(db: &mut Db) {
        let (mut conn, migrations) = (db.connect(), Migrations::new());
        let missing = migrations.check(&mut conn).unwrap_err();
        assert!(matches!(missing, MigrateError::Missing { .. }), "{missing:?}");
        let text = "the tables of `leasehold` are not there: run `leasehold::migrate`, or `leasehold migrate up`";
        assert_eq!(missing.to_string(), text);

        migrate(&mut conn).unwrap();
        migrations.check(&mut conn).unwrap();
        // A newer program's migration without one of ours: a fleet whose branches were merged.
        db.sql("DELETE FROM leasehold.migrations; INSERT INTO leasehold.migrations (version) VALUES ('9999')");
        let pending = migrations.check(&mut conn).unwrap_err();
        assert!(matches!(&pending, MigrateError::Pending { versions, .. } if versions == &ALL), "{pending:?}");
        assert!(pending.to_string().contains("run `leasehold::migrate`"), "{pending}");
    }
}
