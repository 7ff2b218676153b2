use std::time::Duration;

use leasehold::manage::{self, Cancel};
use leasehold::{EnqueueOptions, Job, Refusal, Schema, Worker};
use leasehold_tests::jobs::{App, HOUR, SOON, Step, app, job, prepare};
use leasehold_tests::{TestDb, conformance, eventually};

/// A heartbeat comes each second.
const LEASE: Duration = Duration::from_secs(3);

conformance!(
    fn a_running_handler_sees_a_soft_cancel_and_may_complete(db: &mut Db) {
        let mut conn = prepare(db);
        let options = EnqueueOptions::new().lease(LEASE);
        let id = Step::waiting(1).enqueue_with(&mut conn, &options).unwrap().id();
        let (app, remote) = app();
        let running = Worker::<Connection, App>::new(db.url(), app)
            .register::<Step>()
            .start()
            .unwrap();
        let handler = remote.begun();
        assert!(!handler.watch.is_cancel_requested());
        assert!(manage::cancel(&mut conn, &Schema::default(), id, Cancel::Soft, "ops", "enough").unwrap());
        eventually(SOON, "the handler sees it", || handler.watch.is_cancel_requested());
        assert!(!handler.watch.is_lost());
        handler.go();
        assert_eq!(remote.ended().result, Ok(()));
        eventually(SOON, "it is completed", || running.counts().completed == 1);
        assert_eq!(job(&mut conn, id).state.as_str(), "completed");
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 1);
    }
);

conformance!(
    fn a_job_that_fails_after_a_soft_cancel_does_not_run_again(db: &mut Db) {
        let mut conn = prepare(db);
        let options = EnqueueOptions::new().lease(LEASE);
        let step = Step {
            n: 1,
            waits: true,
            then: leasehold_tests::jobs::Then::FailUntil(2),
        };
        let id = step.enqueue_with(&mut conn, &options).unwrap().id();
        let (app, remote) = app();
        let running = Worker::<Connection, App>::new(db.url(), app)
            .register::<Step>()
            .start()
            .unwrap();
        let handler = remote.begun();
        manage::cancel(&mut conn, &Schema::default(), id, Cancel::Soft, "ops", "enough").unwrap();
        eventually(SOON, "the handler sees it", || handler.watch.is_cancel_requested());
        handler.go();
        eventually(SOON, "it is cancelled", || running.counts().cancelled == 1);
        assert_eq!(job(&mut conn, id).state.as_str(), "cancelled");
        assert_eq!(running.counts().retried, 0);
    }
);

conformance!(
    fn a_running_handler_sees_a_hard_cancel_and_its_commit_is_refused(db: &mut Db) {
        let mut conn = prepare(db);
        let options = EnqueueOptions::new().lease(LEASE);
        let id = Step::waiting(1).enqueue_with(&mut conn, &options).unwrap().id();
        let (app, remote) = app();
        let running = Worker::<Connection, App>::new(db.url(), app)
            .register::<Step>()
            .start()
            .unwrap();
        let handler = remote.begun();
        assert!(manage::cancel(&mut conn, &Schema::default(), id, Cancel::Hard, "ops", "enough").unwrap());
        eventually(SOON, "the handler sees it", || handler.watch.is_lost());
        handler.go();
        assert_eq!(remote.ended().refusal, Some(Refusal::Cancelled));
        eventually(SOON, "the loss is counted", || running.counts().lost == 1);
        assert_eq!(job(&mut conn, id).state.as_str(), "cancelled");
        assert_eq!(job(&mut conn, id).reason.as_deref(), Some("enough"));
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 0);
    }
);

conformance!(
    fn a_commit_after_a_hard_cancel_is_refused(db: &mut Db) {
        let mut conn = prepare(db);
        let options = EnqueueOptions::new().lease(HOUR);
        let id = Step::waiting(1).enqueue_with(&mut conn, &options).unwrap().id();
        let (app, remote) = app();
        let running = Worker::<Connection, App>::new(db.url(), app)
            .register::<Step>()
            .start()
            .unwrap();
        let handler = remote.begun();
        assert!(manage::cancel(&mut conn, &Schema::default(), id, Cancel::Hard, "ops", "enough").unwrap());
        // Whether it has been told by now or not.
        handler.go();
        assert_eq!(remote.ended().refusal, Some(Refusal::Cancelled));
        eventually(SOON, "the loss is counted", || running.counts().lost == 1);
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 0);
    }
);

conformance!(
    /// A heartbeat comes every twenty minutes, so what is seen at once was told.
    fn a_handler_in_this_process_sees_a_cancel_without_waiting_for_the_heartbeat(db: &mut Db) {
        let mut conn = prepare(db);
        let options = EnqueueOptions::new().lease(HOUR);
        let id = Step::waiting(1).enqueue_with(&mut conn, &options).unwrap().id();
        let (app, remote) = app();
        let running = Worker::<Connection, App>::new(db.url(), app)
            .register::<Step>()
            .start()
            .unwrap();
        let handler = remote.begun();
        manage::cancel(&mut conn, &Schema::default(), id, Cancel::Soft, "ops", "enough").unwrap();
        eventually(SOON, "the handler sees the request", || {
            handler.watch.is_cancel_requested()
        });
        manage::cancel(&mut conn, &Schema::default(), id, Cancel::Hard, "ops", "enough").unwrap();
        eventually(SOON, "the handler sees the end", || handler.watch.is_lost());
        handler.go();
        assert!(matches!(remote.ended().refusal, Some(Refusal::Cancelled)));
        eventually(SOON, "the loss is counted", || running.counts().lost == 1);
    }
);
