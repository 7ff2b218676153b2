//! Batches: exactly one callback, whatever the order in which its jobs end.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use leasehold::batch::{self, BatchError, BatchRecord};
use leasehold::inspect::{self, State, WaitError};
use leasehold::manage::{self, Cancel};
use leasehold::testing::Runner;
use leasehold::{Batch, Counts, EnqueueError, EnqueueOptions, Handler, Job, JobError, LeaseGuard, Outcome, Schema};
use serde::{Deserialize, Serialize};

use crate::support::*;

/// What a batch calls; its handler tells the runner's state of the batch.
#[derive(Debug, Serialize, Deserialize, Job)]
#[job(kind = "call")]
pub(crate) struct Call {
    pub(crate) what: std::string::String,
}

pub(crate) fn call(what: &str) -> Call {
    Call { what: what.to_owned() }
}

/// Notes do what `on_note` says, and calls are collected.
pub(crate) struct App<'a, F> {
    pub(crate) on_note: F,
    pub(crate) called: &'a RefCell<Vec<(std::string::String, BatchRecord)>>,
}

impl<C: Backend, F> Handler<C, App<'_, F>> for Note
where
    F: for<'j> Fn(Note, LeaseGuard<'j, C>) -> Outcome<'j>,
{
    fn run<'j>(self, lease: LeaseGuard<'j, C>, app: &App<'_, F>) -> Outcome<'j> {
        (app.on_note)(self, lease)
    }
}

impl<C: Backend, F> Handler<C, App<'_, F>> for Call {
    fn run<'j>(self, mut lease: LeaseGuard<'j, C>, app: &App<'_, F>) -> Outcome<'j> {
        assert_eq!(lease.batch_id(), None, "a callback is not part of its batch");
        let batch = lease.callback_of()?.expect("it is a callback");
        app.called.borrow_mut().push((self.what, batch));
        lease.finish()
    }
}

/// Runs notes and calls until nothing is due; the calls, and the counts.
#[track_caller]
pub(crate) fn drain<C: Backend>(
    conn: &mut C,
    on_note: impl for<'j> Fn(Note, LeaseGuard<'j, C>) -> Outcome<'j>,
) -> (Vec<(std::string::String, BatchRecord)>, Counts) {
    let called = RefCell::default();
    let app = App {
        on_note,
        called: &called,
    };
    let runner = Runner::<C, _>::new(app).register::<Note>().register::<Call>();
    let counts = runner.drain(conn).unwrap();
    drop(runner);
    (called.into_inner(), counts)
}

fn notes(count: usize) -> Vec<Note> {
    (0..count).map(|number| note(number.to_string())).collect()
}

/// A batch of notes with both callbacks.
fn enqueued<C: Backend>(conn: &mut C, count: usize) -> i64 {
    let batch = Batch::new("notes")
        .add_all(&notes(count), &EnqueueOptions::new())
        .on_finished(&call("done"))
        .on_discarded(&call("discarded"));
    batch.enqueue(conn).unwrap().id
}

fn look<C: Backend>(conn: &mut C, id: i64) -> BatchRecord {
    batch::record(conn, &default_schema(), id).unwrap().unwrap()
}

conformance!(
    fn a_batch_calls_once_when_all_its_jobs_have_ended(db: &mut Db) {
        let mut conn = migrated(db);
        let id = enqueued(&mut conn, 3);
        let before = look(&mut conn, id);
        assert_eq!(
            (before.name.as_str(), before.counts.ready, before.counts.total()),
            ("notes", 3, 3)
        );
        assert!(!before.is_finished() && before.discarded_at.is_none() && before.cancelled_at.is_none());
        let ended = Cell::new(0);
        let (called, counts) = drain(&mut conn, |_, lease| {
            assert_eq!(lease.batch_id(), Some(id));
            ended.set(ended.get() + 1);
            match ended.get() {
                1 => lease.commit(|_| Ok(())),
                2 => lease.finish(),
                _ => lease.cancel("no"),
            }
        });
        assert_eq!((counts.completed, counts.cancelled), (3, 1));
        let [(what, seen)] = &called[..] else {
            panic!("{called:?}")
        };
        assert_eq!(what, "done");
        assert_eq!(*seen, look(&mut conn, id));
        assert!(seen.is_finished() && seen.finished_at >= Some(seen.created_at));
        assert_eq!(
            (seen.counts.completed, seen.counts.cancelled, seen.counts.total()),
            (2, 1, 3)
        );
        // The other callback has gone without a trace.
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 0);
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.finished_jobs"), 4);
        // Purged jobs do not change what it was.
        db.sql("DELETE FROM leasehold.finished_jobs");
        assert_eq!(look(&mut conn, id).counts, seen.counts);
    }
);

