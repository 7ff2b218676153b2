use std::time::{Duration, Instant};

use leasehold::{EnqueueOptions, Job};
use leasehold_tests::jobs::{Work, prepare};
use leasehold_tests::{TestDb, WorkerProcess, conformance};

use crate::PROGRAM;

const JOBS: i64 = 300;
const KILL_EVERY: Duration = Duration::from_millis(200);
/// A bound, so that the test ends on a machine that starts programs more slowly than they are killed.
const MOST_KILLS: usize = 100;
const DEADLINE: Duration = Duration::from_secs(180);

conformance!(
    /// Each job commits one row. Whatever a killed process was doing, every row is there once.
    fn killed_worker_processes_lose_no_job_and_run_none_twice(db: &mut Db) {
        let mut conn = prepare(db);
        let work: Vec<Work> = (1..=JOBS).map(|n| Work { n }).collect();
        Work::enqueue_all(&work, &mut conn, &EnqueueOptions::new()).unwrap();
        let url = db.url();
        let start = || WorkerProcess::start(PROGRAM, "serve", &url);
        let mut processes = [start(), start(), start()];
        let begin = Instant::now();
        let mut kills = 0;
        loop {
            // The pace of the kills, nothing that is waited for.
            std::thread::sleep(KILL_EVERY);
            let left = db.integer("SELECT count(*) FROM leasehold.jobs");
            if left == 0 {
                break;
            }
            assert!(begin.elapsed() < DEADLINE, "{left} jobs are left after {kills} kills");
            if kills < MOST_KILLS {
                let victim = usize::from(uuid::Uuid::new_v4().as_bytes()[0]) % processes.len();
                processes[victim].kill();
                processes[victim] = start();
                kills += 1;
            }
        }
        drop(processes);
        assert!(kills > 0, "the jobs were done before the first kill");
        assert_eq!(db.integer("SELECT count(*) FROM effects"), JOBS);
        assert_eq!(db.integer("SELECT count(DISTINCT n) FROM effects"), JOBS);
        let completed = "SELECT count(*) FROM leasehold.finished_jobs WHERE state = 'completed'";
        assert_eq!(db.integer(completed), JOBS);
    }
);
