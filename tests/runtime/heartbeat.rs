use std::time::{Duration, Instant};

use leasehold::{EnqueueOptions, Job, Worker};
use leasehold_tests::jobs::{App, SOON, Step, app, job, prepare};
use leasehold_tests::{TestDb, conformance, eventually};

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
