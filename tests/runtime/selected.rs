//! Chosen jobs in the hands of their caller: held, worked off, handed over, given back.

use std::thread;
use std::time::{Duration, Instant};

use diesel::connection::{AnsiTransactionManager, TransactionManager};
use leasehold::__private::{CommitStatements, Connect, SweepStatements};
use leasehold::selected::{Answer, ClaimedJob, Settled};
use leasehold::{Backend, EnqueueOptions, Handler, Job, JobError, LeaseGuard, Outcome, Refusal, Running, Schema};
use leasehold::{StartError, Worker, testing};
use leasehold_tests::jobs::{App, Effects, HOUR, Hasty, SOON, Step, Then, app, job, prepare};
use leasehold_tests::{TestDb, conformance, eventually};
use serde::{Deserialize, Serialize};

const LEASE: Duration = Duration::from_millis(2400);

/// One at a time; its handler is never called.
#[derive(Serialize, Deserialize, Job)]
#[job(kind = "serial-step", unique(by = "n"), concurrency(max = 1))]
pub(crate) struct OneByOne {
    pub(crate) n: i64,
}

impl<C: Backend, A> Handler<C, A> for OneByOne {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, _: &A) -> Outcome<'j> {
        lease.finish()
    }
}

pub(crate) fn steps<C: Backend>(conn: &mut C, count: i64, options: &EnqueueOptions) -> Vec<i64> {
    let steps: Vec<Step> = (1..=count).map(|n| Step::now(n, Then::Commit)).collect();
    let enqueued = Step::enqueue_all(&steps, conn, options).unwrap();
    enqueued.iter().map(leasehold::Enqueued::id).collect()
}

/// A worker that claims nothing by itself.
pub(crate) fn start<D: TestDb>(db: &D, app: App) -> Running<D::Connection, App>
where
    D::Connection: Effects,
{
    let worker = Worker::<D::Connection, App>::new(db.url(), app).claims_selected_only();
    let worker = worker.register::<Step>().register::<Hasty>().register::<OneByOne>();
    worker.threads(2).poll_interval(HOUR).start().unwrap()
}

#[track_caller]
pub(crate) fn take<C: Backend>(running: &Running<C, App>, id: i64) -> ClaimedJob<C> {
    match running.claim_now(id).unwrap() {
        Answer::Claimed(job) => job,
        other => panic!("{other}"),
    }
}

/// What it is where it is now.
#[track_caller]
pub(crate) fn standing<C: Backend>(conn: &mut C, id: i64) -> (String, u32, i64) {
    let job = job(conn, id);
    (job.state.to_string(), job.attempt, job.generation)
}

pub(crate) fn commits<'j, C: Effects>(step: &Step, lease: LeaseGuard<'j, C>) -> Outcome<'j> {
    lease.commit(|tx| {
        tx.note(step.n)?;
        Ok(())
    })
}

conformance!(
    fn a_caller_keeps_its_job_for_longer_than_a_lease(db: &mut Db) {
        let mut conn = prepare(db);
        let id = steps(&mut conn, 1, &EnqueueOptions::new().lease(LEASE))[0];
        let (app, remote) = app();
        let running = start(db, app.clone());
        let claimed = take(&running, id);
        let since = Instant::now();
        // A peer that would take it, and sweeps all the time.
        let peer = Worker::<Connection, App>::new(db.url(), app).sweep_interval(Duration::from_millis(50));
        let peer = peer.register::<Step>().start().unwrap();
        eventually(SOON, "three leases have passed", || since.elapsed() > LEASE * 3);
        assert!(!claimed.watch().is_lost());
        assert!(remote.nothing_begun());
        assert_eq!((claimed.id(), claimed.attempt(), claimed.generation()), (id, 1, 1));
        assert_eq!((claimed.queue(), claimed.kind()), ("default", "step"));
        assert_eq!(claimed.idempotency_key(), job(&mut conn, id).idempotency_key);
        assert_eq!(claimed.payload(), job(&mut conn, id).payload);
        let settled = thread::spawn(move || claimed.work(|step: Step, lease| commits(&step, lease)));
        assert_eq!(settled.join().unwrap(), Settled::Completed);
        assert_eq!(standing(&mut conn, id), ("completed".to_owned(), 1, 1));
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 1);
        assert_eq!((running.counts().completed, running.leases_held()), (1, 0));
        assert_eq!(peer.counts().ended(), 0);
    }
);

