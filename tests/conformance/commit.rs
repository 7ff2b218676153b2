//! Commit through the guard: the writes and the completion together, or neither.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use diesel::connection::{AnsiTransactionManager, TransactionManager};
use diesel::result::Error;
use leasehold::__private::Isolation;
use leasehold::inspect::{self, ErrorRecord};
use leasehold::{Counts, Job, JobError, LeaseGuard, Outcome};

use crate::support::*;

/// The one failed attempt of a job that is ready again.
#[track_caller]
pub(crate) fn failed<D: TestDb>(db: &mut D, conn: &mut D::Connection, id: i64, counts: Counts) -> ErrorRecord {
    assert_eq!((counts.retried, counts.completed, counts.lost), (1, 0, 0));
    assert_eq!(standing(db, id), "ready generation=1 attempt=1");
    assert!(is_free(db, id));
    let mut attempts = inspect::errors(conn, &default_schema(), id).unwrap();
    assert_eq!(attempts.len(), 1);
    attempts.remove(0)
}

conformance!(
    fn writes_and_completion_are_committed_together(db: &mut Db) {
        let mut conn = migrated(db);
        let (id, counts) = run_new(&mut conn, |_, lease| {
            lease.commit(|tx| {
                write(tx, 1)?;
                write(tx, 2)?;
                Ok(())
            })
        });
        assert_eq!((counts.completed, counts.ended()), (1, 1));
        assert_eq!(written(db), [1, 2]);
        assert_eq!(standing(db, id), "completed generation=1 attempt=1");
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 0);
    }
);

conformance!(
    fn the_writes_are_not_seen_before_the_completion(db: &mut Db) {
        let mut conn = migrated(db);
        let other = RefCell::new(db);
        run_new(&mut conn, |_, lease| {
            lease.commit(|tx| {
                write(tx, 1)?;
                let db = &mut **other.borrow_mut();
                assert!(written(db).is_empty());
                assert_eq!(
                    db.integer("SELECT count(*) FROM leasehold.jobs WHERE state = 'running'"),
                    1
                );
                Ok(())
            })
        });
        assert_eq!(written(*other.borrow_mut()), [1]);
    }
);

conformance!(
    fn an_error_of_the_closure_rolls_back_and_is_a_failed_attempt(db: &mut Db) {
        let mut conn = migrated(db);
        let (id, counts) = run_new(&mut conn, |_, lease| {
            lease.commit(|tx| {
                write(tx, 1)?;
                Err(JobError::retry("no room"))
            })
        });
        let attempt = failed(db, &mut conn, id, counts);
        assert_eq!((attempt.cause.as_str(), attempt.error.as_str()), ("error", "no room"));
        assert!(written(db).is_empty());
        // Its next attempt commits.
        conn.move_run_at(&default_schema(), id, 0).unwrap();
        let counts = run(&mut conn, |_, lease| lease.commit(|tx| Ok(write(tx, 1)?)));
        assert_eq!(counts.completed, 1);
        assert_eq!(written(db), [1]);
    }
);

conformance!(
    fn an_error_after_the_commit_does_not_settle_the_job_again(db: &mut Db) {
        let mut conn = migrated(db);
        for (number, after) in [
            (|| Err(JobError::retry("too late"))) as fn() -> Result<(), JobError>,
            || Err(JobError::discard("too late")),
            || panic!("too late"),
        ]
        .into_iter()
        .enumerate()
        {
            let number = i64::try_from(number).unwrap();
            let (id, counts) = run_new(&mut conn, |_, lease| {
                let receipt = lease.commit(|tx| Ok(write(tx, number)?))?;
                after()?;
                Ok(receipt)
            });
            assert_eq!((counts.completed, counts.ended(), counts.retried), (1, 1, 0));
            assert_eq!(standing(db, id), "completed generation=1 attempt=1");
            assert!(inspect::errors(&mut conn, &default_schema(), id).unwrap().is_empty());
        }
        assert_eq!(written(db), [0, 1, 2]);
    }
);

conformance!(
    fn reads_see_the_database_and_cannot_write(db: &mut Db) {
        let mut conn = migrated(db);
        db.sql("INSERT INTO written VALUES (7)");
        let (id, counts) = run_new(&mut conn, |_, mut lease| {
            let jobs = lease.read(|conn| conn.open_jobs(&default_schema(), "note"))?;
            assert_eq!(jobs.len(), 1);
            let refused = lease.read(|conn| write(conn, 8)).unwrap_err();
            assert!(
                !refused.is_lost() && refused.downcast_ref::<Error>().is_some(),
                "{refused}"
            );
            assert!(lease.read(|conn| note("in a read").enqueue(conn)).is_err());
            let own: Result<(), JobError> = lease.read(|_| Err(JobError::discard("as read")));
            assert_eq!(own.unwrap_err().to_string(), "as read");
            lease.commit(|tx| Ok(write(tx, 9)?))
        });
        assert_eq!(counts.completed, 1);
        assert_eq!(standing(db, id), "completed generation=1 attempt=1");
        assert_eq!(written(db), [7, 9]);
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 0);
    }
);

conformance!(
    fn a_completion_outside_of_its_commit_writes_nothing(db: &mut Db) {
        let mut conn = migrated(db);
        let fence = claimed(&mut conn);
        let before = row(db, fence.id);
        for strict in [false, true] {
            assert_eq!(
                conn.complete(&default_schema(), &fence, strict).unwrap(),
                Completion::Ended
            );
            conn.begin_write().unwrap();
            assert_eq!(
                conn.complete(&default_schema(), &fence, strict).unwrap(),
                Completion::Ended
            );
            AnsiTransactionManager::commit_transaction(&mut conn).unwrap();
        }
        assert_eq!(row(db, fence.id), before);
    }
);

