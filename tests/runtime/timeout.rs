use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection;
use leasehold::inspect;
use leasehold::manage::{self, Cancel};
use leasehold::{EnqueueOptions, Job, Refusal, Schema, Worker};
use leasehold_tests::jobs::{App, HOUR, Hasty, SOON, Step, Then, app, job, prepare};
use leasehold_tests::{TestDb, conformance, eventually};

fn waiting(n: i64) -> Hasty {
    Hasty { step: Step::waiting(n) }
}

conformance!(
    fn a_handler_past_its_timeout_is_fenced_and_its_job_runs_again(db: &mut Db) {
        let mut conn = prepare(db);
        let id = waiting(1).enqueue(&mut conn).unwrap().id();
        let (app, remote) = app();
        let worker = Worker::<Connection, App>::new(db.url(), app)
            .threads(1)
            .poll_interval(HOUR);
        let running = worker.register::<Hasty>().start().unwrap();
        let late = remote.begun();
        // There is one thread, and it is stuck: only a replacement can run the job again.
        let second = remote.begun();
        assert_eq!((late.attempt, second.attempt), (1, 2));
        assert_ne!(late.thread, second.thread);
        assert!(second.generation > late.generation);
        assert!(late.watch.is_lost());
        assert_eq!(running.stuck_handlers(), 1);
        let [error] = &inspect::errors(&mut conn, &Schema::default(), id).unwrap()[..] else {
            panic!("one attempt has failed");
        };
        assert_eq!((error.cause.as_str(), error.attempt), ("timeout", 1));
        // The late one, while the job runs under its new owner.
        late.go();
        let ended = remote.ended();
        assert_eq!((ended.attempt, ended.refusal), (1, Some(Refusal::TimedOut)));
        second.go();
        assert_eq!(remote.ended().result, Ok(()));
        eventually(SOON, "it is completed", || running.counts().completed == 1);
        assert_eq!(job(&mut conn, id).attempt, 2);
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 1);
        // The thread that was stuck is gone, and one remains.
        eventually(SOON, "no handler is stuck", || running.stuck_handlers() == 0);
        let steps: Vec<Hasty> = (2..=3).map(waiting).collect();
        Hasty::enqueue_all(&steps, &mut conn, &EnqueueOptions::new()).unwrap();
        let only = remote.begun();
        assert_eq!(
            db.integer("SELECT count(*) FROM leasehold.jobs WHERE state = 'running'"),
            1
        );
        only.go();
        remote.begun().go();
        eventually(SOON, "all are completed", || running.counts().completed == 3);
        let counts = running.counts();
        assert_eq!((counts.retried, counts.lost), (1, 0));
        assert_eq!(running.shutdown(HOUR).abandoned, 0);
    }
);

conformance!(
    fn no_more_threads_are_replaced_than_there_are(db: &mut Db) {
        let mut conn = prepare(db);
        let options = EnqueueOptions::new().max_attempts(1);
        let steps: Vec<Hasty> = (1..=3).map(waiting).collect();
        Hasty::enqueue_all(&steps, &mut conn, &options).unwrap();
        let (app, remote) = app();
        let worker = Worker::<Connection, App>::new(db.url(), app).threads(1);
        let running = worker.register::<Hasty>().start().unwrap();
        let (one, two) = (remote.begun(), remote.begun());
        eventually(SOON, "both are discarded", || running.counts().discarded == 2);
        assert_eq!(running.stuck_handlers(), 1);
        assert!(remote.nothing_begun());
        // One returns, and there is a thread again.
        two.go();
        remote.begun().go();
        eventually(SOON, "the third is completed", || running.counts().completed == 1);
        one.go();
        eventually(SOON, "no handler is stuck", || running.stuck_handlers() == 0);
    }
);

conformance!(
    fn a_stuck_handler_that_lost_its_lease_before_is_replaced_too(db: &mut Db) {
        let mut conn = prepare(db);
        let options = EnqueueOptions::new().lease(Duration::from_secs(2));
        let id = waiting(1).enqueue_with(&mut conn, &options).unwrap().id();
        let (app, remote) = app();
        let worker = Worker::<Connection, App>::new(db.url(), app).threads(1);
        let running = worker.register::<Hasty>().start().unwrap();
        let stuck = remote.begun();
        manage::cancel(&mut conn, &Schema::default(), id, Cancel::Hard, "ops", "enough").unwrap();
        eventually(SOON, "it is told", || stuck.watch.is_lost());
        Hasty {
            step: Step::now(2, Then::Commit),
        }
        .enqueue(&mut conn)
        .unwrap();
        assert_eq!(remote.begun().n, 2);
        eventually(SOON, "the next job is completed", || running.counts().completed == 1);
        assert_eq!(job(&mut conn, id).state.as_str(), "cancelled");
        stuck.go();
        eventually(SOON, "no handler is stuck", || running.stuck_handlers() == 0);
    }
);

conformance!(
    /// The timeout is the handler's: how long the database takes for its completion is none of its fault.
    fn a_handler_that_has_returned_does_not_time_out(db: &mut Db) {
        let mut conn = prepare(db);
        let step = Step {
            n: 1,
            waits: true,
            then: Then::Finish,
        };
        let id = Hasty { step }.enqueue(&mut conn).unwrap().id();
        let (app, remote) = app();
        let worker = Worker::<Connection, App>::new(db.url(), app).threads(1);
        let running = worker.register::<Hasty>().start().unwrap();
        let handler = remote.begun();
        let begun = Instant::now();
        let lock = match Db::BACKEND {
            "sqlite" => "BEGIN IMMEDIATE",
            _ => "BEGIN; SELECT id FROM leasehold.jobs FOR UPDATE",
        };
        conn.batch_execute(lock).unwrap();
        handler.go();
        assert_eq!(remote.ended().result, Ok(()));
        eventually(SOON, "the timeout has passed", || {
            begun.elapsed() > Duration::from_millis(3500)
        });
        assert_eq!(running.stuck_handlers(), 0);
        conn.batch_execute("COMMIT").unwrap();
        eventually(SOON, "it is completed", || running.counts().completed == 1);
        let counts = running.counts();
        assert_eq!((counts.retried, counts.lost), (0, 0));
        assert_eq!(job(&mut conn, id).attempt, 1);
    }
);