conformance!(
    fn a_callers_run_is_settled_as_a_handlers_and_says_how(db: &mut Db) {
        let mut conn = prepare(db);
        let ids = steps(&mut conn, 8, &EnqueueOptions::new());
        let last = steps(&mut conn, 1, &EnqueueOptions::new().max_attempts(1))[0];
        let running = start(db, app().0);
        let work = |id, run: for<'j> fn(Step, LeaseGuard<'j, Connection>) -> Outcome<'j>| take(&running, id).work(run);

        assert_eq!(work(ids[0], |_, lease| lease.finish()), Settled::Completed);
        let settled = work(ids[1], |_, _| Err(JobError::retry_after("not yet", HOUR)));
        let retried = Settled::Retried {
            error: "not yet".to_owned(),
            after: HOUR,
        };
        assert_eq!(settled, retried);
        assert_eq!(
            work(ids[2], |_, lease| lease.snooze(HOUR)),
            Settled::Snoozed { after: HOUR }
        );
        let reason = "not to be done".to_owned();
        assert_eq!(
            work(ids[3], |_, _| Err(JobError::discard("not to be done"))),
            Settled::Discarded { reason }
        );
        let reason = "not needed".to_owned();
        assert_eq!(
            work(ids[4], |_, lease| lease.cancel("not needed")),
            Settled::Cancelled { reason }
        );
        let settled = work(ids[5], |step, lease| {
            lease.commit(|tx| {
                tx.note(step.n)?;
                panic!("in the middle")
            })
        });
        assert!(
            matches!(&settled, Settled::Retried { error, .. } if error == "panicked: in the middle"),
            "{settled:?}"
        );
        assert!(matches!(
            work(last, |_, _| Err(JobError::retry("again"))),
            Settled::Discarded { .. }
        ));
        // A mistake of the program costs no attempt.
        let settled = take(&running, ids[6]).work(|_: Hasty, lease| lease.finish());
        assert_eq!(settled, Settled::OtherType);
        eventually(SOON, "it is given back", || {
            standing(&mut conn, ids[6]) == ("ready".to_owned(), 0, 1)
        });
        db.sql(&format!(
            "UPDATE leasehold.jobs SET payload = '{{}}' WHERE id = {}",
            ids[7]
        ));
        assert!(
            matches!(work(ids[7], |_, lease| lease.finish()), Settled::Discarded { reason } if reason.contains("cannot be decoded"))
        );

        let states: Vec<_> = ids[..6].iter().map(|id| standing(&mut conn, *id).0).collect();
        assert_eq!(
            states,
            ["completed", "ready", "ready", "discarded", "cancelled", "ready"]
        );
        let attempts: Vec<_> = ids[..6].iter().map(|id| standing(&mut conn, *id).1).collect();
        assert_eq!(attempts, [1, 1, 0, 1, 1, 1]);
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 0);
        let counts = running.counts();
        assert_eq!((counts.completed, counts.retried, counts.snoozed), (1, 2, 1));
        assert_eq!(
            (counts.discarded, counts.cancelled, counts.released, counts.lost),
            (3, 1, 1, 0)
        );
        assert_eq!(running.leases_held(), 0);
    }
);

conformance!(
    fn a_job_that_is_handed_over_runs_on_the_workers_threads(db: &mut Db) {
        let mut conn = prepare(db);
        for how in ["selected only", "batched", "unbatched", "unbatched, selected only"] {
            let (app, remote) = app();
            let worker = Worker::<Connection, App>::new(db.url(), app)
                .threads(2)
                .poll_interval(HOUR);
            let worker = if how.contains("selected") {
                worker.claims_selected_only()
            } else {
                worker
            };
            let worker = if how.contains("unbatched") {
                worker.unbatched()
            } else {
                worker
            };
            // Nobody else claims from this queue.
            let options = EnqueueOptions::new().queue("by hand");
            let ids = steps(&mut conn, 5, &options);
            let running = worker.register::<Step>().start().unwrap();
            for selected in running.claim_selected(&ids).unwrap() {
                selected.answer.claimed().unwrap().hand_over();
            }
            let mut ended: Vec<i64> = (0..5).map(|_| remote.begun()).map(|begun| begun.id).collect();
            ended.sort_unstable();
            assert_eq!(ended, ids, "{how}");
            eventually(SOON, "they are completed", || running.counts().completed == 5);
            assert_eq!(standing(&mut conn, ids[4]), ("completed".to_owned(), 1, 1));
        }
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 20);
    }
);

