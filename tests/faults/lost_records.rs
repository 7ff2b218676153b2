//! Records of steps whose request or answer is lost on the way, and connections that died during the effect.

use diesel::PgConnection;
use leasehold::{Job, Worker};
use leasehold_tests::jobs::{App, Charge, SOON, Then, app, prepare};
use leasehold_tests::proxy::{Fault, Proxy};
use leasehold_tests::{TestDb, eventually, postgres};
use tempfile::TempDir;

const RECORD: &str = "INSERT INTO leasehold.steps";

fn charge(folder: &TempDir, n: i64) -> Charge {
    Charge {
        n,
        calls: folder.path().join(n.to_string()),
        then: Then::Commit,
    }
}

#[test]
fn a_record_whose_request_or_answer_was_lost_is_written_once_and_the_effect_is_not_called_again() {
    let mut db = postgres::database();
    let mut conn = prepare(&mut db);
    let folder = tempfile::tempdir().unwrap();
    let proxy = Proxy::start(&db.url());
    let (app, remote) = app();
    let worker = Worker::<PgConnection, App>::new(proxy.url(), app);
    let running = worker.register::<Charge>().start().unwrap();
    let faults = [Fault::LoseAnswer, Fault::LoseRequest].map(|fault| [("", RECORD, fault), (RECORD, "COMMIT", fault)]);
    for (n, (before, text, fault)) in (1..).zip(faults.into_iter().flatten()) {
        let charge = charge(&folder, n);
        let id = charge.enqueue(&mut conn).unwrap().id();
        let handler = remote.begun();
        proxy.once_after(before, text, fault);
        handler.go();
        proxy.strikes();
        let ended = remote.ended();
        assert_eq!((ended.attempt, ended.result), (1, Ok(())), "{text} {fault:?}");
        assert_eq!(charge.keys().len(), 1, "{text} {fault:?}");
        let recorded = format!("SELECT count(*) FROM leasehold.steps WHERE job_id = {id} AND generation = 1");
        assert_eq!(db.integer(&recorded), 1, "{text} {fault:?}");
    }
    eventually(SOON, "all are completed", || running.counts().completed == 4);
}

#[test]
fn connections_that_died_during_the_effect_do_not_cost_the_record() {
    let mut db = postgres::database();
    let mut conn = prepare(&mut db);
    let folder = tempfile::tempdir().unwrap();
    let (app, remote) = app();
    let worker = Worker::<PgConnection, App>::new(db.url(), app).threads(1);
    let running = worker.register::<Charge>().start().unwrap();
    let charge = charge(&folder, 1);
    charge.enqueue(&mut conn).unwrap();
    let handler = remote.begun();
    drop(conn);
    db.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()");
    handler.go();
    let ended = remote.ended();
    assert_eq!((ended.attempt, ended.result), (1, Ok(())));
    assert_eq!(charge.keys().len(), 1);
    eventually(SOON, "it is completed", || running.counts().completed == 1);
    assert_eq!(
        db.integer("SELECT count(*) FROM leasehold.steps WHERE generation = 1"),
        1
    );
}
