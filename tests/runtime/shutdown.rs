use std::time::{Duration, Instant};

use leasehold::{EnqueueOptions, Job, Refusal, Worker};
use leasehold_tests::jobs::{App, HOUR, SOON, Step, Then, app, job, prepare};
use leasehold_tests::{TestDb, capture_log, conformance, eventually};

conformance!(
    fn a_gentle_shutdown_waits_for_what_runs_and_claims_nothing_more(db: &mut Db) {
        let mut conn = prepare(db);
        let steps: Vec<Step> = (1..=4).map(Step::waiting).collect();
        Step::enqueue_all(&steps, &mut conn, &EnqueueOptions::new()).unwrap();
        let (app, remote) = app();
        let worker = Worker::<Connection, App>::new(db.url(), app).threads(2);
        let running = worker.register::<Step>().start().unwrap();
        eventually(SOON, "it shows itself", || {
            db.integer("SELECT count(*) FROM leasehold.workers") == 1
        });
        let begun = [remote.begun(), remote.begun()];
        let worker = db.text("SELECT CAST(id AS text) FROM leasehold.workers").unwrap();
        let log = capture_log();
        let report = std::thread::scope(|scope| {
            let shutdown = scope.spawn(|| running.shutdown(SOON));
            eventually(SOON, "it claims nothing more", || {
                !log.with(&format!("stopping worker={worker}")).is_empty()
            });
            let [one, two] = begun;
            one.go();
            assert_eq!(remote.ended().result, Ok(()));
            assert!(!shutdown.is_finished());
            two.go();
            shutdown.join().unwrap()
        });
        assert_eq!((report.completed, report.released, report.abandoned), (2, 0, 0));
        assert!(remote.nothing_begun());
        assert_eq!(
            db.integer("SELECT count(*) FROM leasehold.jobs WHERE state = 'ready' AND attempt = 0"),
            2
        );
        assert_eq!(
            db.integer("SELECT count(*) FROM leasehold.finished_jobs WHERE state = 'completed'"),
            2
        );
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.workers"), 0);
    }
);

conformance!(
    fn an_idle_worker_stops_without_waiting_for_a_poll(db: &mut Db) {
        let mut conn = prepare(db);
        for unbatched in [false, true] {
            let (app, remote) = app();
            let worker = Worker::<Connection, App>::new(db.url(), app)
                .poll_interval(HOUR)
                .sweep_interval(HOUR);
            let worker = if unbatched { worker.unbatched() } else { worker };
            let running = worker.register::<Step>().start().unwrap();
            Step::now(1, Then::Finish).enqueue(&mut conn).unwrap();
            remote.begun();
            eventually(SOON, "it is idle", || running.leases_held() == 0);
            let since = Instant::now();
            let report = running.shutdown(HOUR);
            assert_eq!((report.released, report.abandoned), (0, 0));
            assert!(since.elapsed() < SOON, "it took {:?}", since.elapsed());
        }
    }
);

conformance!(
    fn at_the_deadline_running_handlers_are_fenced_and_lose_no_attempt(db: &mut Db) {
        let mut conn = prepare(db);
        let id = Step::waiting(1).enqueue(&mut conn).unwrap().id();
        let (app, remote) = app();
        let worker = Worker::<Connection, App>::new(db.url(), app).threads(2);
        let running = worker.register::<Step>().start().unwrap();
        let late = remote.begun();
        let report = running.shutdown(Duration::from_millis(200));
        assert_eq!((report.completed, report.released, report.abandoned), (0, 0, 1));
        let put_back = job(&mut conn, id);
        assert_eq!(
            (put_back.state.as_str(), put_back.attempt, put_back.generation),
            ("ready", 0, 2)
        );
        assert!(late.watch.is_lost());
        late.go();
        assert_eq!(remote.ended().refusal, Some(Refusal::Lost { generation: 2 }));
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 0);
        assert_eq!(job(&mut conn, id).generation, 2);
    }
);

conformance!(
    /// By the database alone: the handler's own view of its lease is asked for nothing.
    fn a_dropped_worker_puts_its_jobs_back(db: &mut Db) {
        let mut conn = prepare(db);
        let id = Step::waiting(1).enqueue(&mut conn).unwrap().id();
        let (app, remote) = app();
        let worker = |app: &App| Worker::<Connection, App>::new(db.url(), app.clone()).register::<Step>();
        let running = worker(&app).start().unwrap();
        let late = remote.begun();
        drop(running);
        let other = worker(&app).start().unwrap();
        let again = remote.begun();
        assert_eq!((again.id, again.attempt, again.generation), (id, 1, 3));
        late.go();
        assert!(matches!(remote.ended().refusal, Some(Refusal::Lost { .. })));
        again.go();
        assert_eq!(remote.ended().result, Ok(()));
        eventually(SOON, "it is completed", || other.counts().completed == 1);
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 1);
    }
);

conformance!(
    fn leases_are_renewed_until_the_last_handler_has_returned(db: &mut Db) {
        const LEASE: Duration = Duration::from_millis(2400);
        let mut conn = prepare(db);
        let options = EnqueueOptions::new().lease(LEASE);
        let id = Step::waiting(1).enqueue_with(&mut conn, &options).unwrap().id();
        let (app, remote) = app();
        let worker = |app: &App| {
            let worker = Worker::<Connection, App>::new(db.url(), app.clone());
            worker.sweep_interval(Duration::from_millis(50)).register::<Step>()
        };
        let running = worker(&app).start().unwrap();
        let handler = remote.begun();
        let peer = worker(&app).start().unwrap();
        let report = std::thread::scope(|scope| {
            let shutdown = scope.spawn(|| running.shutdown(SOON));
            let since = Instant::now();
            eventually(SOON, "two leases and a half have passed", || {
                since.elapsed() > LEASE * 5 / 2
            });
            assert!(!handler.watch.is_lost());
            assert!(remote.nothing_begun());
            handler.go();
            shutdown.join().unwrap()
        });
        assert_eq!((report.completed, report.abandoned), (1, 0));
        assert_eq!(remote.ended().result, Ok(()));
        assert_eq!(job(&mut conn, id).generation, 1);
        assert_eq!(peer.counts().ended(), 0);
    }
);
