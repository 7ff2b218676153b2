//! Requests and answers that are lost on the way, through a proxy.

use std::time::{Duration, Instant};

use diesel::PgConnection;
use leasehold::{EnqueueOptions, Job, Running, Worker};
use leasehold_tests::jobs::{App, HOUR, Remote, SOON, Step, Then, app, job, prepare};
use leasehold_tests::proxy::{Fault, Proxy};
use leasehold_tests::{TestDb, eventually, postgres};

/// Told apart by it: the sweep commits, too.
const A_COMMITS_BEGIN: &str = "in_commit.leasehold";
const CLAIM: &str = "attempt = j.attempt + 1";
const PROMOTE: &str = "SET scheduled = false";
const FINISH: &str = "SELECT id FROM moved";

fn start(proxy: &Proxy) -> (Running<PgConnection, App>, Remote) {
    let (app, remote) = app();
    let worker = Worker::<PgConnection, App>::new(proxy.url(), app);
    let worker = worker
        .poll_interval(Duration::from_millis(20))
        .sweep_interval(Duration::from_millis(50));
    (worker.register::<Step>().start().unwrap(), remote)
}

#[test]
fn a_commit_that_landed_is_committed_although_its_answer_was_lost() {
    let mut db = postgres::database();
    let mut conn = prepare(&mut db);
    let id = Step::waiting(1).enqueue(&mut conn).unwrap().id();
    let proxy = Proxy::start(&db.url());
    let (running, remote) = start(&proxy);
    let handler = remote.begun();
    proxy.once_after(A_COMMITS_BEGIN, "COMMIT", Fault::LoseAnswer);
    handler.go();
    proxy.strikes();
    assert_eq!(remote.ended().result, Ok(()));
    eventually(SOON, "it is completed", || running.counts().completed == 1);
    assert!(remote.nothing_begun());
    let job = job(&mut conn, id);
    assert_eq!((job.state.as_str(), job.attempt, job.generation), ("completed", 1, 1));
    assert_eq!(db.integer("SELECT count(*) FROM effects"), 1);
}

#[test]
fn a_commit_that_never_arrived_is_tried_again() {
    let mut db = postgres::database();
    let mut conn = prepare(&mut db);
    let id = Step::waiting(1).enqueue(&mut conn).unwrap().id();
    let proxy = Proxy::start(&db.url());
    let (running, remote) = start(&proxy);
    let handler = remote.begun();
    proxy.once_after(A_COMMITS_BEGIN, "COMMIT", Fault::LoseRequest);
    handler.go();
    proxy.strikes();
    let error = remote.ended().result.unwrap_err();
    assert!(error.contains("nothing was written"), "{error}");
    remote.begun().go();
    assert_eq!(remote.ended().result, Ok(()));
    eventually(SOON, "it is completed", || running.counts().completed == 1);
    assert_eq!(job(&mut conn, id).state.as_str(), "completed");
    assert_eq!(db.integer("SELECT count(*) FROM effects"), 1);
}

#[test]
fn a_half_open_commit_stays_unknown_until_its_lock_is_free() {
    let mut db = postgres::database();
    let mut conn = prepare(&mut db);
    let id = Step::waiting(1).enqueue(&mut conn).unwrap().id();
    let proxy = Proxy::start(&db.url());
    let (running, remote) = start(&proxy);
    let handler = remote.begun();
    proxy.once_after(A_COMMITS_BEGIN, "COMMIT", Fault::HalfOpen);
    handler.go();
    proxy.strikes();
    // A plain read says "running" now, which must not be taken for "not committed": two looks under the lock take a second
    // each, and give no verdict.
    let since = Instant::now();
    eventually(SOON, "some looks", || since.elapsed() > Duration::from_millis(2500));
    assert_eq!(job(&mut conn, id).state.as_str(), "running");
    assert!(remote.nothing_ended());
    // The server notices that nobody is there, and rolls back.
    proxy.heal();
    let error = remote.ended().result.unwrap_err();
    assert!(error.contains("nothing was written"), "{error}");
    remote.begun().go();
    assert_eq!(remote.ended().result, Ok(()));
    eventually(SOON, "it is completed", || running.counts().completed == 1);
    assert_eq!(db.integer("SELECT count(*) FROM effects"), 1);
}

