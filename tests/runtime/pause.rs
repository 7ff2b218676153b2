use leasehold::manage::{self, Scope};
use leasehold::{EnqueueOptions, Job, Schema, Worker};
use leasehold_tests::jobs::{App, HOUR, Note, SOON, Step, Then, app, prepare};
use leasehold_tests::{TestDb, conformance, eventually};

conformance!(
    fn a_pause_holds_in_every_worker_and_its_end_wakes_them(db: &mut Db) {
        let (mut conn, schema) = (prepare(db), Schema::default());
        let (app, remote) = app();
        let worker = |app| {
            Worker::<Connection, App>::new(db.url(), app)
                .poll_interval(HOUR)
                .threads(2)
        };
        let running = [app.clone(), app].map(|app| worker(app).register::<Step>().start().unwrap());
        let completed = || running.iter().map(|running| running.counts().completed).sum::<u64>();

        // What runs already goes on.
        Step::waiting(0).enqueue(&mut conn).unwrap();
        let begun = remote.begun();
        manage::pause(&mut conn, &schema, Scope::Kind("step"), "ops", "a test").unwrap();
        for n in 1..=4 {
            Step::now(n, Then::Commit).enqueue(&mut conn).unwrap();
        }
        begun.go();
        eventually(SOON, "the one that ran is completed", || completed() == 1);
        assert!(remote.nothing_begun());
        assert_eq!(
            db.integer("SELECT count(*) FROM leasehold.jobs WHERE state = 'ready'"),
            4
        );

        // Nothing but the end of the pause can wake them: they poll once an hour.
        assert!(manage::resume(&mut conn, &schema, Scope::Kind("step"), "ops").unwrap());
        eventually(SOON, "the others are completed", || completed() == 5);
    }
);

conformance!(
    fn a_batch_ends_when_all_that_is_left_is_paused_and_says_how_much(db: &mut Db) {
        let (mut conn, schema) = (prepare(db), Schema::default());
        let night = EnqueueOptions::new().queue("night");
        let notes: Vec<Note> = (1..=3).map(|n| Note { n }).collect();
        Note::enqueue_all(&notes, &mut conn, &night).unwrap();
        Note { n: 4 }.enqueue(&mut conn).unwrap();
        manage::pause(&mut conn, &schema, Scope::Queue("night"), "ops", "a test").unwrap();
        let worker = || {
            Worker::<Connection, _>::new(db.url(), ())
                .queues(["default", "night"])
                .patience(HOUR)
                .register::<Note>()
        };
        let summary = worker().run_until_empty().unwrap();
        assert_eq!((summary.counts.completed, summary.paused), (1, 3));
        assert!(summary.is_success());
        manage::resume(&mut conn, &schema, Scope::Queue("night"), "ops").unwrap();
        let summary = worker().run_until_empty().unwrap();
        assert_eq!((summary.counts.completed, summary.paused), (3, 0));
    }
);
