use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};
use leasehold::{EnqueueOptions, Health, HealthLimits, Hooks, Job, JobInfo, Problem, Worker};
use leasehold_tests::jobs::{App, HOUR, Hasty, SOON, Step, Then, app, prepare};
use leasehold_tests::{TestDb, conformance, eventually};

fn names(health: &Health) -> Vec<&'static str> {
    health.problems().iter().map(Problem::name).collect()
}

conformance!(
    fn a_worker_is_live_and_ready_until_it_stops(db: &mut Db) {
        let mut conn = prepare(db);
        Step::waiting(1).enqueue(&mut conn).unwrap();
        let (app, remote) = app();
        let running = Worker::<Connection, App>::new(db.url(), app)
            .register::<Step>()
            .start()
            .unwrap();
        let handler = remote.begun();
        // It may be slow for a moment, but nothing is wrong with it for longer.
        eventually(SOON, "it is ready", || running.health().is_ready());
        assert!(running.health().is_live());
        assert_eq!(running.health().to_string(), "ready");
        let probe = running.probe();
        handler.go();
        running.shutdown(HOUR);
        let health = probe.health();
        assert_eq!(names(&health), ["stopping"]);
        assert!(health.is_live() && !health.is_ready());
        assert_eq!(health.to_string(), "the worker stops");
    }
);

conformance!(
    fn as_many_stuck_handlers_as_threads_ask_for_a_restart(db: &mut Db) {
        let mut conn = prepare(db);
        let options = EnqueueOptions::new().max_attempts(1);
        let steps = [1, 2].map(|n| Hasty { step: Step::waiting(n) });
        Hasty::enqueue_all(&steps, &mut conn, &options).unwrap();
        let (app, remote) = app();
        let worker = Worker::<Connection, App>::new(db.url(), app).threads(2);
        let running = worker.register::<Hasty>().start().unwrap();
        let handlers = [remote.begun(), remote.begun()];
        eventually(SOON, "both are stuck", || running.stuck_handlers() == 2);
        let health = running.health();
        let (count, limit) = (2, 2);
        let stuck = Problem::HandlersStuck { handlers: count, limit };
        assert!(health.problems().contains(&stuck), "{health}");
        assert!(!health.is_live());
        let more = HealthLimits::default().stuck_handlers(3);
        assert!(running.health_by(&more).is_live());
        handlers.into_iter().for_each(|handler| handler.go());
        eventually(SOON, "the threads are free", || running.health().is_live());
    }
);

/// Keeps the thread that tells it of a completion until the test says so.
struct Slow(Receiver<()>);

impl Hooks for Slow {
    fn completed(&self, _: &JobInfo<'_>) {
        let _ = self.0.recv();
    }
}

conformance!(
    fn a_hook_that_does_not_return_is_told_as_a_thread_that_is_stuck(db: &mut Db) {
        let mut conn = prepare(db);
        Step::now(1, Then::Finish).enqueue(&mut conn).unwrap();
        let (app, _remote) = app();
        let (go, wait) = bounded(0);
        let worker = Worker::<Connection, App>::new(db.url(), app).hooks(Slow(wait));
        let running = worker.register::<Step>().start().unwrap();
        let impatient = HealthLimits::default().thread(Duration::from_millis(100));
        eventually(SOON, "it is told", || {
            let health = running.health_by(&impatient);
            let stuck =
                |problem: &Problem| matches!(problem, Problem::ThreadStuck { thread, .. } if thread == "settler");
            health.problems().iter().any(stuck) && !health.is_live()
        });
        assert!(running.health().is_live(), "for five minutes it may be");
        drop(go);
        eventually(SOON, "it goes on", || running.health_by(&impatient).is_live());
    }
);

#[cfg(feature = "postgres")]
mod away {
    use diesel::PgConnection;
    use leasehold_tests::jobs::{Charge, Note};
    use leasehold_tests::postgres;
    use leasehold_tests::proxy::{Fault, Proxy};

    use super::*;

    /// Through a proxy, with a handler that holds a short lease.
    #[test]
    fn a_database_that_is_away_is_told_with_the_leases_that_were_not_renewed() {
        let mut db = postgres::database();
        let mut conn = prepare(&mut db);
        let folder = tempfile::tempdir().unwrap();
        let charge = Charge {
            n: 1,
            calls: folder.path().join("calls"),
            then: Then::Finish,
        };
        charge.enqueue(&mut conn).unwrap();
        let proxy = Proxy::start(&db.url());
        let (app, remote) = app();
        let worker = Worker::<PgConnection, App>::new(proxy.url(), app)
            .poll_interval(Duration::from_millis(50))
            .sweep_interval(Duration::from_millis(50));
        let running = worker.register::<Charge>().start().unwrap();
        let handler = remote.begun();
        let limits = HealthLimits::default().database(Duration::from_millis(500));
        eventually(SOON, "it is ready", || running.health_by(&limits).is_ready());
        proxy.redirect("postgres://postgres@/none?host=/nowhere");
        proxy.always("", Fault::LoseRequest);
        eventually(SOON, "it is not ready", || {
            let health = running.health_by(&limits);
            let names = names(&health);
            assert!(health.is_live(), "{health}");
            ["database_away", "leases_not_renewed"]
                .iter()
                .all(|name| names.contains(name))
        });
        proxy.heal();
        proxy.redirect(&db.url());
        eventually(SOON, "the database is back", || {
            !names(&running.health_by(&limits)).contains(&"database_away")
        });
        handler.go();
        eventually(SOON, "the leases are those of the living", || {
            running.health_by(&limits).is_ready()
        });
    }

    /// A statement waits for a table that somebody has locked.
    #[test]
    fn a_database_that_does_not_answer_is_told() {
        let mut db = postgres::database();
        prepare(&mut db);
        let proxy = Proxy::start(&db.url());
        let (app, _remote) = app();
        let worker = Worker::<PgConnection, App>::new(proxy.url(), app).sweep_interval(Duration::from_millis(20));
        let running = worker.register::<Note>().start().unwrap();
        let limits = HealthLimits::default().database(Duration::from_millis(300));
        proxy.always("lock_timeout = '200ms'", Fault::Stall(Duration::from_secs(2)));
        eventually(SOON, "it is told", || {
            names(&running.health_by(&limits)).contains(&"database_silent")
        });
        assert!(running.health_by(&limits).is_live());
        proxy.heal();
        eventually(SOON, "it answers", || running.health_by(&limits).is_ready());
    }
}
