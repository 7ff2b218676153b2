use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::Integer;
use leasehold_tests::postgres::{URL_VARIABLE, cluster, cluster_with};
use leasehold_tests::{TestDb, eventually, postgres};

fn count(url: &str) -> i64 {
    let mut connection = PgConnection::establish(url).unwrap();
    diesel::dsl::sql::<diesel::sql_types::BigInt>("SELECT count(*) FROM kept")
        .get_result(&mut connection)
        .unwrap()
}

#[test]
fn a_cluster_keeps_through_crash_and_restart_what_it_acknowledged() {
    let mut cluster = cluster();
    let mut connection = PgConnection::establish(&cluster.url()).unwrap();
    connection.batch_execute("CREATE TABLE kept AS SELECT 1 AS id").unwrap();
    cluster.crash();
    assert!(connection.batch_execute("SELECT 1").is_err());
    assert!(PgConnection::establish(&cluster.url()).is_err());
    cluster.start_again();
    assert_eq!(count(&cluster.url()), 1);
    cluster.restart();
    assert_eq!(count(&cluster.url()), 1);
}

#[test]
fn a_killed_backend_ends_the_other_sessions_too() {
    let cluster = cluster();
    let mut victim = PgConnection::establish(&cluster.url()).unwrap();
    let mut neighbour = PgConnection::establish(&cluster.url()).unwrap();
    let pid = diesel::dsl::sql::<Integer>("SELECT pg_backend_pid()")
        .get_result(&mut victim)
        .unwrap();
    cluster.kill_backend(pid);
    assert!(victim.batch_execute("SELECT 1").is_err());
    eventually(Duration::from_secs(30), "the neighbour's session ends", || {
        neighbour.batch_execute("SELECT 1").is_err()
    });
    eventually(Duration::from_secs(30), "the server takes connections again", || {
        PgConnection::establish(&cluster.url()).is_ok()
    });
}

#[test]
fn settings_of_a_test_override_the_durable_ones() {
    let cluster = cluster_with(&["synchronous_commit=off"]);
    let mut connection = PgConnection::establish(&cluster.url()).unwrap();
    let setting = |name: &str, connection: &mut PgConnection| {
        diesel::dsl::sql::<diesel::sql_types::Text>(&format!("SELECT current_setting('{name}')"))
            .get_result::<String>(connection)
            .unwrap()
    };
    assert_eq!(setting("synchronous_commit", &mut connection), "off");
    assert_eq!(setting("fsync", &mut connection), "on");
    assert_eq!(setting("listen_addresses", &mut connection), "");
}

#[test]
fn nothing_is_left_of_a_dropped_cluster() {
    let cluster = cluster();
    let directory = directory(&cluster.url());
    assert!(directory.exists());
    drop(cluster);
    assert!(!directory.exists());
}

#[test]
fn databases_of_killed_programs_are_swept_and_those_of_living_ones_stay() {
    let cluster = cluster();
    let mut session = PgConnection::establish(&cluster.url()).unwrap();
    for name in [
        "leasehold_test_0123456789ab_1",
        "leasehold_test_ba9876543210_1",
        "leasehold_test_by_hand",
    ] {
        session.batch_execute(&format!("CREATE DATABASE {name}")).unwrap();
    }
    session
        .batch_execute("SET application_name = 'leasehold_test_ba9876543210'")
        .unwrap();
    // Another test program on the same server, which sweeps before its first database.
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "server::a_new_database_has_no_tables"])
        .env(URL_VARIABLE, cluster.url())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    let names: Vec<String> = diesel::dsl::sql::<diesel::sql_types::Text>(
        "SELECT datname::text FROM pg_database WHERE datname ~ '^leasehold' ORDER BY datname",
    )
    .load(&mut session)
    .unwrap();
    // That program's own database may be left: it ends without waiting for the drop.
    for (name, stays) in [
        ("leasehold_test_0123456789ab_1", false),
        ("leasehold_test_ba9876543210_1", true),
        ("leasehold_test_by_hand", true),
    ] {
        assert_eq!(names.iter().any(|other| other == name), stays, "{name}: {names:?}");
    }
}

#[test]
fn a_new_database_has_no_tables() {
    let mut db = postgres::database();
    assert_eq!(
        db.integer("SELECT count(*) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"),
        0
    );
}

fn directory(url: &str) -> PathBuf {
    PathBuf::from(url.split_once("host=").unwrap().1)
}
