//! Refusals: what a guard answers when the job is not its own any more, and that its writes are gone.

use std::cell::RefCell;
use std::time::Duration;

use leasehold::inspect::State;
use leasehold::{EnqueueOptions, Job, JobError, LeaseGuard, Outcome, Refusal};
use uuid::Uuid;

use crate::support::*;

/// Runs one note whose job is changed by `change` before its handler commits; how that was refused.
#[track_caller]
fn refused<C: Backend>(
    conn: &mut C,
    change: impl Fn(i64),
    end: impl for<'j> Fn(LeaseGuard<'j, C>) -> Outcome<'j>,
) -> Refusal {
    let refusal = RefCell::new(None);
    let (_, counts) = run_new(conn, |_, lease| {
        change(lease.job_id());
        let outcome = end(lease);
        let error = outcome.as_ref().unwrap_err();
        assert!(error.is_lost());
        *refusal.borrow_mut() = error.refusal().cloned();
        assert_eq!(error.to_string(), refusal.borrow().as_ref().unwrap().to_string());
        outcome
    });
    assert_eq!((counts.lost, counts.ended(), counts.retried), (1, 0, 0));
    refusal.into_inner().unwrap()
}

fn commit<'j, C: Backend>(lease: LeaseGuard<'j, C>) -> Outcome<'j> {
    lease.commit(|tx| Ok(write(tx, 1)?))
}

conformance!(
    fn a_late_workers_commit_is_refused_and_its_writes_are_gone(db: &mut Db) {
        let mut conn = migrated(db);
        let other = RefCell::new(open(db));
        // Swept, and not claimed by anybody yet.
        let sweep = |id| assert_eq!(sweep_only(&mut *other.borrow_mut(), id), "ready");
        assert_eq!(refused(&mut conn, sweep, commit), Refusal::Lost { generation: 2 });
        assert!(written(db).is_empty());
        assert_eq!(
            db.integer("SELECT count(*) FROM leasehold.jobs WHERE state = 'ready' AND generation = 2"),
            1
        );
        db.sql("DELETE FROM leasehold.jobs");
        // Swept and claimed by the next owner, who commits afterwards.
        let owner = RefCell::new(None);
        let take = |id| *owner.borrow_mut() = take_over(&mut *other.borrow_mut(), id);
        assert_eq!(refused(&mut conn, take, commit), Refusal::Lost { generation: 3 });
        assert!(written(db).is_empty());
        let owner = owner.into_inner().unwrap();
        assert_eq!(standing(db, owner.id), "running generation=3 attempt=2");
        assert_eq!(conn.finish(&default_schema(), &[owner]).unwrap(), [owner.id]);
    }
);

/// Takes the job from its worker, and lets nobody claim it soon; its new state.
fn sweep_only<C: Backend>(conn: &mut C, id: i64) -> std::string::String {
    conn.expire_lease(&default_schema(), id).unwrap();
    let swept = conn.sweep(&default_schema(), 10).unwrap();
    conn.move_run_at(&default_schema(), id, 3_600_000).unwrap();
    swept.into_iter().find(|swept| swept.id == id).unwrap().state
}

conformance!(
    #[skip(sqlite, "the closure has the one write lock: nobody takes the job meanwhile")]
    fn a_job_taken_while_the_closure_runs_is_lost(db: &mut Db) {
        let mut conn = migrated(db);
        let other = RefCell::new(open(db));
        let commit_late: for<'j> fn(LeaseGuard<'j, Connection>, &RefCell<Connection>) -> Outcome<'j> =
            |lease, other| {
                let id = lease.job_id();
                lease.commit(|tx| {
                    write(tx, 1)?;
                    take_over(&mut *other.borrow_mut(), id);
                    Ok(write(tx, 2)?)
                })
            };
        let refusal = refused(&mut conn, |_| {}, |lease| commit_late(lease, &other));
        assert_eq!(refusal, Refusal::Lost { generation: 3 });
        assert!(written(db).is_empty());
        assert_eq!(
            db.integer("SELECT count(*) FROM leasehold.jobs WHERE state = 'running' AND generation = 3"),
            1
        );
    }
);

