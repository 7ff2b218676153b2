//! Workflows: each job after all that it waits for, or not at all.

use std::cell::RefCell;
use std::time::Duration;

use leasehold::inspect::{self, State};
use leasehold::manage::{self, Cancel};
use leasehold::testing::Runner;
use leasehold::{EnqueueError, EnqueueOptions, Job, JobError, LeaseGuard, Outcome, Workflow, WorkflowError};

use crate::batches::{call, drain};
use crate::support::*;

fn finish<'j, C: Backend>(_: Note, lease: LeaseGuard<'j, C>) -> Outcome<'j> {
    lease.finish()
}

fn state<C: Backend>(conn: &mut C, id: i64) -> State {
    inspect::job(conn, &default_schema(), id).unwrap().unwrap().state
}

conformance!(
    fn each_job_runs_after_all_that_it_waits_for(db: &mut Db) {
        let mut conn = migrated(db);
        let workflow = Workflow::new();
        let top = workflow.add(&note("top"));
        let (left, right) = (
            workflow.add(&note("left")).after(top),
            workflow.add(&note("right")).after(top),
        );
        let bottom = workflow.add(&note("bottom")).after_all([left, right]);
        // The order in which they are added says nothing.
        let first = workflow.add(&note("first"));
        let _ = top.after(first);
        let ids = workflow.enqueue(&mut conn).unwrap();
        assert_eq!(ids.ids().len(), 5);
        let waiting = conn
            .waiting(&default_schema(), &[served("default", "note", 1)], 10)
            .unwrap();
        assert_eq!((waiting.ready, waiting.blocked), (1, 4));
        let ran = RefCell::new(Vec::new());
        let (_, counts) = drain(&mut conn, |note, lease| {
            ran.borrow_mut().push(note.text);
            lease.finish()
        });
        assert_eq!(counts.completed, 5);
        let ran = ran.into_inner();
        assert_eq!(
            (&ran[..2], &ran[4..]),
            (&["first".to_owned(), "top".to_owned()][..], &["bottom".to_owned()][..])
        );
        assert_eq!(state(&mut conn, ids.id_of(bottom)), State::Completed);
    }
);

conformance!(
    fn a_discarded_job_cancels_what_waits_for_it_down_to_the_last(db: &mut Db) {
        let mut conn = migrated(db);
        let workflow = Workflow::new();
        let bad = workflow.add(&note("bad"));
        let slow = workflow.add_with(&note("slow"), &EnqueueOptions::new().delay(Duration::from_secs(3600)));
        // Cancelled at once, though it also waits for one that is open.
        let next = workflow
            .add_with(&call("next"), &EnqueueOptions::new().idempotency_key("k"))
            .after(bad)
            .after(slow);
        let last = workflow.add(&note("last")).after(next);
        let anyway = workflow.add(&note("anyway")).after(next).run_anyway();
        let beside = workflow.add(&note("beside")).after(anyway);
        let alone = workflow.add(&note("alone"));
        let ids = workflow.enqueue(&mut conn).unwrap();
        let (_, counts) = drain(&mut conn, |note, lease| match note.text.as_str() {
            "bad" => Err(JobError::discard("broken")),
            "last" => unreachable!("it waited for a job that was cancelled"),
            _ => lease.finish(),
        });
        assert_eq!((counts.discarded, counts.cancelled, counts.completed), (1, 2, 3));
        let standing = |conn: &mut Connection, of| {
            let job = inspect::job(conn, &default_schema(), ids.id_of(of)).unwrap().unwrap();
            (job.state, job.generation, job.reason)
        };
        let reason = |of| Some(format!("job {}, for which it waited, did not complete", ids.id_of(of)));
        assert_eq!(standing(&mut conn, next), (State::Cancelled, 1, reason(bad)));
        assert_eq!(standing(&mut conn, last), (State::Cancelled, 1, reason(next)));
        for job in [anyway, beside, alone] {
            assert_eq!(standing(&mut conn, job).0, State::Completed);
        }
        assert_eq!(state(&mut conn, ids.id_of(slow)), State::Ready);
    }
);

