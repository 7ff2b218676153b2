use std::time::Duration;

use leasehold::{EnqueueOptions, Job, Schema, Worker, inspect};
use leasehold_tests::jobs::{App, Note, SOON, Step, app, claim_and_die, finish, job, prepare};
use leasehold_tests::{TestDb, conformance, eventually};

const OFTEN: Duration = Duration::from_millis(20);

conformance!(
    fn a_dead_workers_job_is_taken_back_and_runs_again(db: &mut Db) {
        let mut conn = prepare(db);
        let id = Step::waiting(1).enqueue(&mut conn).unwrap().id();
        let (dead, fence) = claim_and_die::<Step, _>(&mut conn, true);
        let (app, remote) = app();
        let worker = Worker::<Connection, App>::new(db.url(), app).sweep_interval(OFTEN);
        let running = worker.register::<Step>().start().unwrap();
        // Nobody takes it as long as its lease lasts.
        Note { n: 2 }.enqueue(&mut conn).unwrap();
        assert!(remote.nothing_begun());
        db.set_time("leasehold.jobs", "lease_until", -1, "state = 'running'");
        let handler = remote.begun();
        assert_eq!((dead.attempt, handler.attempt), (1, 2));
        assert_eq!((dead.generation, handler.generation), (1, 3));
        // The dead one comes back, while the job runs under its new owner.
        assert!(!finish(&mut conn, &fence));
        handler.go();
        eventually(SOON, "it is completed", || running.counts().completed == 1);
        let [error] = &inspect::errors(&mut conn, &Schema::default(), id).unwrap()[..] else {
            panic!("one attempt has failed");
        };
        assert_eq!((error.cause.as_str(), error.attempt), ("lease expired", 1));
    }
);

conformance!(
    fn a_job_that_kills_its_workers_is_discarded_and_its_neighbours_finish(db: &mut Db) {
        let mut conn = prepare(db);
        let options = EnqueueOptions::new().max_attempts(3);
        let poison = Step::waiting(1).enqueue_with(&mut conn, &options).unwrap().id();
        for n in 2..=6 {
            Note { n }.enqueue(&mut conn).unwrap();
        }
        // It serves the neighbours, and sweeps for all.
        let worker = Worker::<Connection, _>::new(db.url(), ()).sweep_interval(OFTEN);
        let running = worker.register::<Note>().start().unwrap();
        for attempt in 1..=3 {
            let (claimed, _) = claim_and_die::<Step, _>(&mut conn, true);
            assert_eq!((claimed.id, claimed.attempt), (poison, attempt));
            db.set_time(
                "leasehold.jobs",
                "lease_until",
                -1,
                "state = 'running' AND kind = 'step'",
            );
            eventually(SOON, "it is swept", || {
                job(&mut conn, poison).generation == claimed.generation + 1
            });
        }
        let poisoned = job(&mut conn, poison);
        assert_eq!((poisoned.state.as_str(), poisoned.attempt), ("discarded", 3));
        assert_eq!(poisoned.reason.as_deref(), Some("lease expired"));
        assert_eq!(inspect::errors(&mut conn, &Schema::default(), poison).unwrap().len(), 3);
        eventually(SOON, "the neighbours are completed", || running.counts().completed == 5);
        // The sweep tells of it after its statement has been committed.
        eventually(SOON, "the discard is counted", || running.counts().discarded == 1);
    }
);

conformance!(
    /// A jump of the database's clock lets every lease expire at once.
    fn a_sweep_takes_back_so_many_jobs_and_leaves_the_rest_to_the_next(db: &mut Db) {
        let mut conn = prepare(db);
        let steps: Vec<Step> = (1..=1200).map(Step::waiting).collect();
        Step::enqueue_all(&steps, &mut conn, &EnqueueOptions::new()).unwrap();
        db.sql(match Db::BACKEND {
            "sqlite" => {
                "UPDATE leasehold.jobs SET state = 'running', generation = 1, attempt = 1, begun = 1, lease_until = 0,
                 lease_token = '00000000-0000-4000-8000-000000000000', worker = '00000000-0000-4000-8000-000000000000'"
            }
            _ => {
                "UPDATE leasehold.jobs SET state = 'running', generation = 1, attempt = 1, begun = true, lease_until = 'epoch',
                 lease_token = '00000000-0000-4000-8000-000000000000', worker = '00000000-0000-4000-8000-000000000000'"
            }
        });
        // Sweeps once when it starts, and then after ten seconds or more.
        let worker = || {
            let worker = Worker::<Connection, _>::new(db.url(), ());
            worker
                .sweep_interval(Duration::from_secs(200))
                .register::<Note>()
                .start()
                .unwrap()
        };
        let one = worker();
        let mut peer = Db::connect(db);
        let count = |conn: &mut Connection| {
            let counts = inspect::counts(conn, &Schema::default()).unwrap();
            counts
                .iter()
                .filter(|count| count.state == inspect::State::Ready)
                .map(|count| count.jobs)
                .sum::<u64>()
        };
        eventually(SOON, "the first sweep", || count(&mut peer) > 0);
        assert_eq!(count(&mut peer), 500);
        drop(one);
        let two = worker();
        eventually(SOON, "the second sweep", || count(&mut peer) > 500);
        assert_eq!(count(&mut peer), 1000);
        drop(two);
        let _three = worker();
        eventually(SOON, "the third sweep", || count(&mut peer) == 1200);
    }
);
