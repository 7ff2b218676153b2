//! What follows from the end of jobs, with a worker's threads: the checks come after the commits.

use std::time::Duration;

use leasehold::batch::{self, BatchRecord};
use leasehold::inspect::{self, State};
use leasehold::manage::Cancel;
use leasehold::{Batch, EnqueueOptions, Job, Schema, Worker, Workflow};
use leasehold_tests::jobs::{App, HOUR, Note, SOON, Step, Then, Work, app, claim_and_die, finish, job, prepare};
use leasehold_tests::{TestDb, conformance, eventually};

fn wait<C: leasehold::Backend>(conn: &mut C, id: i64) -> BatchRecord {
    batch::wait_for(conn, &Schema::default(), id, SOON, |_| {}).unwrap()
}

conformance!(
    /// The sweep's interval is an hour, so nothing but the process's own look after the commit can do it.
    fn the_process_that_ends_a_job_looks_at_once(db: &mut Db) {
        for unbatched in [false, true] {
            let mut db = Db::new();
            let mut conn = prepare(&mut db);
            let mut worker = Worker::<Connection, App>::new(db.url(), app().0)
                .sweep_interval(HOUR)
                .threads(2);
            if unbatched {
                worker = worker.unbatched();
            }
            let running = worker.register::<Step>().register::<Note>().start().unwrap();
            // Maintenance's first look is at the start; it must not be that.
            let first = Note { n: 0 }.enqueue(&mut conn).unwrap().id();
            inspect::wait_for(&mut conn, &Schema::default(), first, SOON).unwrap();
            for then in [Then::Commit, Then::Finish, Then::Discard, Then::Cancel] {
                let batch = Batch::new("one").add(&Step::now(1, then)).on_finished(&Note { n: 1 });
                let id = batch.enqueue(&mut conn).unwrap().id;
                assert_eq!(wait(&mut conn, id).counts.ended(), 1);
                let workflow = Workflow::new();
                let step = workflow.add(&Step::now(2, then));
                let last = workflow.add(&Note { n: 2 }).after(step).run_anyway();
                let ids = workflow.enqueue(&mut conn).unwrap();
                let last = inspect::wait_for(&mut conn, &Schema::default(), ids.id_of(last), SOON).unwrap();
                assert_eq!(last.state, State::Completed);
            }
            eventually(SOON, "the callbacks", || {
                db.integer("SELECT count(*) FROM effects WHERE n = 1") == 4 + 1 // a step's own commit
            });
            drop(running);
        }
        let _ = db;
    }
);

conformance!(
    fn what_other_processes_left_is_found_by_maintenance(db: &mut Db) {
        let mut conn = prepare(db);
        let running = Worker::<Connection, _>::new(db.url(), ())
            .sweep_interval(Duration::from_millis(50))
            .register::<Work>()
            .start()
            .unwrap();
        let id = Batch::new("left")
            .add(&Note { n: 1 })
            .on_finished(&Work { n: 1 })
            .enqueue(&mut conn)
            .unwrap()
            .id;
        let workflow = Workflow::new();
        let first = workflow.add(&Note { n: 2 });
        let second = workflow.add(&Work { n: 2 }).after(first);
        let ids = workflow.enqueue(&mut conn).unwrap();
        for _ in 0..2 {
            let (_, fence) = claim_and_die::<Note, _>(&mut conn, true);
            assert!(finish(&mut conn, &fence));
        }
        assert!(wait(&mut conn, id).is_finished());
        let second = inspect::wait_for(&mut conn, &Schema::default(), ids.id_of(second), SOON).unwrap();
        assert_eq!(second.state, State::Completed);
        eventually(SOON, "the callback", || {
            db.integer("SELECT count(*) FROM effects WHERE n = 1") == 1
        });
        drop(running);
    }
);

