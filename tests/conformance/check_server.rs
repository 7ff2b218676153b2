//! What a check finds about a server of PostgreSQL.

use std::time::Duration;

use diesel::PgConnection;
use leasehold::Job;
use leasehold::check::{Finding, Severity, Thresholds, check, check_by};
use leasehold_tests::eventually;
use leasehold_tests::jobs::SOON;
use leasehold_tests::postgres::{Cluster, database, find};

use crate::check::found;
use crate::support::*;

fn pid(conn: &mut PgConnection) -> i32 {
    #[derive(diesel::QueryableByName)]
    struct Row {
        #[diesel(sql_type = diesel::sql_types::Integer)]
        pid: i32,
    }
    diesel::RunQueryDsl::get_result::<Row>(diesel::sql_query("SELECT pg_backend_pid() AS pid"), conn)
        .unwrap()
        .pid
}

#[test]
fn settings_of_the_session_that_hurt_are_named() {
    let mut db = database();
    let mut conn = migrated(&mut db);
    conn.batch_execute(
        "SET idle_in_transaction_session_timeout = 0; SET synchronous_commit = off; SET plan_cache_mode = force_custom_plan;
         SET default_transaction_isolation = 'repeatable read'; SET lock_timeout = '50ms'; SET statement_timeout = '900ms';
         SET idle_session_timeout = '1h'",
    )
    .unwrap();
    let findings = check(&mut conn, &default_schema()).unwrap();
    let said: Vec<String> = findings
        .iter()
        .map(|one| format!("{}: {one}", one.severity()))
        .collect();
    assert_eq!(
        said,
        [
            "danger: synchronous_commit is off: a crash may lose what was committed",
            "warning: default_transaction_isolation is repeatable read",
            "warning: plan_cache_mode is force_custom_plan",
            "warning: idle_session_timeout is 3600000 ms",
            "warning: lock_timeout is 50 ms",
            "warning: statement_timeout is 900 ms",
            "advice: idle_in_transaction_session_timeout is 0",
        ]
    );
}

#[test]
fn dead_rows_and_a_table_that_is_not_vacuumed_are_found() {
    let mut db = database();
    let mut conn = migrated(&mut db);
    db.sql(
        "ALTER TABLE leasehold.unique_keys SET (autovacuum_enabled = off);
         INSERT INTO leasehold.unique_keys (key, job_id, fingerprint) SELECT n::text, 1, '' FROM generate_series(1, 3000) AS n;
         DELETE FROM leasehold.unique_keys WHERE key::integer > 1000",
    );
    let some = Thresholds::default().dead_rows(1_500);
    eventually(SOON, "the statistics have it", || {
        let findings = check_by(&mut conn, &default_schema(), &some).unwrap();
        let bloat = findings.iter().any(|finding| {
            matches!(finding, Finding::Bloat { table, dead: 2000, live: 1000, vacuumed: None } if table == "leasehold.unique_keys")
        });
        let off = Finding::AutovacuumOff {
            table: Some("leasehold.unique_keys".to_owned()),
        };
        assert!(findings.contains(&off), "{findings:?}");
        bloat
    });
    // A fifth of the table, or it does not matter.
    db.sql("INSERT INTO leasehold.unique_keys (key, job_id, fingerprint) SELECT n::text, 1, '' FROM generate_series(10001, 20000) AS n");
    eventually(SOON, "the statistics have it", || {
        let findings = check_by(&mut conn, &default_schema(), &some).unwrap();
        !findings.iter().any(|finding| matches!(finding, Finding::Bloat { .. }))
    });
}

#[test]
fn an_invalid_index_is_found() {
    let mut db = database();
    let mut conn = migrated(&mut db);
    db.sql("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'leasehold.jobs_batch'::regclass");
    let (name, invalid) = ("jobs_batch".to_owned(), true);
    assert_eq!(found(&mut conn), [Finding::Index { name, invalid }]);
}

