//! Chosen claims from places where nobody expects them.

use leasehold::batch;
use leasehold::manage::Cancel;
use leasehold::selected::{Answer, BlockedBy, ClaimError, Settled};
use leasehold::{Batch, EnqueueOptions, JobError, Schema, Worker, Workflow, manage};
use leasehold_tests::jobs::{App, Effects, HOUR, Note, SOON, Step, Then, app, prepare};
use leasehold_tests::{TestDb, conformance, eventually};

use crate::selected::{commits, standing, start, steps, take};

conformance!(
    fn a_job_may_be_worked_off_in_the_run_of_another_one(db: &mut Db) {
        let mut conn = prepare(db);
        let ids = steps(&mut conn, 3, &EnqueueOptions::new());
        let running = start(db, app().0);
        let inner = take(&running, ids[1]);
        let mut told = None;
        let outer = take(&running, ids[0]).work(|step: Step, lease| {
            told = Some(inner.work(|step: Step, lease| commits(&step, lease)));
            assert!(running.claim_now(ids[2]).unwrap().is_claimed());
            commits(&step, lease)
        });
        assert_eq!((outer, told), (Settled::Completed, Some(Settled::Completed)));
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 2);
    }
);

conformance!(
    fn a_worker_that_is_dropped_in_the_run_of_its_job_takes_the_job_away_and_gives_the_others_back(db: &mut Db) {
        let mut conn = prepare(db);
        let ids = steps(&mut conn, 3, &EnqueueOptions::new());
        let running = start(db, app().0);
        let [step, other, leaked] = [0, 1, 2].map(|n| take(&running, ids[n]));
        std::mem::forget(leaked);
        let settled = step.work(move |_: Step, lease| {
            drop(running);
            lease.finish()
        });
        assert!(matches!(settled, Settled::Lost(_)), "{settled:?}");
        assert_eq!(other.work(|_: Step, lease| lease.finish()), Settled::Released);
        let standings = [0, 1, 2].map(|n| standing(&mut conn, ids[n]));
        assert_eq!(
            standings,
            [2, 1, 1].map(|generation| ("ready".to_owned(), 0, generation))
        );
    }
);

conformance!(
    fn a_job_that_was_to_be_cancelled_while_a_caller_had_it_is_cancelled_when_it_is_dropped(db: &mut Db) {
        let mut conn = prepare(db);
        let id = steps(&mut conn, 1, &EnqueueOptions::new().lease(HOUR))[0];
        let running = start(db, app().0);
        let step = take(&running, id);
        assert!(manage::cancel(&mut conn, &Schema::default(), id, Cancel::Soft, "ops", "enough").unwrap());
        eventually(SOON, "the caller can see it", || step.watch().is_cancel_requested());
        drop(step);
        eventually(SOON, "it is cancelled", || running.counts().cancelled == 1);
        assert_eq!(standing(&mut conn, id), ("cancelled".to_owned(), 1, 1));
        assert!(matches!(running.claim_now(id).unwrap(), Answer::Cancelled { .. }));
    }
);

conformance!(
    fn without_batching_too_jobs_are_handed_over_worked_off_and_given_back(db: &mut Db) {
        let mut conn = prepare(db);
        let ids = steps(&mut conn, 6, &EnqueueOptions::new());
        let worker = Worker::<Connection, App>::new(db.url(), app().0)
            .claims_selected_only()
            .unbatched();
        let running = worker
            .register::<Step>()
            .threads(2)
            .poll_interval(HOUR)
            .start()
            .unwrap();
        take(&running, ids[0]).hand_over();
        take(&running, ids[1]).hand_over();
        take(&running, ids[2]).hand_over();
        assert_eq!(
            take(&running, ids[3]).work(|_: Step, lease| lease.finish()),
            Settled::Completed
        );
        drop(take(&running, ids[4]));
        eventually(SOON, "done", || running.counts().completed == 4);
        eventually(SOON, "none held", || running.leases_held() == 0);
        let report = running.shutdown(SOON);
        assert_eq!(report.abandoned, 0);
    }
);

