use leasehold::{EnqueueOptions, Job};
use leasehold_tests::jobs::{Note, SOON, Work, prepare};
use leasehold_tests::{TestDb, WorkerProcess, conformance, eventually};

use crate::PROGRAM;

const JOBS: i64 = 400;

conformance!(
    /// They write into one file on SQLite, and wait for each other: nobody is told that the database is locked.
    fn processes_that_write_at_once_fail_no_attempt(db: &mut Db) {
        let mut conn = prepare(db);
        let url = db.url();
        let processes = [(); 4].map(|()| WorkerProcess::start(PROGRAM, "serve", &url));
        // One by one and in transactions, beside what the processes write.
        for n in (1..=JOBS).step_by(4) {
            Note { n }.enqueue(&mut conn).unwrap();
            let more: Vec<Work> = (n + 1..n + 4).map(|n| Work { n }).collect();
            Work::enqueue_all(&more, &mut conn, &EnqueueOptions::new()).unwrap();
        }
        eventually(SOON, "all have ended", || {
            db.integer("SELECT count(*) FROM leasehold.jobs") == 0
        });
        assert_eq!(db.integer("SELECT count(DISTINCT n) FROM effects"), JOBS);
        assert_eq!(db.integer("SELECT count(*) FROM effects"), JOBS);
        assert_eq!(db.texts("SELECT error FROM leasehold.job_errors"), []);
        let late = "SELECT count(*) FROM leasehold.finished_jobs WHERE attempt <> 1 OR state <> 'completed'";
        assert_eq!(db.integer(late), 0);
        for process in processes {
            let log = process.more_log();
            assert!(log.iter().all(|line| !line.contains("locked")), "{log:#?}");
        }
    }
);
