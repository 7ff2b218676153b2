//! What can be said of the tests themselves.

use std::process::Command;

use leasehold::__private::*;
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
        let other = Db::new();
        let url = other.url();
        assert_ne!(url, db.url());
        let connects = || Connection::connect(&url, &ConnectionSettings::default()).is_ok();
        assert!(connects());
        drop(other);
        eventually(SOON, "the database is dropped", || !connects());
        assert_eq!(db.integer("SELECT n FROM bystander"), 1);
    }
}
