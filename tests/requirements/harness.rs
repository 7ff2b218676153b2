//! What can be said of the tests themselves.

use std::path::Path;
use std::process::Command;

use leasehold_tests::{TestDb, conformance, eventually};

use crate::jobs::SOON;

conformance! {
    fn s0_31_a_run_names_engine_isolation_autocommit_and_session_order_and_measures_nothing(db: &mut Db) {
        let test = format!("fences::s0_16_a_write_that_changes_no_row_is_no_error::{}", Db::BACKEND);
        let run = Command::new(std::env::current_exe().unwrap()).args(["--exact", &test]).output().unwrap();
        let printed = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success() && printed.contains("1 passed"), "{printed}");
        let report = String::from_utf8(run.stderr).unwrap();
        let version = match Db::BACKEND {
            "sqlite" => db.texts("SELECT sqlite_version()"),
            _ => db.texts("SELECT split_part(version(), ' ', 2)"),
        };
        let version = version[0].as_deref().unwrap();
        for said in [version, "isolation ", "autocommit", "in the order in which the test opens them", "no measurement"] {
            assert!(report.contains(said), "{said}: {report}");
        }
    }
}

conformance! {
    fn s0_32_a_test_makes_a_database_of_its_own_and_drops_that_one_only(db: &mut Db) {
        db.sql("CREATE TABLE bystander (n integer); INSERT INTO bystander VALUES (1)");
        let mut other = Db::new();
        assert_ne!(other.url(), db.url());
        let name = match Db::BACKEND {
            "sqlite" => other.url(),
            _ => other.text("SELECT current_database()").unwrap(),
        };
        let mut exists = || match Db::BACKEND {
            "sqlite" => Path::new(&name).exists(),
            _ => db.integer(&format!("SELECT count(*) FROM pg_database WHERE datname = '{name}'")) == 1,
        };
        assert!(exists());
        drop(other);
        // Behind the databases of all other tests that have ended, and a checkpoint for each.
        eventually(SOON * 10, "the database is dropped", || !exists());
        assert_eq!(db.integer("SELECT n FROM bystander"), 1);
    }
}