#[test]
fn a_transaction_that_holds_vacuum_up_is_found_and_an_empty_one_is_not() {
    let mut db = database();
    let mut conn = migrated(&mut db);
    let (mut old, mut empty) = (db.connect(), db.connect());
    let pid = pid(&mut old);
    old.batch_execute("SET application_name = 'report'; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
        .unwrap();
    empty.batch_execute("BEGIN").unwrap();
    assert_eq!(found(&mut conn), []);
    let strict = Thresholds::default().transaction(Duration::ZERO);
    let mut findings = check_by(&mut conn, &default_schema(), &strict).unwrap();
    findings.retain(|finding| finding.severity() > Severity::Advice);
    assert!(
        matches!(&findings[..], [Finding::OldTransaction { pid: found, application, .. }] if (*found, &**application) == (pid, "report")),
        "{findings:?}"
    );
}

#[test]
fn who_has_the_row_of_an_ended_lease_locked_is_named() {
    let mut db = database();
    let mut conn = migrated(&mut db);
    note("held").enqueue(&mut conn).unwrap();
    claim_notes(&mut conn);
    db.set_time("leasehold.jobs", "lease_until", -60_000, "true");
    let mut locker = db.connect();
    let by = pid(&mut locker);
    locker
        .batch_execute("BEGIN; SELECT FROM leasehold.jobs FOR NO KEY UPDATE")
        .unwrap();
    let findings = found(&mut conn);
    assert!(
        matches!(findings[..], [Finding::LeasesExpired { jobs: 1, locked_by: Some(pid), .. }] if pid == by),
        "{findings:?}"
    );
    locker.batch_execute("ROLLBACK").unwrap();
    let findings = found(&mut conn);
    assert!(
        matches!(findings[..], [Finding::LeasesExpired { locked_by: None, .. }]),
        "{findings:?}"
    );
}

#[test]
fn a_role_that_may_only_read_checks_and_is_told_what_it_could_not_see() {
    let mut db = database();
    let mut conn = migrated(&mut db);
    let role = format!("checker_{}", std::process::id());
    db.sql(&format!(
        "CREATE ROLE {role}; GRANT USAGE ON SCHEMA leasehold TO {role};
         GRANT SELECT ON ALL TABLES IN SCHEMA leasehold TO {role}"
    ));
    note("waits").enqueue(&mut conn).unwrap();
    conn.batch_execute(&format!("SET ROLE {role}; SET default_transaction_read_only = on"))
        .unwrap();
    let queue = "default".to_owned();
    assert_eq!(found(&mut conn), [Finding::QueueUnserved { queue }]);
    let findings = check(&mut conn, &default_schema()).unwrap();
    // At least the test's own session.
    assert!(
        findings
            .iter()
            .any(|finding| matches!(finding, Finding::SessionsHidden { sessions } if *sessions >= 1)),
        "{findings:?}"
    );
    drop(conn);
    db.sql(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
}

#[test]
fn limits_of_a_role_and_of_a_database_are_looked_at() {
    let mut db = database();
    let mut conn = migrated(&mut db);
    let database = db.text("SELECT quote_ident(current_database())").unwrap();
    db.sql(&format!("ALTER DATABASE {database} CONNECTION LIMIT 2"));
    assert!(
        matches!(
            found(&mut conn)[..],
            [Finding::Connections {
                of: "database",
                used: 2..,
                max: 2
            }]
        ),
        "{:?}",
        found(&mut conn)
    );
    db.sql(&format!("ALTER DATABASE {database} CONNECTION LIMIT 1000"));
    assert_eq!(found(&mut conn), []);
    let role = format!("few_{}", std::process::id());
    db.sql(&format!("CREATE ROLE {role} SUPERUSER CONNECTION LIMIT 1"));
    conn.batch_execute(&format!("SET SESSION AUTHORIZATION {role}"))
        .unwrap();
    // A role that has no session of its own yet uses none of its connections.
    assert_eq!(found(&mut conn), []);
    drop(conn);
    db.sql(&format!("ALTER ROLE {role} LOGIN"));
    let mut conn = PgConnection::establish(&db.url().replace("postgres@", &format!("{role}@"))).unwrap();
    let found = found(&mut conn);
    drop(conn);
    eventually(SOON, "its session is gone", || {
        db.integer(&format!(
            "SELECT count(*) FROM pg_stat_activity WHERE usename = '{role}'"
        )) == 0
    });
    db.sql(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
    assert!(
        matches!(
            found[..],
            [Finding::Connections {
                of: "role",
                used: 1,
                max: 1
            }]
        ),
        "{found:?}"
    );
}

#[test]
fn what_is_wrong_with_a_whole_server_is_found() {
    let settings = [
        "fsync=off",
        "full_page_writes=off",
        "autovacuum=off",
        "max_prepared_transactions=2",
        "max_connections=5",
    ];
    let cluster = Cluster::start(&find(None).unwrap(), &settings);
    let mut conn = PgConnection::establish(&cluster.url()).unwrap();
    leasehold::migrate(&mut conn).unwrap();
    conn.batch_execute("SELECT pg_create_physical_replication_slot('left', true)")
        .unwrap();
    conn.batch_execute("BEGIN; CREATE TABLE half (n integer); PREPARE TRANSACTION 'half'")
        .unwrap();
    let _others: Vec<PgConnection> = (0..4)
        .map(|_| PgConnection::establish(&cluster.url()).unwrap())
        .collect();
    let strict = Thresholds::default().transaction(Duration::ZERO);
    let findings = check_by(&mut conn, &default_schema(), &strict).unwrap();
    let has = |what: &str, is: &dyn Fn(&Finding) -> bool| assert!(findings.iter().any(is), "{what}: {findings:?}");
    for setting in ["fsync", "full_page_writes"] {
        has(
            setting,
            &|finding| matches!(finding, Finding::UnsafeSetting { name, .. } if *name == setting),
        );
    }
    has("autovacuum", &|finding| {
        matches!(finding, Finding::AutovacuumOff { table: None })
    });
    has(
        "prepared",
        &|finding| matches!(finding, Finding::PreparedTransaction { name, .. } if name == "half"),
    );
    has(
        "slot",
        &|finding| matches!(finding, Finding::ReplicationSlot { name } if name == "left"),
    );
    has("connections", &|finding| {
        matches!(
            finding,
            Finding::Connections {
                of: "server",
                used: 5..,
                max: 5
            }
        )
    });
    let texts: std::collections::BTreeSet<String> = findings.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), findings.len(), "each says something of its own");
}