conformance!(
    /// Whoever took the job has written that row: the violation is a symptom.
    fn a_late_workers_error_in_the_closure_is_the_refusal(db: &mut Db) {
        let mut conn = migrated(db);
        let other = RefCell::new(open(db));
        let sweep_and_write = |id| {
            let other = &mut *other.borrow_mut();
            sweep_only(other, id);
            write(other, 1).unwrap();
        };
        assert_eq!(
            refused(&mut conn, sweep_and_write, commit),
            Refusal::Lost { generation: 2 }
        );
        assert_eq!(written(db), [1]);
    }
);

conformance!(
    fn each_thing_that_became_of_the_row_is_told(db: &mut Db) {
        let mut conn = migrated(db);
        let other = RefCell::new(open(db));
        let sql = |text: &str, id: i64| {
            let renamed = if Db::BACKEND == "sqlite" {
                "leasehold_jobs"
            } else {
                "leasehold.jobs"
            };
            let text = format!("{} WHERE id = {id}", text.replace("jobs", renamed));
            other.borrow_mut().batch_execute(&text).unwrap();
        };
        let finished = |state| Refusal::AlreadyFinished { state };

        let gone = refused(&mut conn, |id| sql("DELETE FROM jobs", id), commit);
        assert_eq!(gone, Refusal::Missing);

        let completed_by_the_next = |id| {
            let other = &mut *other.borrow_mut();
            let owner = take_over(other, id).unwrap();
            assert_eq!(other.finish(&default_schema(), &[owner]).unwrap(), [id]);
        };
        assert_eq!(
            refused(&mut conn, completed_by_the_next, commit),
            finished(State::Completed)
        );

        let used_up = |id| {
            sql("UPDATE jobs SET max_attempts = 1", id);
            assert_eq!(sweep_only(&mut *other.borrow_mut(), id), "discarded");
        };
        assert_eq!(refused(&mut conn, used_up, commit), finished(State::Discarded));

        let cancelled = |id| {
            let how = leasehold::manage::Cancel::Hard;
            let cancelled =
                leasehold::manage::cancel(&mut *other.borrow_mut(), &default_schema(), id, how, "ops", "no need");
            assert!(cancelled.unwrap());
        };
        assert_eq!(refused(&mut conn, cancelled, commit), Refusal::Cancelled);

        // The database forgot a claim: a lower generation, or the same with another token.
        let below = refused(&mut conn, |id| sql("UPDATE jobs SET generation = 0", id), commit);
        assert_eq!(below, Refusal::DurabilityLoss { generation: 0 });
        db.sql("DELETE FROM leasehold.jobs");
        let token = format!("UPDATE jobs SET lease_token = '{}'", Uuid::new_v4());
        let repeated = refused(&mut conn, |id| sql(&token, id), commit);
        assert_eq!(repeated, Refusal::DurabilityLoss { generation: 1 });
        assert!(written(db).is_empty());
    }
);

conformance!(
    fn only_a_strict_commit_asks_whether_the_lease_has_run_out(db: &mut Db) {
        let mut conn = migrated(db);
        let other = RefCell::new(open(db));
        let expire = |id| assert_eq!(other.borrow_mut().expire_lease(&default_schema(), id).unwrap(), 1);
        let strict = refused(&mut conn, expire, |lease| commit(lease.strict()));
        assert_eq!(strict, Refusal::Expired);
        assert!(written(db).is_empty());
        assert_eq!(
            db.integer("SELECT count(*) FROM leasehold.jobs WHERE state = 'running'"),
            1
        );
        db.sql("DELETE FROM leasehold.jobs");

        let (id, _) = run_new(&mut conn, |_, lease| {
            expire(lease.job_id());
            commit(lease)
        });
        assert_eq!(standing(db, id), "completed generation=1 attempt=1");
        let (id, _) = run_new(&mut conn, |_, lease| lease.strict().commit(|tx| Ok(write(tx, 2)?)));
        assert_eq!(standing(db, id), "completed generation=1 attempt=1");
        assert_eq!(written(db), [1, 2]);
    }
);