conformance!(
    fn the_first_discarded_job_is_told_once_and_at_once(db: &mut Db) {
        let mut conn = migrated(db);
        let id = enqueued(&mut conn, 4);
        let run = Cell::new(0);
        let (called, counts) = drain(&mut conn, |_, lease| {
            run.set(run.get() + 1);
            if run.get() < 4 {
                Err(JobError::discard("no"))
            } else {
                lease.finish()
            }
        });
        assert_eq!((counts.discarded, counts.completed), (3, 3));
        let told: Vec<_> = called
            .iter()
            .map(|(what, batch)| (what.as_str(), batch.is_finished()))
            .collect();
        // The callbacks have the notes' priority, and come after them by their run time: the order says nothing here.
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(
            told.iter().any(|(what, _)| *what == "discarded") && told.contains(&("done", true)),
            "{told:?}"
        );
        assert_eq!(look(&mut conn, id).counts.discarded, 3);
        // At once: while others are open.
        let second = enqueued(&mut conn, 2);
        let fences = claim_notes(&mut conn);
        let end = End {
            state: "discarded",
            reason: None,
            takes_away: false,
            error: None,
        };
        conn.end(&default_schema(), &fences[0], &end).unwrap();
        let (called, _) = drain(&mut conn, |_, lease| lease.finish());
        let [(what, seen)] = &called[..] else {
            panic!("{called:?}")
        };
        assert_eq!((what.as_str(), seen.id, seen.counts.running), ("discarded", second, 1));
        assert!(seen.discarded_at.is_some() && !seen.is_finished());
        conn.end(&default_schema(), &fences[1], &end).unwrap();
        let (called, _) = drain(&mut conn, |_, lease| lease.finish());
        assert_eq!(
            called.iter().map(|(what, _)| what.as_str()).collect::<Vec<_>>(),
            ["done"]
        );
    }
);

conformance!(
    fn an_empty_batch_is_done_at_once(db: &mut Db) {
        let mut conn = migrated(db);
        let id = enqueued(&mut conn, 0);
        assert!(look(&mut conn, id).is_finished());
        let (called, _) = drain(&mut conn, |_, lease| lease.finish());
        assert_eq!(
            called
                .iter()
                .map(|(what, batch)| (what.as_str(), batch.id))
                .collect::<Vec<_>>(),
            [("done", id)]
        );
        // A batch without callbacks, and one whose jobs exist already.
        let plain = Batch::new("plain").enqueue(&mut conn).unwrap();
        assert!(look(&mut conn, plain.id).is_finished() && plain.jobs.is_empty());
        let once = EnqueueOptions::new().idempotency_key("once");
        note("once").enqueue_with(&mut conn, &once).unwrap();
        let known = Batch::new("known")
            .add_all(&[note("once")], &once)
            .enqueue(&mut conn)
            .unwrap();
        assert!(!known.jobs[0].is_new() && look(&mut conn, known.id).is_finished());
        assert_eq!(look(&mut conn, known.id).counts.total(), 0);
    }
);

conformance!(
    fn a_batch_grows_from_within_until_it_has_finished(db: &mut Db) {
        let mut conn = migrated(db);
        let id = enqueued(&mut conn, 1);
        let (called, counts) = drain(&mut conn, |this, lease| {
            let (depth, batch) = (this.text.len(), lease.batch_id().unwrap());
            lease.commit(|tx| {
                if depth < 5 {
                    batch::add(tx, &default_schema(), batch, &note(format!("{}+", this.text)))?;
                    batch::add_all(
                        tx,
                        &default_schema(),
                        batch,
                        &[note(format!("{}+", this.text))],
                        &EnqueueOptions::new(),
                    )?;
                }
                Ok(())
            })
        });
        assert_eq!(counts.completed, 1 + 2 + 4 + 8 + 16 + 1);
        assert_eq!(called.len(), 1);
        assert_eq!(look(&mut conn, id).counts.completed, 31);
        let late = batch::add(&mut conn, &default_schema(), id, &note("late")).unwrap_err();
        assert!(matches!(late, BatchError::Finished { id: of } if of == id), "{late:?}");
        let missing = batch::add(&mut conn, &default_schema(), id + 1, &note("nowhere")).unwrap_err();
        assert!(matches!(missing, BatchError::Missing { .. }), "{missing:?}");
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 0);
    }
);

