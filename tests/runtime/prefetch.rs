use leasehold::{EnqueueOptions, Job, Worker};
use leasehold_tests::jobs::{App, SOON, Step, app, claim_and_die, job, prepare};
use leasehold_tests::{TestDb, conformance, eventually};

conformance!(
    fn jobs_are_claimed_ahead_and_given_back_unharmed_at_shutdown(db: &mut Db) {
        let mut conn = prepare(db);
        let steps: Vec<Step> = (1..=4).map(Step::waiting).collect();
        Step::enqueue_all(&steps, &mut conn, &EnqueueOptions::new()).unwrap();
        let (app, remote) = app();
        let worker = Worker::<Connection, App>::new(db.url(), app).threads(1).prefetch(4);
        let running = worker.register::<Step>().start().unwrap();
        let first = remote.begun();
        // All are held, and one alone would lose an attempt by a crash.
        let held = "SELECT count(*) FROM leasehold.jobs WHERE state = 'running'";
        let begun = "SELECT count(*) FROM leasehold.jobs WHERE begun AND attempt = 1";
        assert_eq!((db.integer(held), db.integer(begun)), (4, 1));
        assert_eq!(running.leases_held(), 4);
        first.go();
        let second = remote.begun();
        assert_eq!((db.integer(held), db.integer(begun)), (3, 1));
        assert_eq!(db.integer("SELECT id FROM leasehold.jobs WHERE begun"), second.id);
        let report = std::thread::scope(|scope| {
            let shutdown = scope.spawn(|| running.shutdown(SOON));
            eventually(SOON, "what had not begun is ready again", || {
                db.integer("SELECT count(*) FROM leasehold.jobs WHERE state = 'ready' AND attempt = 0 AND NOT begun")
                    == 2
            });
            assert!(!shutdown.is_finished());
            second.go();
            shutdown.join().unwrap()
        });
        assert_eq!((report.completed, report.released, report.abandoned), (1, 2, 0));
        assert!(remote.nothing_begun());
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 2);
    }
);

conformance!(
    fn a_prefetched_job_of_a_dead_worker_gets_its_attempt_back(db: &mut Db) {
        let mut conn = prepare(db);
        let id = Step::waiting(1).enqueue(&mut conn).unwrap().id();
        claim_and_die::<Step, _>(&mut conn, false);
        assert_eq!(job(&mut conn, id).attempt, 1);
        db.set_time("leasehold.jobs", "lease_until", -1, "state = 'running'");
        let (app, remote) = app();
        let running = Worker::<Connection, App>::new(db.url(), app)
            .register::<Step>()
            .start()
            .unwrap();
        let handler = remote.begun();
        assert_eq!((handler.attempt, handler.generation), (1, 3));
        handler.go();
        eventually(SOON, "it is completed", || running.counts().completed == 1);
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.job_errors"), 0);
    }
);

conformance!(
    fn prefetching_runs_every_job_once(db: &mut Db) {
        let mut conn = prepare(db);
        let notes: Vec<_> = (1..=200).map(|n| leasehold_tests::jobs::Note { n }).collect();
        Job::enqueue_all(&notes, &mut conn, &EnqueueOptions::new()).unwrap();
        let worker = Worker::<Connection, _>::new(db.url(), ()).threads(3).prefetch(20);
        let summary = worker
            .register::<leasehold_tests::jobs::Note>()
            .run_until_empty()
            .unwrap();
        assert_eq!((summary.counts.completed, summary.counts.lost), (200, 0));
        assert_eq!(db.integer("SELECT count(DISTINCT n) FROM effects"), 200);
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 200);
    }
);
