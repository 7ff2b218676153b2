//! Schedules are fired by workers that are restarted and killed: each fire time once, and none is missed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use leasehold::schedule::{self, Missed, Schedule};
use leasehold::{Schema, Worker};
use leasehold_tests::jobs::{SOON, Work, prepare};
use leasehold_tests::{Over, TestDb, WorkerProcess, conformance, eventually, race_time};

const PROGRAM: &str = env!("CARGO_BIN_EXE_leasehold-test-worker");
const THREADS: usize = 4;
const PROCESSES: usize = 4;
const NAMES: [&str; 3] = ["first", "second", "third"];
/// The pace of restarts and kills.
const PACE: Duration = Duration::from_millis(150);

fn fires<D: TestDb>(db: &mut D, name: &str) -> i64 {
    db.integer(&format!(
        "SELECT count(*) FROM leasehold.fires WHERE schedule = '{name}'"
    ))
}

/// Whatever is due is fired by a worker; then all of its fires are in the database.
fn settle<D: TestDb>(db: &mut D) {
    let mut conn = db.connect();
    for name in NAMES {
        schedule::pause(&mut conn, &Schema::default(), name, "ops").unwrap();
    }
    eventually(SOON, "no job is left", || {
        db.integer("SELECT count(*) FROM leasehold.jobs") == 0
    });
}

conformance!(
    /// Workers that are restarted and processes that are killed all fire the same schedules of every second.
    fn racing_and_dying_workers_fire_each_time_once_and_miss_none(db: &mut Db) {
        let mut conn = prepare(db);
        for (index, name) in NAMES.iter().enumerate() {
            let schedule = Schedule::new(*name, "* * * * * *").missed(Missed::RunAll { at_most: 1000 });
            let n = i64::try_from(index).unwrap();
            schedule::put(&mut conn, &Schema::default(), &schedule.job(&Work { n })).unwrap();
        }
        let (stop, url, begun) = (AtomicBool::new(false), db.url(), Instant::now());
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (stop, url) = (&stop, &url);
                scope.spawn(move || {
                    while !stop.load(Ordering::Acquire) {
                        let worker = Worker::<Connection, _>::new(url, ()).threads(1);
                        let running = worker.sweep_interval(PACE).register::<Work>().start().unwrap();
                        std::thread::sleep(PACE * u32::try_from(thread + 1).unwrap());
                        drop(running);
                    }
                });
            }
            let over = Over(&stop);
            let start = || WorkerProcess::start(PROGRAM, "serve", &url);
            let mut processes: Vec<_> = (0..PROCESSES).map(|_| start()).collect();
            while begun.elapsed() < race_time() {
                std::thread::sleep(PACE);
                let victim = usize::from(uuid::Uuid::new_v4().as_bytes()[0]) % PROCESSES;
                processes[victim].kill();
                processes[victim] = start();
            }
            eventually(SOON, "each has fired more than once", || {
                NAMES.iter().all(|name| fires(db, name) >= 3)
            });
            // One of them goes on, and runs what the killed ones had.
            processes.truncate(1);
            drop(over);
            settle(db);
        });

        for name in NAMES {
            let fires = fires(db, name);
            let seconds = db.integer(&match Db::BACKEND {
                "sqlite" => format!("SELECT (max(fire_at) - min(fire_at)) / 1000 + 1 FROM leasehold.fires WHERE schedule = '{name}'"),
                _ => format!(
                    "SELECT extract(epoch FROM max(fire_at) - min(fire_at))::bigint + 1 FROM leasehold.fires WHERE schedule = '{name}'"
                ),
            });
            assert_eq!(fires, seconds, "{name} has missed none");
            // Each fire has one job, and no job is without its fire.
            let key = format!("'schedule:{name}:%'");
            let jobs = format!("FROM leasehold.finished_jobs WHERE idempotency_key LIKE {key}");
            assert_eq!(db.integer(&format!("SELECT count(*) {jobs}")), fires);
            assert_eq!(
                db.integer(&format!("SELECT count(DISTINCT idempotency_key) {jobs}")),
                fires
            );
            let linked = format!(
                "SELECT count(*) FROM leasehold.fires AS f JOIN leasehold.finished_jobs AS j ON j.id = f.job_id
                 WHERE f.schedule = '{name}' AND j.idempotency_key LIKE {key}"
            );
            assert_eq!(db.integer(&linked), fires);
        }
    }
);
