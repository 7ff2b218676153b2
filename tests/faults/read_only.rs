use diesel::connection::SimpleConnection;
use diesel::sql_types::BigInt;
use diesel::{Connection, PgConnection, RunQueryDsl};
use leasehold::{Job, Worker};
use leasehold_tests::eventually;
use leasehold_tests::jobs::{App, SOON, Step, app, job};
use leasehold_tests::postgres::cluster;

/// As after a failover: sessions live, and no write is taken.
#[test]
fn a_read_only_server_is_waited_out_without_using_up_an_attempt() {
    let cluster = cluster();
    let mut conn = PgConnection::establish(&cluster.url()).unwrap();
    leasehold::migrate(&mut conn).unwrap();
    conn.batch_execute("CREATE TABLE effects (n bigint NOT NULL)").unwrap();
    // For this session alone it is never read-only.
    conn.batch_execute("SET default_transaction_read_only = off").unwrap();
    let id = Step::waiting(1).enqueue(&mut conn).unwrap().id();
    let (app, remote) = app();
    let worker = Worker::<PgConnection, App>::new(cluster.url(), app).threads(1);
    let running = worker.register::<Step>().start().unwrap();
    let handler = remote.begun();

    let mut set = |how: &str| {
        conn.batch_execute(&format!("ALTER SYSTEM {how}")).unwrap();
        conn.batch_execute("SELECT pg_reload_conf()").unwrap();
        let mut probe = PgConnection::establish(&cluster.url()).unwrap();
        let wanted = i64::from(how.starts_with("SET"));
        let read_only = "SELECT (current_setting('default_transaction_read_only') = 'on')::int::bigint";
        eventually(SOON, "the server has read its settings", || {
            probe = PgConnection::establish(&cluster.url()).unwrap();
            diesel::dsl::sql::<BigInt>(read_only)
                .get_result::<i64>(&mut probe)
                .unwrap()
                == wanted
        });
    };
    set("SET default_transaction_read_only = on");
    handler.go();
    assert!(remote.ended().result.unwrap_err().contains("read-only"));
    // Another job waits meanwhile, and its claims are refused.
    let mut other = PgConnection::establish(&cluster.url()).unwrap();
    other.batch_execute("SET default_transaction_read_only = off").unwrap();
    let waits = Step::waiting(2).enqueue(&mut other).unwrap().id();
    assert!(remote.nothing_begun());
    set("RESET default_transaction_read_only");

    for _ in 0..2 {
        let handler = remote.begun();
        assert_eq!(handler.attempt, 1);
        handler.go();
        assert_eq!(remote.ended().result, Ok(()));
    }
    eventually(SOON, "both are completed", || running.counts().completed == 2);
    assert_eq!(running.counts().retried, 0);
    assert_eq!((job(&mut other, id).attempt, job(&mut other, waits).attempt), (1, 1));
    let rows = diesel::dsl::sql::<BigInt>("SELECT count(*) FROM effects").get_result::<i64>(&mut other);
    assert_eq!(rows.unwrap(), 2);
}