conformance!(
    fn a_sweep_that_discards_marks_its_batch(db: &mut Db) {
        let mut conn = prepare(db);
        let once = EnqueueOptions::new().max_attempts(1).lease(Duration::from_millis(50));
        let batch = Batch::new("dies").add_all(&[Note { n: 1 }], &once);
        let id = batch
            .on_discarded(&Work { n: 7 })
            .on_finished(&Work { n: 8 })
            .enqueue(&mut conn)
            .unwrap()
            .id;
        claim_and_die::<Note, _>(&mut conn, true);
        let running = Worker::<Connection, _>::new(db.url(), ())
            .register::<Work>()
            .start()
            .unwrap();
        assert_eq!(wait(&mut conn, id).counts.discarded, 1);
        eventually(SOON, "both callbacks", || {
            db.integer("SELECT count(*) FROM effects WHERE n IN (7, 8)") == 2
        });
        drop(running);
    }
);

conformance!(
    fn a_run_until_empty_goes_on_to_the_last_callback(db: &mut Db) {
        let mut conn = prepare(db);
        for round in 0..10 {
            let workflow = Workflow::new();
            let mut last = workflow.add(&Note { n: 1 });
            for _ in 0..5 {
                last = workflow.add(&Note { n: 1 }).after(last);
            }
            workflow.enqueue(&mut conn).unwrap();
            let batch = Batch::new("run").add_all(&[Note { n: 2 }, Note { n: 2 }], &EnqueueOptions::new());
            batch
                .on_finished(&Work { n: 3 })
                .on_discarded(&Work { n: 4 })
                .enqueue(&mut conn)
                .unwrap();
            let worker = Worker::<Connection, _>::new(db.url(), ()).sweep_interval(HOUR);
            let summary = worker.register::<Note>().register::<Work>().run_until_empty().unwrap();
            assert_eq!(
                (summary.counts.completed, summary.counts.ended()),
                (9, 9),
                "round {round}"
            );
            assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 0);
        }
        // What waits for a job that nobody here serves is waited for no longer than the patience.
        let workflow = Workflow::new();
        let elsewhere = workflow.add(&Step::now(9, Then::Commit));
        workflow.add(&Note { n: 9 }).after(elsewhere);
        workflow.enqueue(&mut conn).unwrap();
        let worker = Worker::<Connection, _>::new(db.url(), ()).patience(Duration::from_secs(1));
        let summary = worker.register::<Note>().run_until_empty().unwrap();
        assert_eq!((summary.counts.ended(), summary.blocked), (0, 1));
    }
);

conformance!(
    fn what_ended_during_a_shutdown_is_followed_up(db: &mut Db) {
        let mut conn = prepare(db);
        let (app, remote) = app();
        let worker = Worker::<Connection, App>::new(db.url(), app).sweep_interval(HOUR);
        let running = worker.register::<Step>().start().unwrap();
        let batch = Batch::new("last").add(&Step::waiting(1)).on_finished(&Note { n: 1 });
        let id = batch.enqueue(&mut conn).unwrap().id;
        let begun = remote.begun();
        std::thread::scope(|scope| {
            let shutdown = scope.spawn(|| running.shutdown(SOON));
            begun.go();
            assert_eq!(shutdown.join().unwrap().abandoned, 0);
        });
        assert!(
            batch::record(&mut conn, &Schema::default(), id)
                .unwrap()
                .unwrap()
                .is_finished()
        );
    }
);

conformance!(
    fn a_running_batch_is_cancelled_hard_and_its_commits_are_refused(db: &mut Db) {
        let mut conn = prepare(db);
        let (app, remote) = app();
        let running = Worker::<Connection, App>::new(db.url(), app)
            .threads(1)
            .register::<Step>()
            .start()
            .unwrap();
        let steps: Vec<Step> = (0..20).map(Step::waiting).collect();
        let id = Batch::new("stop")
            .add_all(&steps, &EnqueueOptions::new())
            .enqueue(&mut conn)
            .unwrap()
            .id;
        let begun = remote.begun();
        let cancelled = batch::cancel(&mut conn, &Schema::default(), id, Cancel::Hard, "ops", "stop").unwrap();
        assert_eq!(cancelled, 20);
        let first = begun.id;
        begun.go();
        assert!(remote.ended().refusal.is_some());
        assert_eq!(wait(&mut conn, id).counts.cancelled, 20);
        assert_eq!(job(&mut conn, first).state, State::Cancelled);
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 0);
        drop(running);
    }
);
