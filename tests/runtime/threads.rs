use std::collections::HashSet;

use diesel::connection::SimpleConnection;
use leasehold::{EnqueueOptions, Job, Worker};
use leasehold_tests::jobs::{App, HOUR, Note, SOON, Step, Then, app, job, prepare};
use leasehold_tests::{TestDb, conformance, eventually};

conformance!(
    fn as_many_jobs_run_at_once_as_there_are_threads(db: &mut Db) {
        let mut conn = prepare(db);
        let steps: Vec<Step> = (1..=5).map(Step::waiting).collect();
        Step::enqueue_all(&steps, &mut conn, &EnqueueOptions::new()).unwrap();
        let (app, remote) = app();
        let worker = Worker::<Connection, App>::new(db.url(), app)
            .threads(3)
            .register::<Step>();
        let running = worker.start().unwrap();
        let mut begun: Vec<_> = (0..3).map(|_| remote.begun()).collect();
        let threads: HashSet<_> = begun.iter().map(|handler| handler.thread).collect();
        assert_eq!(threads.len(), 3);
        assert_eq!(running.leases_held(), 3);
        assert_eq!(
            db.integer("SELECT count(*) FROM leasehold.jobs WHERE state = 'running'"),
            3
        );
        assert!(remote.nothing_begun());
        // Each that ends makes room for one.
        for _ in 0..2 {
            begun.remove(0).go();
            begun.push(remote.begun());
        }
        begun.into_iter().for_each(|handler| handler.go());
        eventually(SOON, "all are completed", || running.counts().completed == 5);
        assert_eq!(db.integer("SELECT count(DISTINCT n) FROM effects"), 5);
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 5);
    }
);

conformance!(
    fn completions_that_wait_for_each_other_are_written_together(db: &mut Db) {
        let mut conn = prepare(db);
        let steps: Vec<Step> = (1..=20)
            .map(|n| Step {
                n,
                waits: true,
                then: Then::Finish,
            })
            .collect();
        Step::enqueue_all(&steps, &mut conn, &EnqueueOptions::new()).unwrap();
        let (app, remote) = app();
        let worker = Worker::<Connection, App>::new(db.url(), app)
            .threads(20)
            .register::<Step>();
        let running = worker.start().unwrap();
        let begun: Vec<_> = (0..20).map(|_| remote.begun()).collect();
        // The first completion waits behind this, and the others gather meanwhile.
        let lock = match Db::BACKEND {
            "sqlite" => "BEGIN IMMEDIATE",
            _ => "BEGIN; SELECT id FROM leasehold.jobs FOR UPDATE",
        };
        conn.batch_execute(lock).unwrap();
        begun.into_iter().for_each(|handler| handler.go());
        for _ in 0..20 {
            assert_eq!(remote.ended().result, Ok(()));
        }
        conn.batch_execute("COMMIT").unwrap();
        eventually(SOON, "all are completed", || running.counts().completed == 20);
        let written = match Db::BACKEND {
            "sqlite" => "SELECT count(DISTINCT finished_at) FROM leasehold.finished_jobs",
            _ => "SELECT count(DISTINCT xmin::text) FROM leasehold.finished_jobs",
        };
        // The first, those that had gathered, and a few that came late.
        let transactions = db.integer(written);
        assert!(transactions <= 10, "{transactions} transactions for 20 completions");
    }
);

conformance!(
    fn a_worker_serves_the_queues_it_is_told_to(db: &mut Db) {
        let mut conn = prepare(db);
        let mut enqueue = |n, queue: &str| {
            let options = EnqueueOptions::new().queue(queue);
            Note { n }.enqueue_with(&mut conn, &options).unwrap().id()
        };
        let (mail, night) = (enqueue(1, "mail"), enqueue(2, "night"));
        let other = enqueue(3, "default");
        let worker = || Worker::<Connection, _>::new(db.url(), ()).register::<Note>();
        let summary = worker().queues(["mail", "night"]).run_until_empty().unwrap();
        assert_eq!(summary.counts.completed, 2);
        for (id, state) in [(mail, "completed"), (night, "completed"), (other, "ready")] {
            assert_eq!(job(&mut conn, id).state.as_str(), state);
        }
        // Without queues of its own it serves each kind's.
        assert_eq!(worker().run_until_empty().unwrap().counts.completed, 1);
    }
);

