//! Jobs are cancelled and requeued while they run and commit: whoever comes first counts, and nobody else.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leasehold::inspect::{self, Filter, State};
use leasehold::manage::{self, Cancel};
use leasehold::{Backend, Job, Schema, Worker};
use leasehold_tests::jobs::{SOON, Work, prepare};
use leasehold_tests::{TestDb, conformance, eventually, race_time};

/// Cancels whatever is open, now softly, now hard, until `over`.
fn cancel<C: Backend>(conn: &mut C, over: &AtomicBool, how: [Cancel; 2]) -> u64 {
    let mut cancelled = 0;
    for how in how.into_iter().cycle() {
        if over.load(Ordering::Acquire) {
            break;
        }
        let open = inspect::list(conn, &Schema::default(), &Filter::new().state(State::Running), 0, 3).unwrap();
        for job in open {
            cancelled += u64::from(manage::cancel(conn, &Schema::default(), job.id, how, "ops", "race").unwrap());
        }
        thread::sleep(Duration::from_millis(1));
    }
    cancelled
}

/// Requeues what was cancelled, until `over`.
fn requeue<C: Backend>(conn: &mut C, over: &AtomicBool) -> u64 {
    let mut requeued = 0;
    let cancelled = Filter::new().state(State::Cancelled);
    while !over.load(Ordering::Acquire) {
        requeued += manage::requeue_all(conn, &Schema::default(), &cancelled, "ops")
            .unwrap()
            .requeued;
        thread::sleep(Duration::from_millis(2));
    }
    requeued
}

conformance!(
    fn a_job_has_its_effect_if_and_only_if_it_was_completed(db: &mut Db) {
        let mut conn = prepare(db);
        let running = Worker::<Connection, _>::new(db.url(), ())
            .threads(8)
            .sweep_interval(Duration::from_millis(50))
            .register::<Work>()
            .start()
            .unwrap();
        let over = &AtomicBool::new(false);
        let until = Instant::now() + race_time();
        let hows = [[Cancel::Hard, Cancel::Soft], [Cancel::Soft, Cancel::Hard]];
        let mut others: Vec<Connection> = (0..3).map(|_| db.connect()).collect();
        let mut third = others.pop().unwrap();
        let (mut jobs, mut cancelled, mut requeued) = (0, 0, 0);
        thread::scope(|scope| {
            let cancels: Vec<_> = others
                .iter_mut()
                .zip(hows)
                .map(|(conn, how)| scope.spawn(move || cancel(conn, over, how)))
                .collect();
            let requeues = scope.spawn(|| requeue(&mut third, over));
            while Instant::now() < until {
                jobs += 1;
                Work { n: jobs }.enqueue(&mut conn).unwrap();
                // No faster than they run.
                thread::sleep(Duration::from_millis(5));
            }
            over.store(true, Ordering::Release);
            cancelled = cancels.into_iter().map(|thread| thread.join().unwrap()).sum();
            requeued = requeues.join().unwrap();
        });
        eventually(SOON, "every job has ended", || {
            db.integer("SELECT count(*) FROM leasehold.jobs") == 0
        });
        drop(running);
        let completed = "SELECT CAST(payload->>'n' AS bigint) FROM leasehold.finished_jobs WHERE state = 'completed'";
        let effects = "SELECT n FROM effects";
        assert_eq!(
            db.integer("SELECT count(*) FROM leasehold.finished_jobs"),
            jobs,
            "none is missing"
        );
        assert_eq!(
            db.integer("SELECT count(*) - count(DISTINCT n) FROM effects"),
            0,
            "none has two"
        );
        for (more, less) in [(completed, effects), (effects, completed)] {
            let odd = format!("SELECT count(*) FROM ({more} EXCEPT {less}) AS odd");
            assert_eq!(db.integer(&odd), 0, "{more} EXCEPT {less}");
        }
        // Or there was no race.
        assert!(
            cancelled > 0 && requeued > 0,
            "{cancelled} cancelled, {requeued} requeued of {jobs}"
        );
        eprintln!("{}: {jobs} jobs, {cancelled} cancels, {requeued} requeued", Db::BACKEND);
    }
);