conformance!(
    fn a_worker_of_chosen_jobs_claims_nothing_else(db: &mut Db) {
        let mut conn = prepare(db);
        let ids = steps(&mut conn, 3, &EnqueueOptions::new());
        let (app, remote) = app();
        let running = start(db, app.clone());
        take(&running, ids[2]).hand_over();
        assert_eq!(remote.begun().id, ids[2]);
        eventually(SOON, "it is completed", || running.counts().completed == 1);
        assert!(remote.nothing_begun());
        for id in &ids[..2] {
            assert_eq!(standing(&mut conn, *id), ("ready".to_owned(), 0, 0));
        }
        let worker = Worker::<Connection, App>::new(db.url(), app).claims_selected_only();
        let refused = worker.register::<Step>().run_until_empty().unwrap_err();
        assert!(matches!(refused, StartError::SelectedOnly), "{refused}");
    }
);

conformance!(
    fn a_dropped_job_is_given_back_and_the_drop_waits_for_nobody(db: &mut Db) {
        let mut conn = prepare(db);
        let id = steps(&mut conn, 1, &EnqueueOptions::new())[0];
        let running = start(db, app().0);
        let claimed = take(&running, id);
        // Nothing can be written to the row until this ends, which is after the drop.
        conn.begin_write().unwrap();
        conn.lock_ownership(&Schema::default(), id).unwrap();
        drop(claimed);
        assert_eq!(running.leases_held(), 1);
        AnsiTransactionManager::commit_transaction(&mut conn).unwrap();
        eventually(SOON, "it is given back", || running.leases_held() == 0);
        assert_eq!(standing(&mut conn, id), ("ready".to_owned(), 0, 1));
        assert_eq!(running.counts().released, 1);
        let again = take(&running, id);
        assert_eq!((again.attempt(), again.generation()), (1, 2));
    }
);

conformance!(
    fn a_caller_whose_job_was_taken_away_is_refused(db: &mut Db) {
        let mut conn = prepare(db);
        let id = steps(&mut conn, 1, &EnqueueOptions::new())[0];
        let (running, peer) = (start(db, app().0), start(db, app().0));
        let zombie = take(&running, id);
        eventually(SOON, "it is swept", || {
            // The heartbeat may renew it in between.
            testing::expire_lease(&mut conn, &Schema::default(), id).unwrap();
            conn.sweep(&Schema::default(), 10).unwrap();
            standing(&mut conn, id).0 == "ready"
        });
        let owner = take(&peer, id);
        // The row is running under its new owner: only the fence can refuse.
        let settled = zombie.work(|step: Step, lease| commits(&step, lease));
        assert!(matches!(settled, Settled::Lost(Refusal::Lost { .. })), "{settled:?}");
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 0);
        assert_eq!(
            owner.work(|step: Step, lease| commits(&step, lease)),
            Settled::Completed
        );
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 1);
        assert_eq!((running.counts().lost, peer.counts().completed), (1, 1));
    }
);

conformance!(
    fn a_late_finish_of_a_caller_is_refused_to_its_face(db: &mut Db) {
        let mut conn = prepare(db);
        let id = steps(&mut conn, 1, &EnqueueOptions::new())[0];
        let (running, peer) = (start(db, app().0), start(db, app().0));
        let zombie = take(&running, id);
        let mut owner = None;
        let settled = zombie.work(|_: Step, lease| {
            eventually(SOON, "it is swept", || {
                testing::expire_lease(&mut conn, &Schema::default(), id).unwrap();
                conn.sweep(&Schema::default(), 10).unwrap();
                standing(&mut conn, id).0 == "ready"
            });
            owner = Some(take(&peer, id));
            lease.finish()
        });
        assert!(matches!(settled, Settled::Lost(Refusal::Lost { .. })), "{settled:?}");
        assert_eq!(standing(&mut conn, id), ("running".to_owned(), 2, 3));
        assert_eq!(owner.unwrap().work(|_: Step, lease| lease.finish()), Settled::Completed);
    }
);

conformance!(
    fn a_run_past_its_timeout_is_fenced_and_no_thread_of_the_workers_is_replaced(db: &mut Db) {
        let mut conn = prepare(db);
        let id = Hasty { step: Step::waiting(1) }.enqueue(&mut conn).unwrap().id();
        let running = start(db, app().0);
        let claimed = take(&running, id);
        let watch = claimed.watch();
        let settled = claimed.work(|hasty: Hasty, lease| {
            eventually(SOON, "it is fenced", || watch.is_lost());
            eventually(SOON, "it is settled", || {
                standing(&mut conn, id) == ("ready".to_owned(), 1, 2)
            });
            commits(&hasty.step, lease)
        });
        assert_eq!(settled, Settled::Lost(Refusal::TimedOut));
        assert_eq!(running.stuck_handlers(), 0);
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 0);
        assert_eq!((running.counts().retried, running.leases_held()), (1, 0));
    }
);