conformance!(
    fn two_workers_in_one_process_share_the_work(db: &mut Db) {
        let mut conn = prepare(db);
        let (app, remote) = app();
        let worker = || {
            Worker::<Connection, App>::new(db.url(), app.clone())
                .threads(2)
                .register::<Step>()
        };
        let (one, other) = (worker().start().unwrap(), worker().start().unwrap());
        let steps: Vec<Step> = (1..=4).map(Step::waiting).collect();
        Step::enqueue_all(&steps, &mut conn, &EnqueueOptions::new()).unwrap();
        // Two threads each: all four can only run together if both work.
        let begun: Vec<_> = (0..4).map(|_| remote.begun()).collect();
        assert_eq!((one.leases_held(), other.leases_held()), (2, 2));
        begun.into_iter().for_each(|handler| handler.go());
        eventually(SOON, "all are completed", || {
            (one.counts().completed, other.counts().completed) == (2, 2)
        });
        // One goes, and the other goes on.
        assert_eq!(one.shutdown(HOUR).abandoned, 0);
        Step::now(5, Then::Commit).enqueue(&mut conn).unwrap();
        eventually(SOON, "the other takes it", || other.counts().completed == 3);
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 5);
    }
);

conformance!(
    fn without_batching_jobs_are_claimed_and_settled_one_by_one(db: &mut Db) {
        let mut conn = prepare(db);
        let (app, remote) = app();
        let running = Worker::<Connection, App>::new(db.url(), app)
            .threads(3)
            .unbatched()
            .poll_interval(HOUR)
            .register::<Step>()
            .start()
            .unwrap();
        // One wake-up must reach as many threads as there are jobs, whenever they come.
        let waiting: Vec<Step> = (1..=3).map(Step::waiting).collect();
        Step::enqueue_all(&waiting, &mut conn, &EnqueueOptions::new()).unwrap();
        let begun: Vec<_> = (0..3).map(|_| remote.begun()).collect();
        assert_eq!(running.leases_held(), 3);
        begun.into_iter().for_each(|handler| handler.go());
        let hows = [
            Then::Finish,
            Then::FailUntil(3),
            Then::Discard,
            Then::Cancel,
            Then::Snooze,
        ];
        for (n, then) in (4..).zip(hows) {
            Step::now(n, then).enqueue(&mut conn).unwrap();
        }
        eventually(SOON, "all have ended", || running.counts().ended() == 8);
        let counts = running.counts();
        assert_eq!((counts.completed, counts.discarded, counts.cancelled), (6, 1, 1));
        assert_eq!((counts.retried, counts.snoozed, counts.lost), (2, 1, 0));
        eventually(SOON, "nothing is held", || running.leases_held() == 0);
        assert_eq!(running.shutdown(HOUR).abandoned, 0);
    }
);

conformance!(
    fn a_hook_that_panics_stops_nothing(db: &mut Db) {
        struct Panics;
        impl leasehold::Hooks for Panics {
            fn begun(&self, _: &leasehold::JobInfo<'_>) {
                panic!("in the worker's thread")
            }
            fn completed(&self, _: &leasehold::JobInfo<'_>) {
                panic!("in the settler's, too")
            }
        }
        let mut conn = prepare(db);
        let (app, _remote) = app();
        let worker = Worker::<Connection, App>::new(db.url(), app).threads(2).hooks(Panics);
        let running = worker.register::<Step>().start().unwrap();
        for n in 1..=4 {
            Step::now(n, Then::Finish).enqueue(&mut conn).unwrap();
        }
        eventually(SOON, "all are completed", || running.counts().completed == 4);
    }
);
