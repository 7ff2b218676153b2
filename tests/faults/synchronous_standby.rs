use diesel::connection::SimpleConnection;
use diesel::sql_types::BigInt;
use diesel::{Connection, PgConnection, RunQueryDsl};
use leasehold::{Job, Worker};
use leasehold_tests::eventually;
use leasehold_tests::jobs::{App, SOON, Step, app, job};
use leasehold_tests::postgres::cluster;

/// A commit of a handler's, waiting for a standby.
const WAITING: &str = "FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query = 'COMMIT'";

fn integer(conn: &mut PgConnection, query: &str) -> i64 {
    diesel::dsl::sql::<BigInt>(query).get_result(conn).unwrap()
}

/// Every commit waits while no synchronous standby is there: it has landed on the primary, and nobody else sees it. It is
/// neither success nor failure before it ends, whether by the standby's return or with its session, and the work is done once.
#[test]
fn a_commit_that_waits_for_a_synchronous_standby_that_is_gone_is_known_when_it_ends() {
    let cluster = cluster();
    let mut conn = PgConnection::establish(&cluster.url()).unwrap();
    leasehold::migrate(&mut conn).unwrap();
    conn.batch_execute("CREATE TABLE effects (n bigint NOT NULL)").unwrap();
    // This session waits for no standby.
    conn.batch_execute("SET synchronous_commit = local").unwrap();
    let (app, remote) = app();
    let worker = Worker::<PgConnection, App>::new(cluster.url(), app).threads(1);
    let running = worker.register::<Step>().start().unwrap();
    for (n, ended_by) in [(1, "a standby"), (2, "the end of its session")] {
        let id = Step::waiting(n).enqueue(&mut conn).unwrap().id();
        let handler = remote.begun();
        conn.batch_execute("ALTER SYSTEM SET synchronous_standby_names = 'gone'")
            .unwrap();
        conn.batch_execute("SELECT pg_reload_conf()").unwrap();
        eventually(SOON, "commits have a standby to wait for", || {
            let mut fresh = PgConnection::establish(&cluster.url()).unwrap();
            integer(
                &mut fresh,
                "SELECT (current_setting('synchronous_standby_names') = 'gone')::int::bigint",
            ) == 1
        });
        handler.go();
        eventually(SOON, "the commit waits", || {
            integer(&mut conn, &format!("SELECT count(*) {WAITING}")) == 1
        });
        assert!(remote.nothing_ended(), "it is not known yet");
        assert_eq!(
            integer(&mut conn, "SELECT count(*) FROM effects"),
            n - 1,
            "nobody sees it"
        );
        if n == 2 {
            conn.batch_execute(&format!("SELECT pg_terminate_backend(pid) {WAITING}"))
                .unwrap();
        }
        conn.batch_execute("ALTER SYSTEM RESET synchronous_standby_names")
            .unwrap();
        conn.batch_execute("SELECT pg_reload_conf()").unwrap();
        assert_eq!(remote.ended().result, Ok(()), "{ended_by}");
        eventually(SOON, "it is counted", || running.counts().completed == n.unsigned_abs());
        assert_eq!(job(&mut conn, id).attempt, 1, "{ended_by}");
        assert_eq!(integer(&mut conn, "SELECT count(*) FROM effects"), n, "{ended_by}");
    }
    assert_eq!(running.counts().retried + running.counts().lost, 0);
}
