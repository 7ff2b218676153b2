use std::process::{ExitCode, Termination};
use std::time::{Duration, Instant};

use crossbeam_channel::unbounded;
use leasehold::{EnqueueOptions, Job, Worker};
use leasehold_tests::jobs::{App, HOUR, Note, SOON, Step, Then, app, claim_and_die, finish, job, prepare};
use leasehold_tests::{TestDb, capture_log, conformance, eventually};

conformance!(
    fn the_summary_counts_what_became_of_the_jobs(db: &mut Db) {
        let mut conn = prepare(db);
        let mut enqueue =
            |n, then, options: &EnqueueOptions| Step::now(n, then).enqueue_with(&mut conn, options).unwrap().id();
        let (since, at_once) = (Instant::now(), EnqueueOptions::new());
        enqueue(1, Then::Commit, &at_once);
        enqueue(2, Then::Finish, &at_once);
        // Due within the patience: they are waited for.
        enqueue(3, Then::FailUntil(3), &at_once);
        enqueue(4, Then::Snooze, &at_once);
        enqueue(
            5,
            Then::Commit,
            &EnqueueOptions::new().delay(Duration::from_millis(700)),
        );
        enqueue(6, Then::Discard, &at_once);
        enqueue(7, Then::Cancel, &at_once);
        let beyond = enqueue(8, Then::Commit, &EnqueueOptions::new().delay(HOUR));
        let (app, _remote) = app();
        let worker = Worker::<Connection, App>::new(db.url(), app).patience(SOON);
        let summary = worker.register::<Step>().run_until_empty().unwrap();
        let counts = summary.counts;
        assert_eq!((counts.completed, counts.retried, counts.snoozed), (5, 2, 1));
        assert_eq!((counts.discarded, counts.cancelled), (1, 1));
        assert_eq!((counts.lost, counts.released), (0, 0));
        assert_eq!((summary.scheduled, summary.interrupted), (1, false));
        assert!(summary.elapsed > Duration::ZERO && summary.elapsed <= since.elapsed());
        assert!(since.elapsed() >= Duration::from_millis(700));
        assert_eq!(job(&mut conn, beyond).attempt, 0);
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 1);
        assert!(!summary.is_success());
        assert_eq!(summary.exit_code(), ExitCode::FAILURE);
        assert_eq!(summary.report(), ExitCode::FAILURE);
    }
);

conformance!(
    fn an_empty_queue_is_a_success(db: &mut Db) {
        prepare(db);
        let worker = Worker::<Connection, _>::new(db.url(), ()).register::<Note>();
        let summary = worker.run_until_empty().unwrap();
        assert_eq!((summary.counts.ended(), summary.scheduled), (0, 0));
        assert!(summary.is_success());
        assert_eq!(summary.exit_code(), ExitCode::SUCCESS);
    }
);

conformance!(
    fn another_processs_lease_is_waited_for(db: &mut Db) {
        let mut conn = prepare(db);
        Note { n: 1 }.enqueue(&mut conn).unwrap();
        let (_, fence) = claim_and_die::<Note, _>(&mut conn, true);
        Note { n: 2 }.enqueue(&mut conn).unwrap();
        let (sender, progress) = unbounded();
        let worker = Worker::<Connection, _>::new(db.url(), ())
            .on_progress(move |progress| {
                let _ = sender.send(*progress);
            })
            .register::<Note>();
        let summary = std::thread::scope(|scope| {
            let run = scope.spawn(|| worker.run_until_empty().unwrap());
            // Its own work is done, and one job is left, with somebody else.
            loop {
                let seen = progress.recv_timeout(SOON).unwrap();
                if seen.counts.completed == 1 && seen.left == Some(1) {
                    break;
                }
            }
            // It looks four times a second, and goes on.
            let since = Instant::now();
            eventually(SOON, "some looks", || since.elapsed() > Duration::from_millis(1500));
            assert!(!run.is_finished());
            assert!(finish(&mut conn, &fence));
            run.join().unwrap()
        });
        assert_eq!((summary.counts.completed, summary.counts.lost), (1, 0));
    }
);

conformance!(
    fn progress_is_told_with_growing_counts(db: &mut Db) {
        let mut conn = prepare(db);
        let notes: Vec<Note> = (1..=200).map(|n| Note { n }).collect();
        Note::enqueue_all(&notes, &mut conn, &EnqueueOptions::new()).unwrap();
        let (sender, progress) = unbounded();
        let worker = Worker::<Connection, _>::new(db.url(), ())
            .threads(2)
            .on_progress(move |progress| {
                let _ = sender.send(*progress);
            });
        worker.register::<Note>().run_until_empty().unwrap();
        let told: Vec<_> = progress.iter().collect();
        assert!(told.len() >= 2, "{told:?}");
        let completed: Vec<u64> = told.iter().map(|progress| progress.counts.completed).collect();
        assert!(completed.is_sorted(), "{completed:?}");
        assert!(told.iter().map(|progress| progress.elapsed).is_sorted(), "{told:?}");
        let last = told.last().unwrap();
        assert_eq!((last.counts.completed, last.left), (200, Some(0)));
    }
);

conformance!(
    fn claims_that_fail_are_not_an_empty_queue(db: &mut Db) {
        let mut conn = prepare(db);
        Note { n: 1 }.enqueue(&mut conn).unwrap();
        let refusal = format!("no claims on {}", Db::BACKEND);
        db.sql(&match Db::BACKEND {
            "sqlite" => format!(
                "CREATE TRIGGER refuse BEFORE UPDATE OF generation ON leasehold.jobs
                BEGIN SELECT RAISE(ABORT, '{refusal}'); END"
            ),
            _ => format!(
                "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION '{refusal}'; END $$;
                CREATE TRIGGER refuse BEFORE UPDATE OF generation ON leasehold.jobs
                    FOR EACH ROW EXECUTE FUNCTION refuse()"
            ),
        });
        let log = capture_log();
        let worker = Worker::<Connection, _>::new(db.url(), ()).register::<Note>();
        let summary = std::thread::scope(|scope| {
            let run = scope.spawn(|| worker.run_until_empty().unwrap());
            eventually(SOON, "three claims are refused", || {
                run.is_finished() || log.with(&refusal).len() >= 3
            });
            assert!(!run.is_finished());
            db.sql(match Db::BACKEND {
                "sqlite" => "DROP TRIGGER refuse",
                _ => "DROP TRIGGER refuse ON leasehold.jobs",
            });
            run.join().unwrap()
        });
        assert_eq!(summary.counts.completed, 1);
    }
);
