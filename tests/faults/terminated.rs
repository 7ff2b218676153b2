use std::time::Duration;

use diesel::PgConnection;
use leasehold::{EnqueueOptions, Job, Worker};
use leasehold_tests::jobs::{App, HOUR, Note, SOON, Step, app, job, prepare};
use leasehold_tests::{TestDb, eventually, postgres};

const JOBS: i64 = 2000;
const TIMES: i64 = 20;

#[test]
fn every_connection_terminated_twenty_times_during_2000_jobs_leaves_2000_rows() {
    let mut db = postgres::database();
    let mut conn = prepare(&mut db);
    let notes: Vec<Note> = (1..=JOBS).map(|n| Note { n }).collect();
    let options = EnqueueOptions::new().max_attempts(1000);
    Note::enqueue_all(&notes, &mut conn, &options).unwrap();
    drop(conn);
    let worker = Worker::<PgConnection, _>::new(db.url(), ()).threads(4);
    let running = worker
        .poll_interval(Duration::from_millis(50))
        .register::<Note>()
        .start()
        .unwrap();
    let mut terminated = 0;
    for time in 1..=TIMES {
        // Spread over the whole run: each time when another part of the jobs has been done.
        let until = (JOBS - 50) * time / (TIMES + 1);
        eventually(SOON, "the next jobs are done", || {
            db.integer("SELECT count(*) FROM effects") >= until
        });
        terminated += db.terminate_connections();
    }
    eventually(SOON, "all jobs have ended", || {
        db.integer("SELECT count(*) FROM leasehold.jobs") == 0
    });
    // The claimer's, the settler's or the heartbeat's, and handlers': two at the least each time.
    assert!(terminated >= 2 * TIMES, "{terminated} connections were terminated");
    assert_eq!(db.integer("SELECT count(*) FROM effects"), JOBS);
    assert_eq!(db.integer("SELECT count(DISTINCT n) FROM effects"), JOBS);
    let completed = "SELECT count(*) FROM leasehold.finished_jobs WHERE state = 'completed'";
    assert_eq!(db.integer(completed), JOBS);
    eventually(SOON, "the counts agree", || running.leases_held() == 0);
    assert_eq!(running.counts().completed, JOBS.unsigned_abs());
    // An administrator's end of a session is no fault of the job that ran on it.
    assert_eq!(
        db.integer("SELECT count(*) FROM leasehold.finished_jobs WHERE attempt > 2"),
        0
    );
}

/// A lease does not hang on a session, as an advisory lock does.
#[test]
fn a_job_whose_worker_lost_every_connection_is_not_run_by_another() {
    let mut db = postgres::database();
    let mut conn = prepare(&mut db);
    let id = Step::waiting(1).enqueue(&mut conn).unwrap().id();
    drop(conn);
    let (app, remote) = app();
    let worker = || Worker::<PgConnection, App>::new(db.url(), app.clone()).sweep_interval(Duration::from_millis(20));
    let running = worker().register::<Step>().start().unwrap();
    let handler = remote.begun();
    // It knows of notes, too: each that it does shows a claim after the sessions have ended.
    let peer = worker().register::<Step>().register::<Note>().start().unwrap();
    for n in 1..=3 {
        assert!(db.terminate_connections() > 0);
        Note { n: 10 + n }.enqueue(&mut db.connect()).unwrap();
        eventually(SOON, "the peer claims", || peer.counts().completed == n.unsigned_abs());
    }
    assert!(remote.nothing_begun());
    handler.go();
    assert_eq!(remote.ended().result, Ok(()));
    eventually(SOON, "it is completed", || running.counts().completed == 1);
    let job = job(&mut db.connect(), id);
    assert_eq!((job.attempt, job.generation), (1, 1));
}

/// Polling and listening each come back by themselves, whatever the other does.
#[test]
fn after_every_connection_was_cut_jobs_are_polled_for_and_heard_of() {
    let mut db = postgres::database();
    prepare(&mut db);
    // A plain insert tells nobody, and a poll that comes in an hour does not come.
    let by_poll = "INSERT INTO leasehold.jobs (queue, kind, payload, max_attempts, lease_ms)
        VALUES ('default', 'note', '{\"n\": 1}', 100, 60000)";
    let by_ear = "SELECT leasehold.enqueue('note', '{\"n\": 1}')";
    for (poll, enqueue) in [(Duration::from_millis(50), by_poll), (HOUR, by_ear)] {
        let worker = Worker::<PgConnection, _>::new(db.url(), ()).poll_interval(poll);
        let running = worker.register::<Note>().start().unwrap();
        let mut listener = listens(&mut db, 0);
        for round in 0..3 {
            assert!(db.terminate_connections() > 0);
            // Its return makes the worker look once; the second job cannot be found by that.
            listener = listens(&mut db, listener);
            for jobs in 1..=2 {
                db.sql(enqueue);
                eventually(SOON, "it is completed", || {
                    running.counts().completed == 2 * round + jobs
                });
            }
        }
    }
    assert_eq!(db.integer("SELECT count(*) FROM effects"), 12);
}

/// Waits until somebody else than the session `before` listens for an idle worker; which session.
fn listens(db: &mut postgres::Database, before: i64) -> i64 {
    let session = format!(
        "SELECT coalesce(max(pid), 0) FROM pg_locks
            WHERE locktype = 'advisory' AND classid = 1231318117 AND mode = 'ShareLock' AND pid <> {before}
              AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    );
    let mut listener = 0;
    eventually(SOON, "somebody listens", || {
        listener = db.integer(&session);
        listener != 0
    });
    listener
}