conformance!(
    /// The check is made when the last job has ended, and the add is not committed: it must wait for it.
    #[skip(sqlite, "an adder has the one write lock, and the check waits for it")]
    fn a_batch_does_not_finish_while_somebody_adds_to_it(db: &mut Db) {
        let mut conn = migrated(db);
        let id = enqueued(&mut conn, 1);
        let fence = claim_notes(&mut conn)[0];
        conn.finish(&default_schema(), &[fence]).unwrap();
        let mut adder = db.connect();
        adder
            .transaction(|tx| {
                batch::add(tx, &default_schema(), id, &note("more")).unwrap();
                let (called, _) = drain(&mut conn, |_, lease| lease.finish());
                assert!(called.is_empty(), "{called:?}");
                assert!(!look(&mut conn, id).is_finished());
                Ok::<_, diesel::result::Error>(())
            })
            .unwrap();
        let (called, counts) = drain(&mut conn, |_, lease| lease.finish());
        assert_eq!((called.len(), counts.completed), (1, 2));
    }
);

conformance!(
    fn what_is_rolled_back_leaves_nothing_and_the_callers_transaction_goes_on(db: &mut Db) {
        let mut conn = migrated(db);
        let rolled_back = conn.transaction(|tx| {
            enqueued(tx, 2);
            Err::<(), _>(diesel::result::Error::RollbackTransaction)
        });
        assert!(rolled_back.is_err());
        let taken = EnqueueOptions::new().idempotency_key("taken");
        call("there").enqueue_with(&mut conn, &taken).unwrap();
        let id = enqueued(&mut conn, 1);
        conn.transaction(|tx| {
            let large = note("x".repeat(EnqueueOptions::MAX_PAYLOAD_BYTES));
            let refused = Batch::new("b")
                .add(&large)
                .on_finished(&call("x"))
                .enqueue(tx)
                .unwrap_err();
            assert!(
                matches!(refused, BatchError::Enqueue(EnqueueError::PayloadTooLarge { .. })),
                "{refused:?}"
            );
            let refused = Batch::new("").add(&note("x")).enqueue(tx).unwrap_err();
            assert!(matches!(refused, BatchError::Name(_)), "{refused:?}");
            let refused = Batch::new("b")
                .on_finished_with(&call("there"), &taken)
                .add(&note("x"))
                .enqueue(tx)
                .unwrap_err();
            assert!(matches!(refused, BatchError::CallbackExists { .. }), "{refused:?}");
            // A conflict in the middle of an add.
            let refused = batch::add_all(tx, &default_schema(), id, &[note("other")], &taken).unwrap_err();
            assert!(
                matches!(refused, BatchError::Enqueue(EnqueueError::KeyConflict { .. })),
                "{refused:?}"
            );
            batch::add(tx, &default_schema(), id, &note("good"))
        })
        .unwrap();
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.batches"), 1);
        assert_eq!(look(&mut conn, id).counts.total(), 2);
        assert_eq!(
            db.integer("SELECT count(*) FROM leasehold.jobs WHERE batch_id IS NULL"),
            3
        );
    }
);