conformance!(
    #[skip(sqlite, "SQLite has no row locks")]
    fn a_strict_commit_that_waited_is_judged_by_when_it_stopped_waiting(db: &mut Db) {
        let mut conn = migrated(db);
        let other = RefCell::new(open(db));
        let url = db.url();
        let refusal = refused(
            &mut conn,
            |_| {
                let other = &mut *other.borrow_mut();
                // Valid when the completion is sent; past when the lock is free.
                let soon = "UPDATE leasehold.jobs SET lease_until = clock_timestamp() + interval '300 ms'";
                other.batch_execute(soon).unwrap();
                let mut blocker: Connection =
                    leasehold::__private::Connect::connect(&url, &ConnectionSettings::default()).unwrap();
                blocker
                    .batch_execute("BEGIN; SELECT * FROM leasehold.jobs FOR UPDATE")
                    .unwrap();
                std::thread::spawn(move || {
                    blocker
                        .batch_execute(
                            "SELECT pg_sleep_until(lease_until + interval '50 ms') FROM leasehold.jobs; COMMIT",
                        )
                        .unwrap();
                });
            },
            |lease| commit(lease.strict()),
        );
        assert_eq!(refusal, Refusal::Expired);
        assert!(written(db).is_empty());
    }
);

conformance!(
    /// By this process's own clock: the database is not asked.
    fn a_lease_that_ran_out_here_is_not_used_any_more(db: &mut Db) {
        let mut conn = migrated(db);
        let options = EnqueueOptions::new().lease(Duration::from_millis(1));
        let id = note("short").enqueue_with(&mut conn, &options).unwrap().id();
        let ends: [for<'j> fn(LeaseGuard<'j, Connection>) -> Outcome<'j>; 5] = [
            commit,
            |lease| lease.finish(),
            |lease| lease.snooze(Duration::ZERO),
            |lease| lease.cancel("late"),
            |mut lease| {
                lease.read(|_| Ok::<_, JobError>(()))?;
                lease.finish()
            },
        ];
        for end in ends {
            let counts = run(&mut conn, |_, lease| {
                let watch = lease.watch();
                leasehold_tests::eventually(Duration::from_secs(10), "the lease runs out", || watch.is_lost());
                assert!(lease.is_lost() && watch.remaining().is_zero());
                assert_eq!(lease.check().unwrap_err().refusal(), Some(&Refusal::Expired));
                let outcome = end(lease);
                assert_eq!(outcome.as_ref().unwrap_err().refusal(), Some(&Refusal::Expired));
                outcome
            });
            assert_eq!((counts.lost, counts.ended()), (1, 0));
            assert!(standing(db, id).starts_with("running"));
            assert_eq!(sweep_only(&mut conn, id), "ready");
            conn.move_run_at(&default_schema(), id, 0).unwrap();
        }
        assert!(written(db).is_empty());
    }
);

conformance!(
    /// The runtime writes it after the handler returned, so the handler cannot be told.
    fn a_late_finish_is_counted_as_lost_and_changes_nothing(db: &mut Db) {
        let mut conn = migrated(db);
        let other = RefCell::new(open(db));
        let ends: [for<'j> fn(LeaseGuard<'j, Connection>) -> Outcome<'j>; 5] = [
            |lease| lease.finish(),
            |lease| lease.snooze(Duration::ZERO),
            |lease| lease.cancel("late"),
            |_| Err(JobError::retry("late")),
            |_| Err(JobError::discard("late")),
        ];
        for end in ends {
            let (id, counts) = run_new(&mut conn, |_, lease| {
                take_over(&mut *other.borrow_mut(), lease.job_id());
                end(lease)
            });
            assert_eq!(
                (counts.lost, counts.ended(), counts.retried, counts.snoozed),
                (1, 0, 0, 0)
            );
            assert_eq!(standing(db, id), "running generation=3 attempt=2");
            let late = format!("SELECT count(*) FROM leasehold.job_errors WHERE job_id = {id} AND error = 'late'");
            assert_eq!(db.integer(&late), 0);
            db.sql("DELETE FROM leasehold.jobs");
        }
    }
);
