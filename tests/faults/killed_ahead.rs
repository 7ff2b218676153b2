//! Processes that are killed while they have claimed jobs ahead.

use leasehold::{EnqueueOptions, Job, Worker};
use leasehold_tests::jobs::{App, Note, SOON, Step, app, prepare};
use leasehold_tests::{TestDb, WorkerProcess, conformance, eventually};

use crate::PROGRAM;

/// A process that has run quick jobs, so that it claims ahead.
fn warm<Db: TestDb>(db: &mut Db, conn: &mut Db::Connection) -> WorkerProcess {
    let process = WorkerProcess::start(PROGRAM, "serve", &db.url());
    let notes = vec![Note { n: 0 }; 40];
    Note::enqueue_all(&notes, conn, &EnqueueOptions::new()).unwrap();
    eventually(SOON, "the quick jobs are done", || {
        db.integer("SELECT count(*) FROM leasehold.jobs WHERE kind = 'note'") == 0
    });
    process
}

/// Ends the leases of a dead process.
fn expire<Db: TestDb>(db: &mut Db) {
    if db.integer("SELECT count(*) FROM leasehold.jobs WHERE state = 'running'") > 0 {
        db.set_time("leasehold.jobs", "lease_until", -1, "state = 'running'");
    }
}

conformance!(
    fn jobs_that_a_killed_process_had_not_begun_keep_all_their_attempts(db: &mut Db) {
        let mut conn = prepare(db);
        let mut process = warm(db, &mut conn);
        let steps: Vec<Step> = (1..=8).map(Step::waiting).collect();
        Step::enqueue_all(&steps, &mut conn, &EnqueueOptions::new()).unwrap();
        // Both of its threads are at one, and the rest lies in line or was put back.
        let begun = [process.line(), process.line()];
        process.kill();
        expire(db);
        let (app, remote) = app();
        let running = Worker::<Connection, App>::new(db.url(), app)
            .threads(8)
            .sweep_interval(std::time::Duration::from_millis(50))
            .register::<Step>()
            .start()
            .unwrap();
        for _ in &steps {
            let handler = remote.begun();
            if !begun.contains(&format!("begun {} 1", handler.n)) {
                assert_eq!(handler.attempt, 1, "step {}: {begun:?}", handler.n);
            }
            handler.go();
        }
        eventually(SOON, "all are done", || running.counts().completed == 8);
    }
);

conformance!(
    /// The first time it may not be known whether it had begun; from then on it is.
    fn a_job_that_kills_its_process_begins_once_more_than_it_may_at_the_most(db: &mut Db) {
        let mut conn = prepare(db);
        let sweeps = Worker::<Connection, ()>::new(db.url(), ())
            .queues(["nothing"])
            .sweep_interval(std::time::Duration::from_millis(50))
            .register::<Note>()
            .start()
            .unwrap();
        let twice = EnqueueOptions::new().max_attempts(2);
        let mut begins = 0;
        loop {
            let mut process = warm(db, &mut conn);
            if begins == 0 {
                Step::waiting(7).enqueue_with(&mut conn, &twice).unwrap();
            }
            let said = process.line();
            assert!(said.starts_with("begun 7 "), "{said}");
            begins += 1;
            process.kill();
            expire(db);
            eventually(SOON, "its lease is swept", || {
                db.integer("SELECT count(*) FROM leasehold.jobs WHERE state = 'running'") == 0
            });
            if db.integer("SELECT count(*) FROM leasehold.jobs") == 0 {
                break;
            }
            assert!(begins < 3, "it begins again and again");
        }
        assert!(begins >= 2, "it has lost an attempt that it had");
        let discarded = "SELECT count(*) FROM leasehold.finished_jobs WHERE state = 'discarded' AND attempt = 2";
        assert_eq!(db.integer(discarded), 1);
        drop(sweeps);
    }
);
