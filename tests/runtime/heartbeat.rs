use std::time::{Duration, Instant};

use leasehold::manage::{self, Cancel};
use leasehold::{EnqueueOptions, Job, Schema, Worker};
use leasehold_tests::jobs::{App, HOUR, SOON, Step, Then, app, job, prepare};
use leasehold_tests::{TestDb, capture_log, conformance, eventually};

/// Short enough to wait for three, and longer than a busy machine stands still.
const LEASE: Duration = Duration::from_millis(2400);

conformance!(
    fn a_handler_keeps_its_job_for_longer_than_a_lease(db: &mut Db) {
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
        let begun = Instant::now();
        // A peer that would take it, and sweeps all the time.
        let peer = worker(&app).start().unwrap();
        let lease_until = "SELECT lease_until FROM leasehold.jobs";
        let first = db.text(lease_until);
        eventually(SOON, "three leases and a half have passed", || {
            begun.elapsed() > LEASE * 7 / 2
        });
        assert_ne!(db.text(lease_until), first);
        assert!(!handler.watch.is_lost());
        assert!(handler.watch.remaining() > Duration::ZERO);
        assert!(remote.nothing_begun());
        handler.go();
        assert_eq!(remote.ended().result, Ok(()));
        eventually(SOON, "it is completed", || running.counts().completed == 1);
        let job = job(&mut conn, id);
        assert_eq!((job.attempt, job.generation), (1, 1));
        assert_eq!(peer.counts().ended(), 0);
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 1);
    }
);

conformance!(
    fn many_leases_are_renewed_together(db: &mut Db) {
        let mut conn = prepare(db);
        let steps: Vec<Step> = (1..=40).map(Step::waiting).collect();
        let options = EnqueueOptions::new().lease(LEASE);
        Step::enqueue_all(&steps, &mut conn, &options).unwrap();
        let (app, remote) = app();
        let worker = Worker::<Connection, App>::new(db.url(), app).threads(40);
        let running = worker.register::<Step>().start().unwrap();
        let begun: Vec<_> = (0..40).map(|_| remote.begun()).collect();
        let since = Instant::now();
        eventually(SOON, "a lease and a half has passed", || {
            since.elapsed() > LEASE * 3 / 2
        });
        assert!(begun.iter().all(|handler| !handler.watch.is_lost()));
        begun.into_iter().for_each(|handler| handler.go());
        eventually(SOON, "all are completed", || running.counts().completed == 40);
        assert_eq!(running.counts().lost, 0);
    }
);

conformance!(
    /// How often a lease is renewed cannot be chosen: it follows from each job's own lease, also beside a longer one.
    fn a_short_lease_beside_a_long_one_is_renewed_in_time(db: &mut Db) {
        let mut conn = prepare(db);
        let mut enqueue = |n, lease| {
            let options = EnqueueOptions::new().lease(lease);
            Step::waiting(n).enqueue_with(&mut conn, &options).unwrap().id()
        };
        let (app, remote) = app();
        let worker = Worker::<Connection, App>::new(db.url(), app).threads(2);
        let worker = worker.sweep_interval(Duration::from_millis(50));
        enqueue(1, HOUR);
        let running = worker.register::<Step>().start().unwrap();
        let long = remote.begun();
        // By now the heartbeat sleeps until the long one's is due.
        let id = enqueue(2, LEASE);
        let short = remote.begun();
        let since = Instant::now();
        eventually(SOON, "two leases have passed", || since.elapsed() > LEASE * 2);
        assert!(!short.watch.is_lost() && !long.watch.is_lost());
        short.go();
        long.go();
        eventually(SOON, "both are completed", || running.counts().completed == 2);
        assert_eq!(job(&mut conn, id).generation, 1);
        assert!(remote.nothing_begun());
    }
);

/// A trigger that refuses renewals, as a full disk or a lock that lasts too long does.
fn refuse_heartbeats<Db: TestDb>(db: &mut Db) {
    db.sql(match Db::BACKEND {
        "sqlite" => {
            "CREATE TRIGGER refuse BEFORE UPDATE OF lease_until ON leasehold.jobs
                WHEN old.state = 'running' AND new.state = 'running'
                BEGIN SELECT RAISE(ABORT, 'no heartbeats today'); END"
        }
        _ => {
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN RAISE EXCEPTION 'no heartbeats today'; END $$;
            CREATE TRIGGER refuse BEFORE UPDATE OF lease_until ON leasehold.jobs FOR EACH ROW
                WHEN (old.state = 'running' AND new.state = 'running') EXECUTE FUNCTION refuse()"
        }
    });
}

conformance!(
    fn heartbeats_that_are_refused_for_a_while_cost_no_job_and_begin_again(db: &mut Db) {
        let mut conn = prepare(db);
        let options = EnqueueOptions::new().lease(Duration::from_secs(12));
        let steps: Vec<Step> = (1..=2).map(Step::waiting).collect();
        let ids = Step::enqueue_all(&steps, &mut conn, &options).unwrap();
        let log = capture_log();
        refuse_heartbeats(db);
        let (app, remote) = app();
        let worker = Worker::<Connection, App>::new(db.url(), app).threads(2);
        let running = worker.register::<Step>().start().unwrap();
        let begun = [remote.begun(), remote.begun()];
        eventually(SOON, "two heartbeats are refused", || {
            log.with("heartbeat: no heartbeats today").len() + log.with("heartbeat: ERROR:  no heartbeats").len() >= 2
        });
        assert!(begun.iter().all(|handler| !handler.watch.is_lost()));
        let ends = "SELECT max(lease_until) FROM leasehold.jobs";
        let before = db.text(ends);
        db.sql(match Db::BACKEND {
            "sqlite" => "DROP TRIGGER refuse",
            _ => "DROP TRIGGER refuse ON leasehold.jobs",
        });
        eventually(SOON, "they are renewed again", || db.text(ends) > before);
        begun.into_iter().for_each(|handler| handler.go());
        eventually(SOON, "both are completed", || running.counts().completed == 2);
        assert_eq!(running.counts().lost, 0);
        for enqueued in ids {
            assert_eq!(job(&mut conn, enqueued.id()).generation, 1);
        }
    }
);

conformance!(
    fn a_worker_whose_jobs_were_taken_away_goes_on_with_the_next(db: &mut Db) {
        let mut conn = prepare(db);
        let (app, remote) = app();
        let worker = Worker::<Connection, App>::new(db.url(), app).threads(1);
        let running = worker.register::<Step>().start().unwrap();
        for n in 1..=5 {
            let id = Step::waiting(n).enqueue(&mut conn).unwrap().id();
            let handler = remote.begun();
            assert!(manage::cancel(&mut conn, &Schema::default(), id, Cancel::Hard, "ops", "enough").unwrap());
            handler.go();
            assert!(remote.ended().refusal.is_some());
            eventually(SOON, "the loss is counted", || {
                running.counts().lost == n.unsigned_abs()
            });
        }
        Step::now(6, Then::Commit).enqueue(&mut conn).unwrap();
        eventually(SOON, "the next is completed", || running.counts().completed == 1);
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 1);
    }
);
