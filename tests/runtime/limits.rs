use std::time::{Duration, Instant};

use leasehold::{EnqueueOptions, Handler, Job, LeaseGuard, Outcome, Worker};
use leasehold_tests::jobs::{App, Begun, Effects, HOUR, SOON, Step, Then, app, claim_and_die, prepare};
use leasehold_tests::{TestDb, conformance, eventually};
use serde::{Deserialize, Serialize};

/// A [`Step`] of which two may run at a time for each tenant.
#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(
    kind = "pair",
    concurrency(by = "tenant", max = 2),
    backoff = "fixed(20ms)",
    max_attempts = 5
)]
struct Pair {
    tenant: u64,
    step: Step,
}

/// One at a time, in order.
#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(kind = "turn", serial, backoff = "fixed(20ms)", max_attempts = 5)]
struct Turn {
    step: Step,
}

/// One in half a second.
#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(kind = "rated", rate(max = 1, per = "500ms"))]
struct Rated {
    step: Step,
}

/// One in an hour.
#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(kind = "hourly", rate(max = 1, per = "1h"))]
struct Hourly {
    step: Step,
}

macro_rules! runs_its_step {
    ($($J:ty),*) => {$(
        impl<C: Effects> Handler<C, App> for $J {
            fn run<'j>(self, lease: LeaseGuard<'j, C>, app: &App) -> Outcome<'j> {
                self.step.run(lease, app)
            }
        }
    )*};
}
runs_its_step!(Pair, Turn, Rated, Hourly);

/// Five that wait for the test's word.
fn five() -> Vec<Pair> {
    (1..=5)
        .map(|n| Pair {
            tenant: 1,
            step: Step::waiting(n),
        })
        .collect()
}

conformance!(
    fn no_more_than_the_limit_runs_and_each_end_lets_the_next_through_without_a_poll(db: &mut Db) {
        let mut conn = prepare(db);
        for (unbatched, prefetch) in [(false, 0), (false, 10), (true, 0)] {
            let (app, remote) = app();
            let worker = Worker::<Connection, App>::new(db.url(), app)
                .threads(4)
                .fixed_batch(prefetch)
                .poll_interval(HOUR);
            let worker = if unbatched { worker.unbatched() } else { worker };
            let running = worker.register::<Pair>().register::<Step>().start().unwrap();
            Pair::enqueue_all(&five(), &mut conn, &EnqueueOptions::new()).unwrap();
            let mut begun: Vec<Begun> = (0..2).map(|_| remote.begun()).collect();
            // A thread is idle, and takes what has no limit.
            Step::now(9, Then::Finish).enqueue(&mut conn).unwrap();
            assert_eq!(remote.begun().n, 9);
            for _ in 0..3 {
                assert!(remote.nothing_begun());
                begun.remove(0).go();
                begun.push(remote.begun());
            }
            begun.into_iter().for_each(Begun::go);
            eventually(SOON, "all are completed", || running.counts().completed == 6);
        }
    }
);

conformance!(
    fn a_job_of_a_dead_worker_holds_its_place_until_it_is_swept_and_then_runs(db: &mut Db) {
        let mut conn = prepare(db);
        let limits = [leasehold::__private::limit_of::<Pair>()];
        Pair::enqueue_all(&five(), &mut conn, &EnqueueOptions::new().lease(Duration::from_secs(2))).unwrap();
        leasehold::__private::admit_all(&mut conn, &leasehold::Schema::default(), &limits).unwrap();
        claim_and_die::<Pair, _>(&mut conn, true);
        claim_and_die::<Pair, _>(&mut conn, true);
        let (app, remote) = app();
        let worker = Worker::<Connection, App>::new(db.url(), app)
            .threads(4)
            .poll_interval(HOUR);
        let running = worker
            .sweep_interval(Duration::from_millis(50))
            .register::<Pair>()
            .start()
            .unwrap();
        let begun: Vec<Begun> = (0..2).map(|_| remote.begun()).collect();
        assert!(remote.nothing_begun());
        assert_eq!(
            db.integer("SELECT count(*) FROM leasehold.jobs WHERE state = 'running'"),
            2
        );
        // The two oldest again.
        let mut attempts: Vec<_> = begun.iter().map(|begun| (begun.n, begun.attempt)).collect();
        attempts.sort_unstable();
        assert_eq!(attempts, [(1, 2), (2, 2)]);
        begun.into_iter().for_each(Begun::go);
        (0..3).for_each(|_| remote.begun().go());
        eventually(SOON, "all are completed", || running.counts().completed == 5);
    }
);

conformance!(
    fn serial_jobs_run_in_order_over_two_workers_through_failures(db: &mut Db) {
        let mut conn = prepare(db);
        let jobs: Vec<Turn> = (1..=12)
            .map(|n| {
                let then = if n % 3 == 0 { Then::FailUntil(3) } else { Then::Commit };
                Turn {
                    step: Step::now(n, then),
                }
            })
            .collect();
        Turn::enqueue_all(&jobs, &mut conn, &EnqueueOptions::new()).unwrap();
        let (app, remote) = app();
        let running = [app.clone(), app].map(|app| {
            let worker = Worker::<Connection, App>::new(db.url(), app).threads(3).fixed_batch(3);
            worker
                .poll_interval(Duration::from_millis(100))
                .register::<Turn>()
                .start()
                .unwrap()
        });
        eventually(SOON, "all are completed", || {
            running.iter().map(|running| running.counts().completed).sum::<u64>() == 12
        });
        drop(running);
        let order: Vec<(i64, u32)> = remote
            .into_channels()
            .0
            .try_iter()
            .map(|begun| (begun.n, begun.attempt))
            .collect();
        let expected: Vec<(i64, u32)> = (1..=12)
            .flat_map(|n| (1..=if n % 3 == 0 { 3 } else { 1 }).map(move |attempt| (n, attempt)))
            .collect();
        assert_eq!(order, expected);
    }
);