/// Commits at an isolation level, with a write of another session in the first runs of the closure.
fn conflicting<'j, C: Backend>(
    lease: LeaseGuard<'j, C>,
    isolation: Isolation,
    runs: &Cell<u32>,
    conflicts: u32,
    other: &RefCell<C>,
) -> Outcome<'j> {
    lease.commit_retrying(isolation, |tx| {
        runs.set(runs.get() + 1);
        // The snapshot is taken by the first statement.
        tx.batch_execute("SELECT * FROM written")?;
        if runs.get() <= conflicts {
            other
                .borrow_mut()
                .batch_execute("UPDATE balance SET cents = cents + 1")?;
        }
        tx.batch_execute("UPDATE balance SET cents = cents + 100")?;
        Ok(())
    })
}

conformance!(
    #[skip(sqlite, "its one writer never conflicts with another")]
    fn a_retrying_commit_runs_its_closure_again_after_a_conflict(db: &mut Db) {
        let mut conn = migrated(db);
        db.sql("CREATE TABLE balance (cents integer); INSERT INTO balance VALUES (0)");
        let other = RefCell::new(open(db));
        for isolation in [Isolation::RepeatableRead, Isolation::Serializable] {
            let runs = Cell::new(0);
            let (_, counts) = run_new(&mut conn, |_, lease| conflicting(lease, isolation, &runs, 2, &other));
            assert_eq!((counts.completed, runs.get()), (1, 3));
        }
        assert_eq!(db.integer("SELECT cents FROM balance"), 204);

        // Ten runs at the most; then it is a failed attempt, and not a lost lease.
        let runs = Cell::new(0);
        let (id, counts) = run_new(&mut conn, |_, lease| {
            conflicting(lease, Isolation::Serializable, &runs, 99, &other)
        });
        assert_eq!(runs.get(), 10);
        assert!(failed(db, &mut conn, id, counts).error.contains("could not serialize"));
        assert_eq!(db.integer("SELECT cents FROM balance"), 214);
    }
);

conformance!(
    fn a_retrying_commit_runs_once_at_its_isolation_level_without_a_conflict(db: &mut Db) {
        let mut conn = migrated(db);
        for (isolation, name) in [
            (Isolation::ReadCommitted, "read committed"),
            (Isolation::RepeatableRead, "repeatable read"),
            (Isolation::Serializable, "serializable"),
        ] {
            db.sql("DELETE FROM written");
            let runs = Cell::new(0);
            let (_, counts) = run_new(&mut conn, |_, lease| {
                lease.commit_retrying(isolation, |tx| {
                    runs.set(runs.get() + 1);
                    let mut insert = "INSERT INTO written SELECT 1".to_owned();
                    if Db::BACKEND == "postgres" {
                        insert += &format!(" WHERE current_setting('transaction_isolation') = '{name}'");
                    }
                    Ok(tx.batch_execute(&insert)?)
                })
            });
            assert_eq!((counts.completed, runs.get()), (1, 1));
            assert_eq!(written(db), [1], "{name}");
        }
    }
);

conformance!(
    fn a_constraint_that_fails_at_the_commit_is_a_failed_attempt(db: &mut Db) {
        let mut conn = migrated(db);
        db.sql("CREATE TABLE child (parent integer REFERENCES written (id) DEFERRABLE INITIALLY DEFERRED)");
        let (id, counts) = run_new(&mut conn, |_, lease| {
            lease.commit(|tx| {
                write(tx, 1)?;
                tx.batch_execute("INSERT INTO child VALUES (99)")?;
                Ok(())
            })
        });
        let attempt = failed(db, &mut conn, id, counts);
        assert!(
            attempt.error.to_lowercase().contains("foreign key"),
            "{}",
            attempt.error
        );
        assert!(written(db).is_empty());
        let (id, _) = run_new(&mut conn, |_, lease| lease.commit(|tx| Ok(write(tx, 1)?)));
        assert_eq!(standing(db, id), "completed generation=1 attempt=1");
    }
);

conformance!(
    fn finish_snooze_and_cancel_are_what_becomes_of_the_job(db: &mut Db) {
        let mut conn = migrated(db);
        let (finished, counts) = run_new(&mut conn, |_, lease| lease.finish());
        assert_eq!((counts.completed, counts.ended()), (1, 1));
        assert_eq!(standing(db, finished), "completed generation=1 attempt=1");

        let hour = Duration::from_secs(3600);
        let (snoozed, counts) = run_new(&mut conn, |_, lease| lease.snooze(hour));
        assert_eq!((counts.snoozed, counts.ended()), (1, 0));
        assert_eq!(standing(db, snoozed), "ready generation=1 attempt=0");
        assert!(is_free(db, snoozed));
        assert!(is_about(
            from_now(db, "leasehold.jobs", "run_at", &format!("id = {snoozed}")),
            hour
        ));

        let (cancelled, counts) = run_new(&mut conn, |_, lease| lease.cancel("paid\0 already"));
        assert_eq!((counts.cancelled, counts.ended()), (1, 1));
        assert_eq!(
            standing(db, cancelled),
            "cancelled generation=1 attempt=1: paid\u{fffd} already"
        );
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.job_errors"), 0);
    }
);