conformance!(
    fn a_cancel_frees_the_unique_keys_downstream(db: &mut Db) {
        let mut conn = migrated(db);
        let workflow = Workflow::new();
        let first = workflow.add(&note("first"));
        let second = workflow.add(&crate::unique::bill("acme", 7)).after(first);
        let ids = workflow.enqueue(&mut conn).unwrap();
        assert!(!crate::unique::bill("acme", 7).enqueue(&mut conn).unwrap().is_new());
        assert!(
            manage::cancel(
                &mut conn,
                &default_schema(),
                ids.id_of(first),
                Cancel::Hard,
                "ops",
                "no"
            )
            .unwrap()
        );
        drain(&mut conn, |_, lease| lease.finish());
        assert_eq!(state(&mut conn, ids.id_of(second)), State::Cancelled);
        assert!(crate::unique::bill("acme", 7).enqueue(&mut conn).unwrap().is_new());
    }
);

conformance!(
    fn results_are_read_by_those_that_waited(db: &mut Db) {
        let mut conn = migrated(db);
        let workflow = Workflow::new();
        let three = workflow.add(&note("3")).named("number");
        let four = workflow.add(&note("4")).named("number");
        let none = workflow.add(&note("none"));
        let bad = workflow.add(&note("bad")).named("bad");
        workflow
            .add(&note("sum"))
            .after_all([four, three, none, bad])
            .run_anyway();
        workflow.enqueue(&mut conn).unwrap();
        let (_, counts) = drain(&mut conn, |note, mut lease| match note.text.as_str() {
            "none" => lease.finish(),
            "bad" => Err(JobError::discard("no")),
            "sum" => {
                assert_eq!(lease.results_of::<i32>("number")?, [Some(3), Some(4)]);
                assert_eq!(lease.result_of::<i32>("number")?, Some(3));
                assert_eq!(lease.result_of::<i32>("note")?, None);
                assert_eq!(lease.result_of::<i32>("bad")?, None);
                assert!(lease.result_of::<i32>("nobody").is_err());
                assert!(lease.result_of::<std::string::String>("number").is_err());
                lease.finish_result(&7)
            }
            number => {
                let number: i32 = number.parse()?;
                lease.commit_result(|_| Ok(number))
            }
        });
        assert_eq!((counts.completed, counts.discarded, counts.retried), (4, 1, 0));
    }
);

conformance!(
    fn a_job_that_is_let_go_still_waits_for_its_time_and_its_limit(db: &mut Db) {
        let mut conn = migrated(db);
        let workflow = Workflow::new();
        let first = workflow.add(&note("first"));
        let later = workflow
            .add_with(&note("later"), &EnqueueOptions::new().delay(Duration::from_secs(3600)))
            .after(first);
        let limited = workflow.add(&note("limited")).after(first);
        let both = workflow
            .add_with(&note("both"), &EnqueueOptions::new().delay(Duration::from_secs(3600)))
            .after(first);
        let ids = workflow.enqueue(&mut conn).unwrap();
        let of = |job| ids.id_of(job);
        db.sql(&format!(
            "UPDATE leasehold.jobs SET limit_key = 'k' WHERE id IN ({}, {})",
            of(limited),
            of(both)
        ));
        let fence = claim_notes(&mut conn)[0];
        conn.finish(&default_schema(), &[fence]).unwrap();
        let waiting = [of(later), of(limited), of(both)];
        let let_go = conn.unblock(&default_schema(), &waiting.map(|id| (id, 0))).unwrap();
        assert_eq!(let_go, waiting);
        let mut kept = |id| {
            db.text(&format!(
                "SELECT CAST(scheduled AS integer) || coalesce(blocked_by, '-') FROM leasehold.jobs WHERE id = {id}"
            ))
        };
        assert_eq!(kept(of(later)).as_deref(), Some("1-"));
        assert_eq!(kept(of(limited)).as_deref(), Some("0limit"));
        assert_eq!(kept(of(both)).as_deref(), Some("1-"));
    }
);