conformance!(
    fn a_rate_is_kept_and_the_worker_wakes_when_it_has_room_again(db: &mut Db) {
        let mut conn = prepare(db);
        for prefetch in [0, 5] {
            let jobs: Vec<Rated> = (1..=3)
                .map(|n| Rated {
                    step: Step::now(n, Then::Commit),
                })
                .collect();
            Rated::enqueue_all(&jobs, &mut conn, &EnqueueOptions::new()).unwrap();
            let (app, _remote) = app();
            // Nothing but the known instant can wake it.
            let worker = Worker::<Connection, App>::new(db.url(), app)
                .poll_interval(HOUR)
                .fixed_batch(prefetch);
            let running = worker.register::<Rated>().start().unwrap();
            eventually(SOON, "all are completed", || running.counts().completed == 3);
        }
        let ms = if Db::BACKEND == "postgres" {
            "CAST(extract(epoch FROM at) * 1000 AS bigint)"
        } else {
            "at"
        };
        let at: Vec<i64> = db
            .texts(&format!("SELECT CAST({ms} AS text) FROM leasehold.starts ORDER BY at"))
            .into_iter()
            .map(|at| at.unwrap().parse().unwrap())
            .collect();
        // The sweep removes those that are out of the period; the last one is there in any case.
        assert!(
            !at.is_empty() && at.windows(2).all(|pair| pair[1] - pair[0] >= 499),
            "{at:?}"
        );
    }
);

conformance!(
    fn a_rate_has_room_again_while_the_jobs_before_still_run(db: &mut Db) {
        let mut conn = prepare(db);
        for prefetch in [0, 5] {
            let jobs: Vec<Rated> = (1..=3).map(|n| Rated { step: Step::waiting(n) }).collect();
            Rated::enqueue_all(&jobs, &mut conn, &EnqueueOptions::new()).unwrap();
            let (app, remote) = app();
            let worker = Worker::<Connection, App>::new(db.url(), app)
                .poll_interval(HOUR)
                .fixed_batch(prefetch)
                .threads(4);
            let running = worker.register::<Rated>().start().unwrap();
            let begun: Vec<Begun> = (0..3).map(|_| remote.begun()).collect();
            begun.into_iter().for_each(Begun::go);
            eventually(SOON, "all are completed", || running.counts().completed == 3);
        }
    }
);

conformance!(
    fn a_batch_waits_for_those_that_will_be_let_through_and_not_for_those_that_will_not(db: &mut Db) {
        let mut conn = prepare(db);
        let step = |n| Step::now(n, Then::Finish);
        for n in 1..=3 {
            Rated { step: step(n) }.enqueue(&mut conn).unwrap();
            Turn { step: step(n) }.enqueue(&mut conn).unwrap();
            Hourly { step: step(n) }.enqueue(&mut conn).unwrap();
        }
        let (app, _remote) = app();
        let since = Instant::now();
        let worker = Worker::<Connection, App>::new(db.url(), app).patience(Duration::from_secs(30));
        let summary = worker
            .register::<Rated>()
            .register::<Turn>()
            .register::<Hourly>()
            .run_until_empty()
            .unwrap();
        assert_eq!((summary.counts.completed, summary.blocked), (7, 2));
        assert!(since.elapsed() >= Duration::from_secs(1), "{:?}", since.elapsed());
        assert!(summary.is_success());
    }
);

conformance!(
    fn a_batch_gives_up_on_a_limit_that_nobody_frees_within_its_patience(db: &mut Db) {
        let mut conn = prepare(db);
        // Admitted into a queue that nobody serves: it holds the only place.
        let elsewhere = EnqueueOptions::new().queue("elsewhere");
        Turn {
            step: Step::now(1, Then::Finish),
        }
        .enqueue_with(&mut conn, &elsewhere)
        .unwrap();
        Turn {
            step: Step::now(2, Then::Finish),
        }
        .enqueue(&mut conn)
        .unwrap();
        let (app, _remote) = app();
        let worker = Worker::<Connection, App>::new(db.url(), app).patience(Duration::from_millis(500));
        let summary = worker.register::<Turn>().run_until_empty().unwrap();
        assert_eq!((summary.counts.completed, summary.blocked), (0, 1));
    }
);

conformance!(
    fn the_runner_of_tests_lets_jobs_through_in_a_tests_own_transaction(db: &mut Db) {
        use diesel::Connection as _;
        let mut conn = prepare(db);
        conn.begin_test_transaction().unwrap();
        let (app, _remote) = app();
        for n in 1..=3 {
            Turn {
                step: Step::now(n, Then::Finish),
            }
            .enqueue(&mut conn)
            .unwrap();
            Hourly {
                step: Step::now(n, Then::Finish),
            }
            .enqueue(&mut conn)
            .unwrap();
        }
        let runner = leasehold::testing::Runner::<Connection, App>::new(app)
            .register::<Turn>()
            .register::<Hourly>();
        assert_eq!(runner.drain(&mut conn).unwrap().completed, 4);
    }
);
