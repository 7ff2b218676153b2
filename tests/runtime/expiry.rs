use std::time::Duration;

use crossbeam_channel::{Sender, unbounded};
use diesel::Connection as _;
use leasehold::inspect::State;
use leasehold::manage;
use leasehold::{EnqueueOptions, Hooks, Job, JobInfo, Schema, Worker};
use leasehold_tests::jobs::{App, HOUR, Note, SOON, Step, Then, app, claim_and_die, job, prepare};
use leasehold_tests::{TestDb, conformance, eventually};

const OFTEN: Duration = Duration::from_millis(20);

/// Tells what ended without success, as `event id reason`.
struct Tell(Sender<String>);

impl Hooks for Tell {
    fn discarded(&self, job: &JobInfo<'_>, reason: &str) {
        let _ = self.0.send(format!("discarded {} {reason}", job.id));
    }
    fn cancelled(&self, job: &JobInfo<'_>, reason: &str) {
        let _ = self.0.send(format!("cancelled {} {reason}", job.id));
    }
}

conformance!(
    /// It was claimed in time, and waited too long for a thread.
    fn a_prefetched_job_that_expires_before_its_handler_begins_is_discarded(db: &mut Db) {
        let mut conn = prepare(db);
        let (app, remote) = app();
        let (tell, told) = unbounded();
        let worker = Worker::<Connection, App>::new(db.url(), app).threads(1).fixed_batch(4);
        let running = worker.hooks(Tell(tell)).register::<Step>().start().unwrap();
        // One claim takes both, and one of them has to wait for the thread.
        let age = EnqueueOptions::new().expires(Duration::from_millis(500));
        let enqueued = conn.transaction(|tx| {
            Step::waiting(1).enqueue(tx)?;
            Step::waiting(2).enqueue_with(tx, &age)
        });
        let late = enqueued.unwrap().id();
        let first = remote.begun();
        assert_eq!(first.n, 1);
        // By a good while: the worker counts from when the claim's answer came.
        let past = match Db::BACKEND {
            "sqlite" => "expires_at <= (julianday('now') - 2440587.5) * 86400000 - 2000",
            _ => "expires_at <= clock_timestamp() - INTERVAL '2 seconds'",
        };
        eventually(SOON, "it has expired", || {
            db.integer(&format!(
                "SELECT count(*) FROM leasehold.jobs WHERE id = {late} AND {past}"
            )) == 1
                || job(&mut conn, late).state == State::Discarded
        });
        first.go();
        assert_eq!(told.recv_timeout(SOON).unwrap(), format!("discarded {late} expired"));
        eventually(SOON, "the other one is completed", || running.counts().completed == 1);
        assert!(remote.nothing_begun());
        assert_eq!(running.counts().discarded, 1);
        assert_eq!(job(&mut conn, late).reason.as_deref(), Some("expired"));
    }
);

conformance!(
    fn what_nobody_serves_is_discarded_by_any_worker_and_the_hook_is_told(db: &mut Db) {
        let mut conn = prepare(db);
        let late = EnqueueOptions::new().expires(Duration::ZERO).delay(HOUR);
        let steps: Vec<Step> = (1..=700).map(Step::waiting).collect();
        let ids = Step::enqueue_all(&steps, &mut conn, &late).unwrap();
        let kept = Step::waiting(0).enqueue(&mut conn).unwrap().id();
        let (tell, told) = unbounded();
        let worker = Worker::<Connection, _>::new(db.url(), ()).sweep_interval(OFTEN);
        let running = worker.hooks(Tell(tell)).register::<Note>().start().unwrap();
        let mut discarded: Vec<String> = (1..=700).map(|_| told.recv_timeout(SOON).unwrap()).collect();
        discarded.sort_unstable();
        let mut expected: Vec<String> = ids
            .iter()
            .map(|job| format!("discarded {} expired", job.id()))
            .collect();
        expected.sort_unstable();
        assert_eq!(discarded, expected);
        assert_eq!(running.counts().discarded, 700);
        assert_eq!(job(&mut conn, kept).state, State::Ready);
    }
);

conformance!(
    fn a_job_that_the_sweep_ends_is_told_to_the_hook_of_its_end(db: &mut Db) {
        let mut conn = prepare(db);
        let once = EnqueueOptions::new().max_attempts(1);
        let discarded = Step::waiting(1).enqueue_with(&mut conn, &once).unwrap().id();
        claim_and_die::<Step, _>(&mut conn, true);
        let cancelled = Step::waiting(2).enqueue(&mut conn).unwrap().id();
        claim_and_die::<Step, _>(&mut conn, true);
        manage::cancel(
            &mut conn,
            &Schema::default(),
            cancelled,
            manage::Cancel::Soft,
            "ops",
            "",
        )
        .unwrap();
        db.set_time("leasehold.jobs", "lease_until", -1, "state = 'running'");
        let (tell, told) = unbounded();
        let worker = Worker::<Connection, _>::new(db.url(), ()).sweep_interval(OFTEN);
        let _running = worker.hooks(Tell(tell)).register::<Note>().start().unwrap();
        let mut ends = [told.recv_timeout(SOON).unwrap(), told.recv_timeout(SOON).unwrap()];
        ends.sort_unstable();
        assert_eq!(
            ends,
            [
                format!("cancelled {cancelled} lease expired"),
                format!("discarded {discarded} lease expired")
            ]
        );
    }
);

conformance!(
    fn a_job_that_cannot_be_discarded_does_not_keep_its_neighbours(db: &mut Db) {
        let mut conn = prepare(db);
        let late = EnqueueOptions::new().expires(Duration::ZERO).delay(HOUR);
        let steps: Vec<Step> = (1..=5).map(|n| Step::now(n, Then::Commit)).collect();
        let ids = Step::enqueue_all(&steps, &mut conn, &late).unwrap();
        let bad = ids[0].id();
        // An application's rows that must not lose the job they belong to.
        db.sql(match Db::BACKEND {
            "sqlite" => {
                "CREATE TRIGGER keep BEFORE DELETE ON leasehold_jobs WHEN old.id = 1
                 BEGIN SELECT raise(ABORT, 'the application needs it'); END"
            }
            _ => {
                "CREATE TABLE needs (job bigint NOT NULL REFERENCES leasehold.jobs (id));
                 INSERT INTO needs VALUES (1)"
            }
        });
        assert_eq!(bad, 1);
        let worker = Worker::<Connection, _>::new(db.url(), ()).sweep_interval(OFTEN);
        let running = worker.register::<Note>().start().unwrap();
        eventually(SOON, "the others are discarded", || running.counts().discarded == 4);
        assert_eq!(job(&mut conn, bad).state, State::Ready);
    }
);