conformance!(
    fn a_workflow_that_cannot_run_is_refused_whole(db: &mut Db) {
        let mut conn = migrated(db);
        let refused = |workflow: &Workflow, conn: &mut Connection| workflow.enqueue(conn).unwrap_err();
        let cycle = Workflow::new();
        let a = cycle.add(&note("a")).named("a");
        let b = cycle.add(&note("b")).named("b").after(a);
        let _ = a.after(b);
        // It is not in the cycle itself, and so not named.
        cycle.add(&note("c")).named("c").after(b);
        let error = refused(&cycle, &mut conn);
        assert!(
            matches!(&error, WorkflowError::Cycle { name } if name != "c"),
            "{error:?}"
        );
        let itself = Workflow::new();
        let a = itself.add(&note("a"));
        let _ = a.after(a);
        let error = refused(&itself, &mut conn);
        assert!(
            matches!(&error, WorkflowError::Cycle { name } if name == "note"),
            "{error:?}"
        );

        let (one, other) = (Workflow::new(), Workflow::new());
        let elsewhere = other.add(&note("x"));
        one.add(&note("y")).after(elsewhere);
        let error = refused(&one, &mut conn);
        assert!(matches!(error, WorkflowError::OtherWorkflow), "{error:?}");
        let error = refused(&one, &mut conn);
        assert!(matches!(error, WorkflowError::Spent), "{error:?}");

        let named = Workflow::new();
        named.add(&note("x")).named("");
        let error = refused(&named, &mut conn);
        assert!(matches!(error, WorkflowError::Name(_)), "{error:?}");

        let large = Workflow::new();
        large.add(&note("x".repeat(EnqueueOptions::MAX_PAYLOAD_BYTES)));
        let error = refused(&large, &mut conn);
        assert!(
            matches!(error, WorkflowError::Enqueue(EnqueueError::PayloadTooLarge { .. })),
            "{error:?}"
        );

        let taken = EnqueueOptions::new().idempotency_key("taken");
        let there = note("there").enqueue_with(&mut conn, &taken).unwrap().id();
        conn.transaction(|tx| {
            let twice = Workflow::new();
            let a = twice.add(&note("a"));
            twice.add_with(&note("there"), &taken).named("twice").after(a);
            let error = twice.enqueue(tx).unwrap_err();
            assert!(
                matches!(&error, WorkflowError::Exists { name, id } if name == "twice" && *id == there),
                "{error:?}"
            );
            // The caller's transaction goes on.
            note("good").enqueue(tx)
        })
        .unwrap();
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 2);
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.job_waits"), 0);
        assert!(Workflow::new().enqueue(&mut conn).unwrap().ids().is_empty());
    }
);

conformance!(
    fn a_waiting_job_is_not_claimed_and_can_be_cancelled(db: &mut Db) {
        let mut conn = migrated(db);
        let workflow = Workflow::new();
        let first = workflow.add(&note("first"));
        let second = workflow.add(&note("second")).after(first);
        let third = workflow.add(&note("third")).after(second);
        let ids = workflow.enqueue(&mut conn).unwrap();
        let fences = claim_notes(&mut conn);
        assert_eq!(
            fences.iter().map(|fence| fence.id).collect::<Vec<_>>(),
            [ids.id_of(first)]
        );
        assert!(
            manage::cancel(
                &mut conn,
                &default_schema(),
                ids.id_of(second),
                Cancel::Soft,
                "ops",
                "no"
            )
            .unwrap()
        );
        drain(&mut conn, |_, lease| lease.finish());
        assert_eq!(state(&mut conn, ids.id_of(third)), State::Cancelled);
        // A retry of the awaited job lets nobody go.
        conn.put_back(&default_schema(), &fences[0], &crate::fence::put_back())
            .unwrap();
        let (_, counts) = drain(&mut conn, |_, lease| lease.finish());
        assert_eq!(counts.completed, 1);
    }
);

conformance!(
    /// What a worker leaves that dies after its commit. The pages of the look are smaller than this workflow.
    fn maintenance_lets_go_what_nobody_looked_at(db: &mut Db) {
        let mut conn = migrated(db);
        let workflow = Workflow::new();
        let first = workflow.add(&note("first"));
        let others: Vec<_> = (0..1200)
            .map(|n| workflow.add(&note(n.to_string())).after(first))
            .collect();
        workflow.add(&call("last")).after_all(others).run_anyway();
        workflow.enqueue(&mut conn).unwrap();
        // A callback of a batch is kept in the same way, and waits for no job.
        let open = leasehold::Batch::new("open")
            .add(&call("open"))
            .on_finished(&call("done"))
            .enqueue(&mut conn)
            .unwrap();
        let fence = claim_notes(&mut conn);
        assert_eq!(fence.len(), 1);
        conn.finish(&default_schema(), &fence).unwrap();
        assert!(claim_notes(&mut conn).is_empty());
        let runner = Runner::<Connection, _>::new(finish).register::<Note>();
        assert!(runner.run_one(&mut conn).unwrap());
        assert_eq!(claim_notes(&mut conn).len(), 1000);
        let last = claim_notes(&mut conn);
        assert_eq!(last.len(), 199);
        db.sql("DELETE FROM leasehold.jobs WHERE state = 'running'");
        assert!(!runner.run_one(&mut conn).unwrap(), "no note is left");
        let serves = [served("default", "call", 1)];
        let waiting = conn.waiting(&default_schema(), &serves, 10).unwrap();
        assert_eq!((waiting.ready, waiting.blocked), (2, 1), "{open:?}");
    }
);