#[test]
fn a_half_open_commit_is_left_to_the_lease_when_that_ends() {
    let mut db = postgres::database();
    let mut conn = prepare(&mut db);
    let options = EnqueueOptions::new().lease(Duration::from_secs(3));
    Step::waiting(1).enqueue_with(&mut conn, &options).unwrap();
    let proxy = Proxy::start(&db.url());
    let (running, remote) = start(&proxy);
    let handler = remote.begun();
    proxy.once_after(A_COMMITS_BEGIN, "COMMIT", Fault::HalfOpen);
    handler.go();
    proxy.strikes();
    let error = remote.ended().result.unwrap_err();
    assert!(error.contains("until the lease ended"), "{error}");
    // Nothing is settled, and the sweep cannot take the row before its lock is free: the server sees to that, long before
    // the minute after which it ends other transactions that idle.
    eventually(SOON, "it is let go", || running.leases_held() == 0);
    let open =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'";
    eventually(SOON / 2, "the server ends the commit", || db.integer(open) == 0);
    let again = remote.begun();
    assert_eq!((again.attempt, again.generation), (2, 3));
    again.go();
    eventually(SOON, "it is completed", || running.counts().completed == 1);
    assert_eq!(db.integer("SELECT count(*) FROM effects"), 1);
}

#[test]
fn a_claim_whose_answer_was_lost_is_found_by_its_token() {
    let mut db = postgres::database();
    let mut conn = prepare(&mut db);
    // Only the look-up can bring them to run: their leases outlast the test.
    let options = EnqueueOptions::new().lease(HOUR);
    let steps: Vec<Step> = (1..=3).map(Step::waiting).collect();
    Step::enqueue_all(&steps, &mut conn, &options).unwrap();
    let proxy = Proxy::start(&db.url());
    proxy.once(CLAIM, Fault::LoseAnswer);
    // The statement after the look-up fails, too.
    proxy.once(PROMOTE, Fault::LoseRequest);
    let (running, remote) = start(&proxy);
    proxy.strikes();
    for _ in 0..3 {
        let handler = remote.begun();
        assert_eq!((handler.attempt, handler.generation), (1, 1));
        handler.go();
        assert_eq!(remote.ended().result, Ok(()));
    }
    proxy.strikes();
    eventually(SOON, "all are completed", || running.counts().completed == 3);
    assert_eq!(db.integer("SELECT count(*) FROM effects"), 3);
}

#[test]
fn a_claim_that_never_arrived_is_made_again() {
    let mut db = postgres::database();
    let mut conn = prepare(&mut db);
    Step::now(1, Then::Commit).enqueue(&mut conn).unwrap();
    let proxy = Proxy::start(&db.url());
    proxy.once(CLAIM, Fault::LoseRequest);
    let (running, remote) = start(&proxy);
    proxy.strikes();
    assert_eq!(remote.begun().generation, 1);
    eventually(SOON, "it is completed", || running.counts().completed == 1);
}

#[test]
fn completions_whose_answer_was_lost_are_recognised() {
    let mut db = postgres::database();
    let mut conn = prepare(&mut db);
    let proxy = Proxy::start(&db.url());
    let (running, remote) = start(&proxy);
    for (n, fault) in (1..).zip([Fault::LoseAnswer, Fault::LoseRequest]) {
        let step = Step {
            n,
            waits: true,
            then: Then::Finish,
        };
        step.enqueue(&mut conn).unwrap();
        let handler = remote.begun();
        proxy.once(FINISH, fault);
        handler.go();
        proxy.strikes();
        eventually(SOON, "it is completed", || {
            running.counts().completed == n.unsigned_abs()
        });
    }
    assert_eq!(running.counts().lost, 0);
    assert!(remote.nothing_begun() && running.leases_held() == 0);
    assert_eq!(
        db.integer("SELECT count(*) FROM leasehold.finished_jobs WHERE attempt = 1 AND generation = 1"),
        2
    );
}

#[test]
fn a_failed_attempt_whose_answer_was_lost_is_recorded_once() {
    let mut db = postgres::database();
    let mut conn = prepare(&mut db);
    let options = EnqueueOptions::new();
    let id = Step {
        n: 1,
        waits: true,
        then: Then::FailUntil(2),
    }
    .enqueue_with(&mut conn, &options)
    .unwrap()
    .id();
    let proxy = Proxy::start(&db.url());
    let (running, remote) = start(&proxy);
    let handler = remote.begun();
    proxy.once("WITH ready AS", Fault::LoseAnswer);
    handler.go();
    proxy.strikes();
    let again = remote.begun();
    assert_eq!((again.attempt, again.generation), (2, 2));
    again.go();
    eventually(SOON, "it is completed", || running.counts().completed == 1);
    assert_eq!(job(&mut conn, id).attempt, 2);
    assert_eq!(db.integer("SELECT count(*) FROM leasehold.job_errors"), 1);
}
