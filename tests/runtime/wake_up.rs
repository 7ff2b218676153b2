use diesel::Connection as _;
use leasehold::{Job, Worker};
use leasehold_tests::jobs::{App, HOUR, SOON, Step, Then, app, prepare};
use leasehold_tests::{TestDb, conformance, eventually};

conformance!(
    fn an_idle_worker_hears_of_an_enqueue_without_a_poll(db: &mut Db) {
        let mut conn = prepare(db);
        let (app, remote) = app();
        let worker = Worker::<Connection, App>::new(db.url(), app).poll_interval(HOUR);
        let running = worker.register::<Step>().start().unwrap();
        // More than once: a wake-up that works only on a worker which is about to look anyway would pass the first time.
        for n in 1..=5 {
            Step::now(n, Then::Commit).enqueue(&mut conn).unwrap();
            assert_eq!(remote.begun().n, n);
            eventually(SOON, "it is completed", || {
                running.counts().completed == n.unsigned_abs()
            });
            eventually(SOON, "nothing is held", || running.leases_held() == 0);
        }
    }
);

conformance!(
    fn an_idle_worker_hears_of_an_enqueue_when_its_transaction_commits(db: &mut Db) {
        let mut conn = prepare(db);
        let (app, remote) = app();
        let worker = Worker::<Connection, App>::new(db.url(), app).poll_interval(HOUR);
        let running = worker.register::<Step>().start().unwrap();
        for n in 1..=5 {
            conn.transaction(|tx| {
                Step::now(n, Then::Commit).enqueue(tx)?;
                // The worker looks meanwhile, and finds nothing.
                if Db::BACKEND == "postgres" {
                    assert!(remote.nothing_begun());
                }
                Ok::<_, leasehold::EnqueueError>(())
            })
            .unwrap();
            assert_eq!(remote.begun().n, n);
            eventually(SOON, "nothing is held", || running.leases_held() == 0);
        }
        let undone: Result<(), diesel::result::Error> = conn.transaction(|tx| {
            Step::now(6, Then::Commit).enqueue(tx).unwrap();
            Err(diesel::result::Error::RollbackTransaction)
        });
        assert!(undone.is_err());
        assert!(remote.nothing_begun());
    }
);

conformance!(
    #[skip(postgres, "tests/listener shows it: other programs are heard of by LISTEN there")]
    fn an_idle_worker_sees_what_another_program_wrote(db: &mut Db) {
        prepare(db);
        let (app, remote) = app();
        let worker = Worker::<Connection, App>::new(db.url(), app).poll_interval(HOUR);
        let running = worker.register::<Step>().start().unwrap();
        for n in 1..=3 {
            // By hand, so that nothing in this process tells the worker.
            db.sql(&format!(
                "INSERT INTO leasehold.jobs (queue, kind, payload, run_at, created_at, max_attempts, lease_ms)
                 VALUES ('default', 'step', '{{\"n\": {n}, \"waits\": false, \"then\": \"Commit\"}}', 0, 0, 1, 60000)"
            ));
            assert_eq!(remote.begun().n, n);
            eventually(SOON, "nothing is held", || running.leases_held() == 0);
        }
    }
);
