//! What a check finds about tables that are not as the migrations make them.

use leasehold::check::{Difference, Finding, check};
use leasehold::migrate::Migrations;
use leasehold::{Job, Schema};

use crate::check::{found, only};
use crate::support::*;

/// What differs, in order: `changed column jobs.kind`.
#[track_caller]
fn drift<C: Backend>(conn: &mut C, schema: &Schema) -> Vec<String> {
    let findings = check(conn, schema).unwrap();
    let mut drift: Vec<String> = findings
        .iter()
        .filter_map(|finding| match finding {
            Finding::Drift { what, name, difference } => {
                let name = name.replace(&format!("{}_", schema.name()), "");
                Some(format!("{difference:?} {what} {name}").to_lowercase())
            }
            _ => None,
        })
        .collect();
    drift.sort();
    drift
}

conformance!(
    fn tables_that_are_missing_or_behind_are_told_and_not_looked_at(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = Schema::named("nowhere").unwrap();
        let missing = check(&mut conn, &schema).unwrap();
        let finding = Finding::TablesMissing {
            schema: "nowhere".to_owned(),
        };
        assert!(missing.contains(&finding), "{missing:?}");
        let last = Migrations::new().down(&mut conn).unwrap().unwrap();
        let versions = vec![last.clone()];
        assert_eq!(only(&mut conn), Finding::MigrationsPending { versions });
        assert_eq!(Migrations::new().up(&mut conn).unwrap(), [last]);
        assert_eq!(found(&mut conn), []);
    }
);

conformance!(
    fn tables_of_a_newer_program_are_told(db: &mut Db) {
        let mut conn = migrated(db);
        db.sql("INSERT INTO leasehold.migrations (version) VALUES ('9999')");
        let versions = vec!["9999".to_owned()];
        let newer = Finding::MigrationsUnknown { versions };
        assert!(check(&mut conn, &default_schema()).unwrap().contains(&newer));
        // Whatever it has changed is not compared, and the rest is looked at.
        db.sql("ALTER TABLE leasehold.workers ADD COLUMN colour text");
        note("waits").enqueue(&mut conn).unwrap();
        assert_eq!(only(&mut conn).name(), "queue_unserved");
        db.sql("UPDATE leasehold.compatibility SET minimum_program = 1000");
        assert_eq!(only(&mut conn), Finding::ProgramTooOld { minimum: 1000 });
    }
);

conformance!(
    fn what_differs_from_the_migrations_is_named_and_nothing_else(db: &mut Db) {
        for schema in [
            default_schema(),
            Schema::named("k").unwrap(),
            Schema::named("order").unwrap(),
        ] {
            let mut conn = db.connect();
            Migrations::in_schema(&schema).up(&mut conn).unwrap();
            assert_eq!(drift(&mut conn, &schema), <[String; 0]>::default(), "{schema:?}");
        }
        let (mut conn, schema) = (open(db), default_schema());
        // Nobody's business.
        db.sql("CREATE TABLE own (id integer)");
        db.sql("ALTER TABLE leasehold.workers ADD COLUMN colour text; DROP TABLE leasehold.steps");
        db.sql("CREATE INDEX workers_host ON leasehold.workers (host)");
        if Db::BACKEND == "sqlite" {
            db.sql("DROP INDEX leasehold.jobs_batch; CREATE INDEX leasehold.jobs_batch ON leasehold.jobs (batch_id)");
        } else {
            db.sql("DROP INDEX leasehold.jobs_batch; CREATE INDEX jobs_batch ON leasehold.jobs (batch_id)");
        }
        let expected = [
            "added column workers.colour",
            "added index workers.workers_host",
            "changed index jobs.jobs_batch",
            "missing table steps",
        ];
        assert_eq!(drift(&mut conn, &schema), expected);
        let added = Finding::Drift {
            what: "column".to_owned(),
            name: "workers.colour".to_owned(),
            difference: Difference::Added,
        };
        assert_eq!(added.to_string(), "the column workers.colour is of no migration");
    }
);

#[cfg(feature = "sqlite")]
#[test]
fn a_check_that_is_gone_from_a_table_of_sqlite_is_found() {
    let mut db = <leasehold_tests::sqlite::Database as TestDb>::new();
    let mut conn = migrated(&mut db);
    let text = db
        .text("SELECT sql FROM sqlite_schema WHERE name = 'leasehold_workers'")
        .unwrap();
    let other = text.replace("host", "/* none */ host");
    assert_ne!(text, other);
    db.sql(&format!("DROP TABLE leasehold.workers; {other}"));
    assert_eq!(drift(&mut conn, &default_schema()), ["changed table workers"]);
}

#[cfg(feature = "postgres")]
mod postgres {
    use leasehold_tests::postgres::database;

    use super::*;

    #[test]
    fn each_sort_of_drift_is_found() {
        let mut db = database();
        let mut conn = migrated(&mut db);
        db.sql(
            "ALTER TABLE leasehold.jobs DROP CONSTRAINT jobs_check;
             ALTER TABLE leasehold.finished_jobs DROP CONSTRAINT finished_jobs_state_check,
                 ADD CONSTRAINT finished_jobs_state_check CHECK (state <> 'ready');
             ALTER TABLE leasehold.workers SET UNLOGGED;
             ALTER TABLE leasehold.jobs ALTER COLUMN queue DROP NOT NULL, ALTER COLUMN begun DROP DEFAULT;
             ALTER TABLE leasehold.job_errors DROP COLUMN error;
             CREATE FUNCTION leasehold.nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
             CREATE TRIGGER slow BEFORE UPDATE ON leasehold.jobs FOR EACH ROW EXECUTE FUNCTION leasehold.nothing();
             ALTER FUNCTION leasehold.withdraw(bigint[]) SECURITY INVOKER",
        );
        assert_eq!(
            drift(&mut conn, &default_schema()),
            [
                "added trigger jobs.slow",
                "changed column jobs.begun",
                "changed column jobs.queue",
                "changed constraint finished_jobs.finished_jobs_state_check",
                "changed function withdraw",
                "changed table workers",
                "missing column job_errors.error",
                "missing constraint jobs.jobs_check",
            ]
        );
        db.sql("DROP FUNCTION leasehold.withdraw(bigint[])");
        assert!(drift(&mut conn, &default_schema()).contains(&"missing function withdraw".to_owned()));
    }

    /// `LEASEHOLD_WRITE_CATALOGUE=1` writes the file, after a migration was added or changed.
    #[test]
    fn the_catalogue_that_is_compiled_in_is_what_the_migrations_make() {
        let mut db = database();
        let mut conn = migrated(&mut db);
        let rows = conn.catalogue(&default_schema()).unwrap();
        let text: String = rows
            .iter()
            .map(|row| format!("{}\t{}\t{}\n", row.what, row.name, row.definition))
            .collect();
        let file = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../queue/src/backend/postgres/catalogue.tsv"
        );
        if std::env::var_os("LEASEHOLD_WRITE_CATALOGUE").is_some() {
            std::fs::write(file, &text).unwrap();
        }
        let written = std::fs::read_to_string(file).unwrap();
        let differing = text
            .lines()
            .zip(written.lines())
            .find(|(made, written)| made != written);
        assert!(
            text == written,
            "run this test with LEASEHOLD_WRITE_CATALOGUE=1: {differing:?}, {} and {} lines",
            text.lines().count(),
            written.lines().count()
        );
    }
}