conformance!(
    fn what_is_let_go_is_let_go_under_the_generation_that_was_read(db: &mut Db) {
        let mut conn = migrated(db);
        let workflow = Workflow::new();
        let first = workflow.add(&note("first"));
        let second = workflow.add(&note("second")).after(first);
        let ids = workflow.enqueue(&mut conn).unwrap();
        let (first, second) = (ids.id_of(first), ids.id_of(second));
        let schema = default_schema();
        for wrong in [(second, 1), (first, 0), (second + 1, 0)] {
            assert!(conn.unblock(&schema, &[wrong]).unwrap().is_empty(), "{wrong:?}");
        }
        assert_eq!(conn.unblock(&schema, &[(second, 0), (first, 0)]).unwrap(), [second]);
        assert!(conn.unblock(&schema, &[(second, 0)]).unwrap().is_empty(), "once");
    }
);

conformance!(
    fn a_purge_leaves_what_a_waiting_job_waits_for(db: &mut Db) {
        let mut conn = migrated(db);
        let workflow = Workflow::new();
        let first = workflow.add(&note("first")).named("first");
        let second = workflow.add(&note("second"));
        workflow.add(&note("third")).after_all([first, second]);
        workflow.enqueue(&mut conn).unwrap();
        let fences = claim_notes(&mut conn);
        conn.finish(&default_schema(), &fences[..1]).unwrap();
        let purge = |conn: &mut Connection| {
            conn.purge(&default_schema(), "completed", 0, PurgeCursor::START, 10)
                .unwrap()
                .purged
        };
        assert_eq!(purge(&mut conn), 0);
        conn.finish(&default_schema(), &fences[1..]).unwrap();
        assert_eq!(purge(&mut conn), 0);
        let (_, counts) = drain(&mut conn, |_, lease| lease.finish());
        assert_eq!(counts.completed, 1, "its dependencies were there, and completed");
        assert_eq!(purge(&mut conn), 3);
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.job_waits"), 0);
    }
);

conformance!(
    /// The process that ends it looks at those that wait, as after its first end.
    fn a_requeued_job_is_still_awaited_by_those_that_wait_for_it(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let workflow = Workflow::new();
        let first = workflow.add(&note("first"));
        let second = workflow.add(&note("second"));
        let last = workflow.add(&note("last")).after_all([first, second]).run_anyway();
        let ids = workflow.enqueue(&mut conn).unwrap();
        let alone = note("alone").enqueue(&mut conn).unwrap().id();
        for id in [ids.id_of(first), alone] {
            assert!(manage::cancel(&mut conn, &schema, id, Cancel::Hard, "ops", "no").unwrap());
            manage::requeue(&mut conn, &schema, id, "ops").unwrap();
        }
        let (rows, _) = claim_served(&mut conn, &[served("default", "note", 1)], 10);
        let awaited: Vec<_> = rows.iter().map(|row| (row.id, row.awaited)).collect();
        assert_eq!(
            awaited,
            [(ids.id_of(first), true), (ids.id_of(second), true), (alone, false)]
        );
        assert_eq!(state(&mut conn, ids.id_of(last)), State::Ready);
    }
);

conformance!(
    fn a_cancel_by_hand_needs_no_worker_to_cancel_those_that_wait_and_to_finish_the_batch(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let workflow = Workflow::new();
        let first = workflow.add(&note("first"));
        let second = workflow.add(&note("second")).after(first);
        let ids = workflow.enqueue(&mut conn).unwrap();
        let batch = leasehold::Batch::new("b")
            .add(&note("only"))
            .on_finished(&call("done"))
            .enqueue(&mut conn)
            .unwrap();
        let only = db.integer(&format!("SELECT id FROM leasehold.jobs WHERE batch_id = {}", batch.id));
        for id in [ids.id_of(first), only] {
            assert!(manage::cancel(&mut conn, &schema, id, Cancel::Hard, "ops", "no").unwrap());
        }
        assert!(standing(db, ids.id_of(second)).starts_with("cancelled generation=1 attempt=0"));
        let record = leasehold::batch::record(&mut conn, &schema, batch.id).unwrap().unwrap();
        assert!(record.is_finished());
        assert_eq!(
            db.integer("SELECT count(*) FROM leasehold.jobs WHERE blocked_by IS NULL"),
            1,
            "its callback"
        );
    }
);
