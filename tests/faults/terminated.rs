use std::time::Duration;

use diesel::PgConnection;
use leasehold::{EnqueueOptions, Job, Worker};
use leasehold_tests::jobs::{Note, SOON, prepare};
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
