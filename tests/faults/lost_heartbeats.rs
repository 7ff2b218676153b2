use std::time::{Duration, Instant};

use diesel::PgConnection;
use leasehold::{EnqueueOptions, Job, Refusal, Worker};
use leasehold_tests::jobs::{App, HOUR, SOON, Step, app, job, prepare};
use leasehold_tests::proxy::{Fault, Proxy};
use leasehold_tests::{TestDb, eventually, postgres};

const HEARTBEAT: &str = "renewed AS (";
const LEASE: Duration = Duration::from_secs(4);

#[test]
fn without_heartbeats_a_handler_runs_on_until_its_lease_ends_by_its_own_clock() {
    let mut db = postgres::database();
    let mut conn = prepare(&mut db);
    let options = EnqueueOptions::new().lease(LEASE);
    let id = Step::waiting(1).enqueue_with(&mut conn, &options).unwrap().id();
    let proxy = Proxy::start(&db.url());
    proxy.always(HEARTBEAT, Fault::LoseRequest);
    let (app, remote) = app();
    let worker = Worker::<PgConnection, App>::new(proxy.url(), app)
        .threads(1)
        .sweep_interval(HOUR);
    let claiming = Instant::now();
    let running = worker.register::<Step>().start().unwrap();
    let handler = remote.begun();
    proxy.strikes();
    // Unknown is not lost. (On a machine that took more than a lease to get here, there is nothing to see.)
    if claiming.elapsed() < LEASE {
        assert!(!handler.watch.is_lost() || claiming.elapsed() >= LEASE);
    }
    eventually(SOON, "the lease is lost", || handler.watch.is_lost());
    assert!(claiming.elapsed() >= LEASE, "lost after {:?}", claiming.elapsed());
    // The row still says that the job is this worker's, and nobody else wants it: its own clock decides.
    assert_eq!(job(&mut conn, id).state.as_str(), "running");
    handler.go();
    assert_eq!(remote.ended().refusal, Some(Refusal::Expired));
    eventually(SOON, "the loss is counted", || running.counts().lost == 1);
    assert_eq!(db.integer("SELECT count(*) FROM effects"), 0);
}

#[test]
fn a_heartbeat_that_comes_through_in_time_saves_the_lease() {
    let mut db = postgres::database();
    let mut conn = prepare(&mut db);
    let options = EnqueueOptions::new().lease(LEASE);
    Step::waiting(1).enqueue_with(&mut conn, &options).unwrap();
    let proxy = Proxy::start(&db.url());
    // The first of each lease is lost, one way and the other.
    proxy.once(HEARTBEAT, Fault::LoseRequest);
    proxy.once(HEARTBEAT, Fault::LoseAnswer);
    let (app, remote) = app();
    let worker = Worker::<PgConnection, App>::new(proxy.url(), app).threads(1);
    let running = worker.register::<Step>().start().unwrap();
    let handler = remote.begun();
    let begun = Instant::now();
    proxy.strikes();
    proxy.strikes();
    eventually(SOON, "a lease and a half has passed", || {
        begun.elapsed() > LEASE * 3 / 2
    });
    assert!(!handler.watch.is_lost());
    handler.go();
    assert_eq!(remote.ended().result, Ok(()));
    eventually(SOON, "it is completed", || running.counts().completed == 1);
}