conformance!(
    /// On SQLite it holds the write lock, for which whatever is begun in it would wait, and it for that.
    fn nothing_that_is_begun_inside_a_commit_waits_for_that_commit(db: &mut Db) {
        let mut conn = prepare(db);
        let ids = steps(&mut conn, 3, &EnqueueOptions::new());
        let running = start(db, app().0);
        let (outer, inner, third) = (take(&running, ids[0]), take(&running, ids[1]), ids[2]);
        let (told, tells) = crossbeam_channel::bounded(1);
        let commits = std::thread::spawn(move || {
            let mut inside = None;
            let mut inner = Some(inner);
            let settled = outer.work(|_: Step, lease| {
                lease.commit(|tx| {
                    tx.note(1)?;
                    let claimed = running.claim_now(third).map(|answer| answer.is_claimed());
                    let worked = inner.take().unwrap().work(|_: Step, lease| lease.finish());
                    inside = Some((claimed, worked));
                    Ok(())
                })
            });
            told.send((settled, inside.unwrap())).unwrap();
            running.shutdown(SOON)
        });
        let (settled, (claimed, worked)) = tells.recv_timeout(SOON).expect("the commit ends");
        assert_eq!(settled, Settled::Completed);
        if Db::BACKEND == "sqlite" {
            assert!(matches!(claimed, Err(ClaimError::InCommit)));
            assert_eq!(worked, Settled::InCommit);
        } else {
            assert!(claimed.unwrap());
            assert_eq!(worked, Settled::Completed);
        }
        assert_eq!(commits.join().unwrap().abandoned, 0);
        assert_eq!(
            standing(&mut conn, third),
            ("ready".to_owned(), 0, 1 - i64::from(Db::BACKEND == "sqlite"))
        );
    }
);

conformance!(
    /// The sweep's interval is an hour, so nothing but the process's own look after the end can do it.
    fn what_follows_a_chosen_job_follows_at_once(db: &mut Db) {
        for unbatched in [false, true] {
            let mut db = Db::new();
            let mut conn = prepare(&mut db);
            let worker = Worker::<Connection, App>::new(db.url(), app().0).claims_selected_only();
            let worker = if unbatched { worker.unbatched() } else { worker };
            let worker = worker.register::<Step>().register::<Note>();
            let running = worker.sweep_interval(HOUR).poll_interval(HOUR).start().unwrap();
            // Maintenance's first look is at the start; it must not be that.
            let id = steps(&mut conn, 1, &EnqueueOptions::new())[0];
            assert_eq!(
                take(&running, id).work(|step: Step, lease| commits(&step, lease)),
                Settled::Completed
            );
            for end in ["commit", "finish", "discard", "cancel", "drop", "hand over"] {
                let workflow = Workflow::new();
                let first = workflow.add(&Step::now(2, Then::Commit));
                let last = workflow.add(&Note { n: 2 }).after(first).run_anyway();
                let ids = workflow.enqueue(&mut conn).unwrap();
                let (first, last) = (ids.id_of(first), ids.id_of(last));
                let blocked = running.claim_now(last).unwrap();
                assert!(matches!(blocked, Answer::Blocked { by: BlockedBy::Jobs }), "{blocked}");
                let job = take(&running, first);
                let _ = match end {
                    "commit" => job.work(|step: Step, lease| commits(&step, lease)),
                    "finish" => job.work(|_: Step, lease| lease.finish()),
                    "discard" => job.work(|_: Step, _| Err(JobError::discard("no"))),
                    "cancel" => job.work(|_: Step, lease| lease.cancel("no")),
                    "drop" => {
                        manage::cancel(&mut conn, &Schema::default(), first, Cancel::Soft, "ops", "no").unwrap();
                        eventually(SOON, "the caller can see it", || job.watch().is_cancel_requested());
                        drop(job);
                        Settled::Unknown
                    }
                    _ => {
                        job.hand_over();
                        Settled::Unknown
                    }
                };
                eventually(SOON, "what follows can be claimed", || {
                    running.claim_now(last).unwrap().is_claimed()
                });
            }
            let batch = Batch::new("one")
                .add(&Step::now(3, Then::Commit))
                .on_finished(&Note { n: 3 });
            let batch = batch.enqueue(&mut conn).unwrap().id;
            let only = db.integer(&format!(
                "SELECT id FROM leasehold.jobs WHERE batch_id = {batch} AND kind = 'step'"
            ));
            assert_eq!(
                take(&running, only).work(|_: Step, lease| lease.finish()),
                Settled::Completed
            );
            assert!(
                batch::wait_for(&mut conn, &Schema::default(), batch, SOON, |_| {})
                    .unwrap()
                    .is_finished()
            );
        }
        let _ = db;
    }
);
