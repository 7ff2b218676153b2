use std::time::Duration;

use leasehold::{EnqueueOptions, Job, Worker};
use leasehold_tests::jobs::{App, Remote, SOON, Step, Then, app, claim_and_die, job, prepare};
use leasehold_tests::{TestDb, conformance, eventually};

conformance!(
    fn jobs_are_claimed_ahead_and_given_back_unharmed_at_shutdown(db: &mut Db) {
        let mut conn = prepare(db);
        let steps: Vec<Step> = (1..=4).map(Step::waiting).collect();
        Step::enqueue_all(&steps, &mut conn, &EnqueueOptions::new()).unwrap();
        let (app, remote) = app();
        let worker = Worker::<Connection, App>::new(db.url(), app).threads(1).fixed_batch(4);
        let running = worker.register::<Step>().start().unwrap();
        let first = remote.begun();
        let held = "SELECT count(*) FROM leasehold.jobs WHERE state = 'running'";
        assert_eq!(db.integer(held), 4);
        assert_eq!(running.leases_held(), 4);
        first.go();
        let second = remote.begun();
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
        let worker = Worker::<Connection, _>::new(db.url(), ()).threads(3).fixed_batch(20);
        let summary = worker
            .register::<leasehold_tests::jobs::Note>()
            .run_until_empty()
            .unwrap();
        assert_eq!((summary.counts.completed, summary.counts.lost), (200, 0));
        assert_eq!(db.integer("SELECT count(DISTINCT n) FROM effects"), 200);
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 200);
    }
);

/// Runs quick jobs until some are claimed ahead.
fn warm_up(conn: &mut impl leasehold::Backend, remote: &Remote) {
    let quick: Vec<Step> = (1..=40).map(|n| Step::now(n, Then::Finish)).collect();
    Step::enqueue_all(&quick, conn, &EnqueueOptions::new()).unwrap();
    (0..quick.len()).for_each(|_| drop(remote.begun()));
}

conformance!(
    fn what_lies_behind_a_long_job_is_given_to_others(db: &mut Db) {
        let mut conn = prepare(db);
        let (app, remote) = app();
        let worker = Worker::<Connection, App>::new(db.url(), app)
            .threads(1)
            .register::<Step>();
        let running = worker.start().unwrap();
        warm_up(&mut conn, &remote);
        let steps: Vec<Step> = (101..=104).map(Step::waiting).collect();
        let ids = Step::enqueue_all(&steps, &mut conn, &EnqueueOptions::new()).unwrap();
        let long = remote.begun();
        let others = "SELECT count(*) FROM leasehold.jobs WHERE state = 'ready' AND attempt = 0";
        eventually(SOON, "the others can be claimed", || db.integer(others) == 3);
        let (app, other) = self::app();
        let second = Worker::<Connection, App>::new(db.url(), app)
            .threads(3)
            .register::<Step>()
            .start()
            .unwrap();
        (0..3).for_each(|_| other.begun().go());
        eventually(SOON, "they are done", || second.counts().completed == 3);
        long.go();
        eventually(SOON, "the long one, too", || running.counts().completed == 41);
        assert_eq!(ids.len(), 4);
    }
);

conformance!(
    /// It begins without a write of its own; the heartbeat makes up for it.
    fn a_job_that_was_claimed_ahead_is_known_to_have_begun_with_its_first_heartbeat(db: &mut Db) {
        let mut conn = prepare(db);
        let (app, remote) = app();
        let worker = Worker::<Connection, App>::new(db.url(), app)
            .threads(1)
            .fixed_batch(4)
            .register::<Step>();
        let running = worker.start().unwrap();
        let lease = EnqueueOptions::new().lease(Duration::from_secs(2));
        let ids = Step::enqueue_all(&[Step::waiting(1), Step::waiting(2)], &mut conn, &lease).unwrap();
        let handler = remote.begun();
        let begun = "SELECT id FROM leasehold.jobs WHERE begun";
        eventually(SOON, "it is recorded", || {
            db.integer("SELECT count(*) FROM leasehold.jobs WHERE begun") == 1
        });
        assert_eq!(db.integer(begun), handler.id);
        handler.go();
        remote.begun().go();
        eventually(SOON, "both are done", || running.counts().completed == 2);
        assert_eq!(ids.len(), 2);
    }
);

conformance!(
    /// Its owner may have died of it.
    fn a_job_that_lost_its_owner_begins_only_after_that_was_recorded(db: &mut Db) {
        let mut conn = prepare(db);
        Step::enqueue_all(&[Step::waiting(1), Step::waiting(2)], &mut conn, &EnqueueOptions::new()).unwrap();
        let (suspect, _) = claim_and_die::<Step, _>(&mut conn, false);
        db.set_time("leasehold.jobs", "lease_until", -1, "state = 'running'");
        let (app, remote) = app();
        let worker = Worker::<Connection, App>::new(db.url(), app).threads(2).fixed_batch(4);
        let running = worker.register::<Step>().start().unwrap();
        let handlers = [remote.begun(), remote.begun()];
        // Of the other one it may be recorded by now, with a heartbeat.
        let recorded = format!(
            "SELECT count(*) FROM leasehold.jobs WHERE begun AND id = {}",
            suspect.id
        );
        assert_eq!(db.integer(&recorded), 1);
        handlers.into_iter().for_each(|handler| handler.go());
        eventually(SOON, "both are done", || running.counts().completed == 2);
    }
);

conformance!(
    /// Else a job that may be tried once would begin again when its first handler takes the process along.
    fn a_job_at_its_last_attempt_begins_only_after_that_was_recorded(db: &mut Db) {
        let mut conn = prepare(db);
        let once = EnqueueOptions::new().max_attempts(1);
        Step::enqueue_all(&[Step::waiting(1), Step::waiting(2)], &mut conn, &once).unwrap();
        let (app, remote) = app();
        let worker = Worker::<Connection, App>::new(db.url(), app).threads(2).fixed_batch(4);
        let running = worker.register::<Step>().start().unwrap();
        let handlers = [remote.begun(), remote.begun()];
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs WHERE begun"), 2);
        handlers.into_iter().for_each(|handler| handler.go());
        eventually(SOON, "both are done", || running.counts().completed == 2);
    }
);
