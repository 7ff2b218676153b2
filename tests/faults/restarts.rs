use diesel::connection::SimpleConnection;
use diesel::sql_types::BigInt;
use diesel::{Connection, PgConnection, RunQueryDsl};
use leasehold::{EnqueueOptions, Job};
use leasehold_tests::jobs::{Note, SOON, Step, job};
use leasehold_tests::postgres::cluster;
use leasehold_tests::{WorkerProcess, eventually};

use crate::PROGRAM;

fn tables(url: &str) -> PgConnection {
    let mut conn = PgConnection::establish(url).unwrap();
    leasehold::migrate(&mut conn).unwrap();
    conn.batch_execute("CREATE TABLE effects (n bigint NOT NULL)").unwrap();
    conn
}

fn count(conn: &mut PgConnection, query: &str) -> i64 {
    diesel::dsl::sql::<BigInt>(query).get_result(conn).unwrap()
}

/// Handlers wait while the server goes, commit while it is away or back, and lose no attempt.
#[test]
fn a_server_that_crashes_or_restarts_costs_nothing_but_time() {
    let mut cluster = cluster();
    let mut conn = tables(&cluster.url());
    let steps: Vec<Step> = (1..=2).map(Step::waiting).collect();
    let ids = Step::enqueue_all(&steps, &mut conn, &EnqueueOptions::new()).unwrap();
    let mut process = WorkerProcess::start(PROGRAM, "serve", &cluster.url());
    let mut begun = [process.line(), process.line()];
    begun.sort();
    assert_eq!(begun, ["begun 1 1", "begun 2 1"]);

    cluster.crash();
    // One asks for its commit while nobody answers; and the tries in between take some time.
    process.go(1);
    let mut log = process.logs("heartbeat: the database is away");
    cluster.start_again();
    process.says("ended 1 committed");
    log.extend(process.logs("heartbeat: the database is back"));

    let mut conn = PgConnection::establish(&cluster.url()).unwrap();
    let notes: Vec<Note> = (3..=102).map(|n| Note { n }).collect();
    Note::enqueue_all(&notes, &mut conn, &EnqueueOptions::new()).unwrap();
    eventually(SOON, "one thread works again", || {
        count(&mut conn, "SELECT count(*) FROM effects") == 101
    });
    drop(conn);
    cluster.restart();
    process.go(2);
    process.says("ended 2 committed");
    log.extend(process.logs("heartbeat: the database is back"));

    let mut conn = PgConnection::establish(&cluster.url()).unwrap();
    eventually(SOON, "all jobs have ended", || {
        count(&mut conn, "SELECT count(*) FROM leasehold.jobs") == 0
    });
    assert_eq!(count(&mut conn, "SELECT count(*) FROM effects"), 102);
    assert_eq!(count(&mut conn, "SELECT count(DISTINCT n) FROM effects"), 102);
    for enqueued in ids {
        assert_eq!(job(&mut conn, enqueued.id()).attempt, 1);
    }
    // One line for each of the two outages and each thread, however often it tried.
    Note { n: 103 }.enqueue(&mut conn).unwrap();
    eventually(SOON, "the last job", || {
        count(&mut conn, "SELECT count(*) FROM effects") == 103
    });
    log.extend(process.more_log());
    for thread in ["heartbeat", "claim", "listen"] {
        for state in ["away", "back"] {
            let line = format!("{thread}: the database is {state}");
            let lines = log.iter().filter(|text| text.contains(&line)).count();
            assert!(
                lines <= 2 && (thread != "heartbeat" || lines == 2),
                "{line}: {lines} of {log:#?}"
            );
        }
    }
}
