use std::time::{Duration, Instant};

use leasehold::{EnqueueOptions, Job, Worker};
use leasehold_tests::jobs::{App, HOUR, SOON, Step, Then, app, job, prepare};
use leasehold_tests::{TestDb, conformance, eventually};

conformance!(
    fn a_failed_job_comes_due_by_itself_after_its_backoff(db: &mut Db) {
        let mut conn = prepare(db);
        let (app, _remote) = app();
        let worker = Worker::<Connection, App>::new(db.url(), app).poll_interval(HOUR);
        let running = worker.register::<Step>().start().unwrap();
        let id = Step::now(1, Then::FailUntil(4)).enqueue(&mut conn).unwrap().id();
        eventually(SOON, "the fourth attempt completes", || running.counts().completed == 1);
        assert_eq!(running.counts().retried, 3);
        assert_eq!(job(&mut conn, id).attempt, 4);
        let errors = db.texts("SELECT cause || ' ' || error FROM leasehold.job_errors ORDER BY attempt");
        let errors: Vec<_> = errors.into_iter().flatten().collect();
        assert_eq!(
            errors,
            [
                "error attempt 1 fails",
                "error attempt 2 fails",
                "error attempt 3 fails"
            ]
        );
    }
);

conformance!(
    fn a_job_without_attempts_left_is_discarded_with_its_last_error(db: &mut Db) {
        let mut conn = prepare(db);
        let options = EnqueueOptions::new().max_attempts(2);
        let id = Step::now(1, Then::FailUntil(9))
            .enqueue_with(&mut conn, &options)
            .unwrap()
            .id();
        let (app, _remote) = app();
        let worker = Worker::<Connection, App>::new(db.url(), app).register::<Step>();
        let summary = worker.run_until_empty().unwrap();
        assert_eq!((summary.counts.retried, summary.counts.discarded), (1, 1));
        let job = job(&mut conn, id);
        assert_eq!((job.state.as_str(), job.attempt), ("discarded", 2));
        assert_eq!(job.reason.as_deref(), Some("attempt 2 fails"));
    }
);

conformance!(
    fn a_scheduled_job_runs_when_it_is_due_and_no_poll_is_needed(db: &mut Db) {
        let mut conn = prepare(db);
        let delay = Duration::from_millis(300);
        let options = EnqueueOptions::new().delay(delay);
        // One is there when the worker starts.
        let enqueued = Instant::now();
        Step::now(1, Then::Commit).enqueue_with(&mut conn, &options).unwrap();
        let (app, remote) = app();
        let worker = Worker::<Connection, App>::new(db.url(), app).poll_interval(HOUR);
        let running = worker.register::<Step>().start().unwrap();
        assert_eq!(remote.begun().n, 1);
        assert!(enqueued.elapsed() >= delay);
        eventually(SOON, "it is completed", || running.counts().completed == 1);
        // One comes while it waits, and then one that is due earlier.
        let enqueued = Instant::now();
        let later = EnqueueOptions::new().delay(HOUR);
        Step::now(2, Then::Commit).enqueue_with(&mut conn, &later).unwrap();
        Step::now(3, Then::Commit).enqueue_with(&mut conn, &options).unwrap();
        assert_eq!(remote.begun().n, 3);
        assert!(enqueued.elapsed() >= delay);
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs WHERE attempt = 0"), 1);
    }
);

conformance!(
    fn a_snoozed_job_comes_back_without_using_up_an_attempt(db: &mut Db) {
        let mut conn = prepare(db);
        let (app, remote) = app();
        let worker = Worker::<Connection, App>::new(db.url(), app).poll_interval(HOUR);
        let running = worker.register::<Step>().start().unwrap();
        let id = Step::now(1, Then::Snooze).enqueue(&mut conn).unwrap().id();
        assert_eq!(remote.begun().attempt, 1);
        assert_eq!(remote.begun().attempt, 1);
        eventually(SOON, "it is completed", || running.counts().completed == 1);
        assert_eq!((job(&mut conn, id).attempt, job(&mut conn, id).generation), (1, 2));
    }
);
