//! What the closure of a commit may do, and what becomes of the job when it does what it may not.

use diesel::connection::{AnsiTransactionManager, TransactionManager};

use crate::commit::failed;
use crate::support::*;

conformance!(
    fn a_violated_constraint_is_a_failed_attempt_of_a_job_that_is_not_lost(db: &mut Db) {
        let mut conn = migrated(db);
        db.sql("INSERT INTO written VALUES (1)");
        let (id, counts) = run_new(&mut conn, |_, lease| {
            lease.commit(|tx| {
                write(tx, 2)?;
                Ok(write(tx, 1)?)
            })
        });
        assert!(!failed(db, &mut conn, id, counts).error.is_empty());
        assert_eq!(written(db), [1]);
    }
);

conformance!(
    fn an_error_that_the_closure_swallowed_commits_nothing_by_halves(db: &mut Db) {
        let mut conn = migrated(db);
        let (id, counts) = run_new(&mut conn, |_, lease| {
            lease.commit(|tx| {
                write(tx, 1)?;
                assert!(write(tx, 1).is_err());
                Ok(())
            })
        });
        if Db::BACKEND == "postgres" {
            // The server refuses every further statement, the completion too.
            assert!(
                failed(db, &mut conn, id, counts)
                    .error
                    .contains("did not return its error")
            );
            assert!(written(db).is_empty());
        } else {
            // Only the failed statement is undone here, so what the closure calls success is committed.
            assert_eq!(standing(db, id), "completed generation=1 attempt=1");
            assert_eq!(written(db), [1]);
        }
    }
);

conformance!(
    fn a_nested_transaction_in_the_closure_is_part_of_the_commit(db: &mut Db) {
        let mut conn = migrated(db);
        let (id, counts) = run_new(&mut conn, |_, lease| {
            lease.commit(|tx| {
                tx.transaction(|tx| write(tx, 1))?;
                let undone = tx.transaction(|tx| {
                    write(tx, 2)?;
                    write(tx, 1)
                });
                assert!(undone.is_err());
                Ok(write(tx, 3)?)
            })
        });
        assert_eq!(counts.completed, 1);
        assert_eq!(standing(db, id), "completed generation=1 attempt=1");
        assert_eq!(written(db), [1, 3]);
    }
);

conformance!(
    fn a_transaction_left_open_in_the_closure_is_refused(db: &mut Db) {
        let mut conn = migrated(db);
        let (id, counts) = run_new(&mut conn, |_, lease| {
            lease.commit(|tx| {
                AnsiTransactionManager::begin_transaction(tx)?;
                Ok(write(tx, 1)?)
            })
        });
        let attempt = failed(db, &mut conn, id, counts);
        assert!(
            attempt.error.contains("left a transaction of its own open"),
            "{}",
            attempt.error
        );
        assert!(written(db).is_empty());
    }
);

conformance!(
    /// What was written before a raw COMMIT stands, fenced by nothing; the job is not taken for completed, and says why.
    fn a_closure_that_ends_its_transaction_is_a_failed_attempt(db: &mut Db) {
        let mut conn = migrated(db);
        for (statement, stands) in [
            ("COMMIT", true),
            ("ROLLBACK", false),
            ("COMMIT; BEGIN", true),
            ("ROLLBACK; BEGIN", false),
        ] {
            db.sql("DELETE FROM written; DELETE FROM leasehold.jobs; DELETE FROM leasehold.job_errors");
            let (id, counts) = run_new(&mut conn, |_, lease| {
                lease.commit(|tx| {
                    write(tx, 1)?;
                    tx.batch_execute(statement)?;
                    if statement.ends_with("BEGIN") {
                        write(tx, 2)?;
                    }
                    Ok(())
                })
            });
            let attempt = failed(db, &mut conn, id, counts);
            assert!(
                attempt.error.contains("ended the transaction itself"),
                "{statement}: {}",
                attempt.error
            );
            assert_eq!(written(db).contains(&1), stands, "{statement}");
            assert!(!written(db).contains(&2), "{statement}");
        }
        let (id, _) = run_new(&mut conn, |_, lease| lease.commit(|tx| Ok(write(tx, 9)?)));
        assert_eq!(standing(db, id), "completed generation=1 attempt=1");
    }
);

conformance!(
    fn a_panic_in_the_closure_rolls_back_and_is_kept(db: &mut Db) {
        let mut conn = migrated(db);
        let (id, counts) = run_new(&mut conn, |_, lease| {
            lease.commit(|tx| {
                write(tx, 1)?;
                panic!("out of {}", "cheese")
            })
        });
        let attempt = failed(db, &mut conn, id, counts);
        assert_eq!(
            (attempt.cause.as_str(), attempt.error.as_str()),
            ("panic", "panicked: out of cheese")
        );
        assert!(written(db).is_empty());
    }
);