conformance!(
    fn a_batch_is_cancelled_as_a_whole(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let soft = enqueued(&mut conn, 1200);
        let fences = claim_notes(&mut conn);
        conn.release(&schema, &fences[2..]).unwrap();
        let later = EnqueueOptions::new().delay(Duration::from_secs(3600));
        batch::add_all(&mut conn, &default_schema(), soft, &[note("later")], &later).unwrap();
        conn.finish(&schema, &fences[..1]).unwrap();
        // One ended, one runs, the others are ready or scheduled.
        let asked = batch::cancel(&mut conn, &schema, soft, Cancel::Soft, "ops", "rain").unwrap();
        assert_eq!(asked, 1200);
        let seen = look(&mut conn, soft);
        assert_eq!(
            (seen.counts.cancelled, seen.counts.running, seen.counts.completed),
            (1199, 1, 1)
        );
        assert!(seen.cancelled_at.is_some() && !seen.is_finished());
        assert!(
            inspect::job(&mut conn, &schema, fences[1].id)
                .unwrap()
                .unwrap()
                .cancel_requested
        );
        let late = batch::add(&mut conn, &default_schema(), soft, &note("late")).unwrap_err();
        assert!(matches!(late, BatchError::Cancelled { .. }), "{late:?}");
        // Again, and harder.
        assert_eq!(
            batch::cancel(&mut conn, &schema, soft, Cancel::Hard, "ops", "storm").unwrap(),
            1
        );
        assert!(
            conn.finish(&schema, &fences[1..2]).unwrap().is_empty(),
            "its commit is refused"
        );
        assert!(look(&mut conn, soft).is_finished());
        let reason = inspect::job(&mut conn, &schema, fences[5].id).unwrap().unwrap();
        assert_eq!(
            (reason.state, reason.reason.as_deref()),
            (State::Cancelled, Some("rain"))
        );
        let (called, _) = drain(&mut conn, |_, lease| lease.finish());
        let [(what, batch)] = &called[..] else {
            panic!("{called:?}")
        };
        assert_eq!(
            (what.as_str(), batch.counts.cancelled, batch.counts.completed),
            ("done", 1200, 1)
        );
        let over = batch::cancel(&mut conn, &schema, soft, Cancel::Hard, "ops", "again").unwrap_err();
        assert!(matches!(over, BatchError::Finished { .. }), "{over:?}");
        let missing = batch::cancel(&mut conn, &schema, 999, Cancel::Hard, "ops", "x").unwrap_err();
        assert!(matches!(missing, BatchError::Missing { .. }), "{missing:?}");
    }
);

conformance!(
    fn jobs_of_other_types_and_options_make_one_batch(db: &mut Db) {
        let mut conn = migrated(db);
        let urgent = EnqueueOptions::new().priority(5).idempotency_key("urgent");
        let enqueued = Batch::new("mixed")
            .add(&note("a"))
            .add_all(&[note("b")], &urgent)
            .add(&call("not a callback"))
            .enqueue(&mut conn)
            .unwrap();
        let kinds: Vec<_> = enqueued
            .jobs
            .iter()
            .map(|job| {
                let job = inspect::job(&mut conn, &default_schema(), job.id()).unwrap().unwrap();
                (job.kind, job.priority)
            })
            .collect();
        assert_eq!(
            kinds,
            [("note".to_owned(), 0), ("note".to_owned(), 5), ("call".to_owned(), 0)]
        );
        assert_eq!(look(&mut conn, enqueued.id).counts.ready, 3);
        assert_eq!(db.integer("SELECT count(DISTINCT batch_id) FROM leasehold.jobs"), 1);
    }
);

conformance!(
    fn a_callback_that_was_cancelled_is_not_called(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let id = enqueued(&mut conn, 1);
        let callback = db.integer("SELECT done_job FROM leasehold.batches");
        assert_eq!(
            conn.waiting(&schema, &[served("default", "call", 1)], 10)
                .unwrap()
                .blocked,
            2
        );
        assert!(manage::cancel(&mut conn, &schema, callback, Cancel::Hard, "ops", "never mind").unwrap());
        let (called, _) = drain(&mut conn, |_, lease| lease.finish());
        assert!(called.is_empty() && look(&mut conn, id).is_finished());
    }
);

conformance!(
    /// A look at everything finds what a process left that died after a commit; a waiting callback is no job of a workflow.
    fn maintenance_finds_the_batches_that_nobody_looked_at(db: &mut Db) {
        let mut conn = migrated(db);
        conn.transaction(|tx| {
            (0..230).for_each(|_| _ = enqueued(tx, 1));
            Ok::<_, diesel::result::Error>(())
        })
        .unwrap();
        let fences = claim_notes(&mut conn);
        for chunk in fences.chunks(70).take(3) {
            conn.finish(&default_schema(), chunk).unwrap();
        }
        let (called, _) = drain(&mut conn, |_, _| unreachable!("the others run elsewhere"));
        assert_eq!(called.len(), 210);
        assert_eq!(
            db.integer("SELECT count(*) FROM leasehold.batches WHERE finished_at IS NULL"),
            20
        );
    }
);

