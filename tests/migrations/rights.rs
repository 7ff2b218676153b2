//! What migrating needs and what it waits for, on PostgreSQL.

use diesel::connection::SimpleConnection;
use leasehold::migrate::Migrations;
use leasehold::{Schema, migrate};
use leasehold_tests::TestDb;
use leasehold_tests::postgres::{Database, database};

use crate::{ALL, catalog};

/// A role that may log in and nothing else; roles belong to the whole server, so its name is the test's own.
fn plain_role(db: &mut Database, name: &str) {
    db.sql(&format!("CREATE ROLE {name}"));
}

fn drop_role(db: &mut Database, name: &str) {
    db.sql(&format!("DROP OWNED BY {name} CASCADE; DROP ROLE {name}"));
}

#[test]
fn a_role_that_may_only_read_the_ledger_suffices_when_nothing_is_pending() {
    let mut db = database();
    migrate(&mut db.connect()).unwrap();
    let role = format!("reader_{}", std::process::id());
    plain_role(&mut db, &role);
    db.sql(&format!(
        "GRANT USAGE ON SCHEMA leasehold TO {role}; GRANT SELECT ON leasehold.migrations, leasehold.compatibility TO {role}"
    ));
    let mut conn = db.connect();
    conn.batch_execute(&format!("SET ROLE {role}; SET default_transaction_read_only = on"))
        .unwrap();
    assert!(migrate(&mut conn).unwrap().is_empty());
    Migrations::new().check(&mut conn).unwrap();
    // That the role is as plain as it says.
    assert!(conn.batch_execute("CREATE SCHEMA IF NOT EXISTS leasehold").is_err());
    assert!(
        Migrations::in_schema(&Schema::named("other").unwrap())
            .up(&mut conn)
            .is_err()
    );
    drop(conn);
    drop_role(&mut db, &role);
}

#[test]
fn an_owner_of_the_schema_needs_no_right_to_create_schemas() {
    let mut db = database();
    let role = format!("owner_{}", std::process::id());
    plain_role(&mut db, &role);
    db.sql(&format!("CREATE SCHEMA leasehold AUTHORIZATION {role}"));
    let mut conn = db.connect();
    conn.batch_execute(&format!("SET ROLE {role}")).unwrap();
    assert!(conn.batch_execute("CREATE SCHEMA IF NOT EXISTS leasehold").is_err());
    assert_eq!(migrate(&mut conn).unwrap(), ALL);
    drop(conn);
    drop_role(&mut db, &role);
}

#[test]
fn nothing_is_locked_and_nothing_waited_for_when_nothing_is_pending() {
    let db = database();
    let (mut holder, mut conn) = (db.connect(), db.connect());
    migrate(&mut conn).unwrap();
    let other = Migrations::in_schema(&Schema::named("other").unwrap());
    conn.batch_execute("SET lock_timeout = '300ms'").unwrap();
    // The documented keys, and the strongest lock beside which others may read.
    holder
        .batch_execute(
            "BEGIN; LOCK TABLE leasehold.migrations, leasehold.compatibility IN EXCLUSIVE MODE;
             SELECT pg_advisory_xact_lock(1281712499, hashtext('leasehold')), pg_advisory_xact_lock(1281712499, hashtext('other'))",
        )
        .unwrap();
    assert!(migrate(&mut conn).unwrap().is_empty());
    // That the lock is the one that a pending migration waits for.
    let waited = other.up(&mut conn).unwrap_err();
    assert!(waited.to_string().contains("lock timeout"), "{waited}");
    holder.batch_execute("ROLLBACK").unwrap();
    assert_eq!(other.up(&mut conn).unwrap(), ALL);
}

#[test]
fn two_schemas_do_not_wait_for_each_other() {
    let db = database();
    let (mut holder, mut conn) = (db.connect(), db.connect());
    holder
        .batch_execute("BEGIN; SELECT pg_advisory_xact_lock(1281712499, hashtext('other'))")
        .unwrap();
    conn.batch_execute("SET lock_timeout = '300ms'").unwrap();
    assert_eq!(migrate(&mut conn).unwrap(), ALL);
}

#[test]
fn a_schema_that_holds_something_else_stays() {
    let mut db = database();
    let mut conn = db.connect();
    migrate(&mut conn).unwrap();
    db.sql("CREATE TABLE leasehold.of_the_host (id integer)");
    Migrations::new().down_all(&mut conn).unwrap();
    assert_eq!(
        catalog(&mut db)
            .iter()
            .filter(|line| line.starts_with("schema"))
            .count(),
        1
    );
    assert_eq!(db.integer("SELECT count(*) FROM leasehold.of_the_host"), 0);
    assert_eq!(migrate(&mut conn).unwrap(), ALL);
}
