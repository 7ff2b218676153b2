//! `migrate`, `roles` and what needs no database.

use leasehold_tests::{TestDb, conformance};
use serde_json::json;

use super::{leasehold, program};

conformance! {
    fn migrations_are_applied_told_and_reverted(db: &mut Db) {
        let status = |db: &Db| leasehold(db, &["migrate", "status", "--json"]).ok().json();
        assert_eq!(status(db)["applied"], json!([]));

        assert!(leasehold(db, &["migrate", "up"]).ok().out.starts_with("applied "));
        assert_eq!(leasehold(db, &["migrate", "up"]).ok().out, "nothing is pending\n");
        let applied = status(db)["applied"].clone();
        assert_eq!(status(db)["pending"], json!([]));

        leasehold(db, &["migrate", "down"]).refused(3, "--yes");
        leasehold(db, &["migrate", "down", "--dry-run"]).ok();
        assert_eq!(status(db)["applied"], applied);
        leasehold(db, &["migrate", "down", "--yes"]).ok();
        assert_eq!(status(db)["pending"].as_array().map(Vec::len), Some(1));
    }
}

conformance! {
    fn the_printed_migrations_are_those_that_are_applied(db: &mut Db) {
        let sql = leasehold(db, &["migrate", "sql"]).ok().out;
        db.sql(&sql);
        assert_eq!(leasehold(db, &["migrate", "status", "--json"]).ok().json()["pending"].as_array().map(Vec::len), Some(0));
    }
}

conformance! {
    fn tables_may_have_another_schema(db: &mut Db) {
        leasehold(db, &["--schema", "other", "migrate", "up"]).ok();
        leasehold(db, &["--schema", "other", "stats"]).ok();
        leasehold(db, &["stats"]).refused(4, "the tables of `leasehold`");
        leasehold(db, &["--schema", "Other!", "stats"]).refused(2, "cannot name a schema");
    }
}

#[cfg(feature = "postgres")]
#[test]
fn roles_are_printed_without_a_database() {
    let sql = program(&["roles", "--prefix", "billing", "--pooled-login", "app"])
        .ok()
        .out;
    assert!(sql.contains("billing_worker") && sql.contains("ALTER ROLE app SET"));
    program(&["roles", "--prefix", "a; drop"]).refused(2, "cannot name a role");
}

#[test]
fn completions_and_the_manual_page_are_printed() {
    assert!(program(&["completions", "bash"]).ok().out.contains("_leasehold()"));
    assert!(program(&["man"]).ok().out.contains(".TH leasehold"));
}