conformance!(
    fn a_wait_for_a_batch_tells_its_progress(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let id = enqueued(&mut conn, 3);
        let short = Duration::from_millis(20);
        let late = batch::wait_for(&mut conn, &schema, id, short, |_| {}).unwrap_err();
        assert!(matches!(late, WaitError::Timeout { .. }), "{late:?}");
        let missing = batch::wait_for(&mut conn, &schema, 999, Duration::MAX, |_| {}).unwrap_err();
        assert!(matches!(missing, WaitError::Missing { .. }), "{missing:?}");
        let told = RefCell::new(Vec::new());
        let url = db.url();
        let mut waits = db.connect();
        std::thread::scope(|scope| {
            let (send, recv) = std::sync::mpsc::channel();
            let wait = scope.spawn(move || {
                batch::wait_for(&mut waits, &Schema::default(), id, Duration::from_secs(60), |batch| {
                    send.send(batch.counts.ended()).unwrap();
                })
            });
            assert_eq!(recv.recv().unwrap(), 0);
            let mut worker: Connection = Connect::connect(&url, &ConnectionSettings::default()).unwrap();
            drain(&mut worker, |_, lease| lease.finish());
            told.borrow_mut().extend(recv.iter());
            assert!(wait.join().unwrap().unwrap().is_finished());
        });
        assert_eq!(told.borrow().last(), Some(&3));
    }
);

conformance!(
    fn a_purge_leaves_what_an_unfinished_batch_counts(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let id = enqueued(&mut conn, 2);
        let fences = claim_notes(&mut conn);
        conn.finish(&schema, &fences[..1]).unwrap();
        run_new(&mut conn, |_, mut lease| {
            lease.progress(1, 2, "half")?;
            lease.finish_result(&1)
        });
        assert_eq!(
            conn.purge(&schema, "completed", 0, PurgeCursor::START, 10)
                .unwrap()
                .purged,
            1
        );
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.job_results"), 0);
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.job_progress"), 0);
        assert_eq!(look(&mut conn, id).counts.completed, 1);
        conn.finish(&schema, &fences[1..]).unwrap();
        drain(&mut conn, |_, lease| lease.finish());
        assert_eq!(
            conn.purge(&schema, "completed", 0, PurgeCursor::START, 10)
                .unwrap()
                .purged,
            3
        );
        // The batch goes after a time of its own.
        assert_eq!(conn.sweep_batches(&schema, 60_000, 10).unwrap(), 0);
        assert_eq!(look(&mut conn, id).counts.completed, 2);
        let open = enqueued(&mut conn, 1);
        db.set_time("leasehold.batches", "finished_at", -61_000, "finished_at IS NOT NULL");
        assert_eq!(conn.sweep_batches(&schema, 60_000, 10).unwrap(), 1);
        assert!(batch::record(&mut conn, &schema, id).unwrap().is_none());
        assert_eq!(look(&mut conn, open).counts.total(), 1);
    }
);

conformance!(
    fn a_job_that_is_requeued_after_its_batch_changes_no_count(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let id = enqueued(&mut conn, 2);
        let (_, counts) = drain(&mut conn, |note, lease| match note.text.as_str() {
            "0" => Err(JobError::discard("no")),
            _ => lease.finish(),
        });
        assert_eq!(counts.discarded, 1);
        let finished = look(&mut conn, id);
        assert!(finished.is_finished() && finished.counts.total() == 2, "{finished:?}");
        let job = db.integer("SELECT id FROM leasehold.finished_jobs WHERE state = 'discarded'");
        manage::requeue(&mut conn, &schema, job, "ops").unwrap();
        assert_eq!(look(&mut conn, id), finished);
        let (called, counts) = drain(&mut conn, |_, lease| lease.finish());
        assert_eq!((called.len(), counts.completed), (0, 1));
        assert_eq!(look(&mut conn, id), finished);
    }
);

conformance!(
    /// The canceller's transaction sees the jobs as they were before another one was added.
    #[skip(sqlite, "a transaction that has read an older state cannot write there")]
    fn a_cancel_that_sees_an_older_state_finishes_no_batch_that_has_grown(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let id = enqueued(&mut conn, 1);
        let mut other = db.connect();
        other
            .transaction(|tx| {
                tx.batch_execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")?;
                assert_eq!(look(tx, id).counts.ready, 1);
                batch::add(&mut conn, &schema, id, &note("more")).unwrap();
                assert_eq!(batch::cancel(tx, &schema, id, Cancel::Hard, "ops", "no").unwrap(), 1);
                Ok::<_, diesel::result::Error>(())
            })
            .unwrap();
        let now = look(&mut conn, id);
        assert!(!now.is_finished() && now.cancelled_at.is_some(), "{now:?}");
        let (called, _) = drain(&mut conn, |_, lease| lease.finish());
        let [(what, seen)] = &called[..] else {
            panic!("{called:?}")
        };
        assert_eq!(
            (what.as_str(), seen.counts.total(), seen.counts.completed),
            ("done", 2, 1)
        );
    }
);
