//! The commit of a row's owner.

use diesel::connection::{AnsiTransactionManager, TransactionManager};
use leasehold::rows::{CommitError, NotCommitted, RowError};

use super::*;

/// The lease comes back, and the row is as it was.
#[track_caller]
fn still_held<R: OwnedRow, D: TestDb>(db: &mut D, error: CommitError<R>) -> RowLease<R> {
    assert_eq!(articles(db), 0);
    assert_eq!(issue(db, 1), "IN_PROGRESS/1 token until");
    let lease = error.into_lease().expect("it is still held");
    assert!(!lease.is_lost());
    lease
}

conformance!(
    fn writes_and_status_are_committed_together(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1, 2]);
        let lease = claim_one::<Issue, _>(&mut conn, 1);
        let answer = lease.commit(&mut conn, "DONE", |tx| {
            write_article(tx, 1)?;
            assert_eq!(articles(db), 0, "not seen before");
            assert_eq!(issue(db, 1), "IN_PROGRESS/1 token until");
            Ok(42)
        });
        assert_eq!(answer.unwrap(), 42);
        assert_eq!((issue(db, 1).as_str(), articles(db)), ("DONE/1 token", 1));
        assert_eq!(issue(db, 2), "PENDING/0");
        assert_eq!(texts(&claim_ids::<Issue, _>(&mut conn, &[1])), ["1 DONE"]);
    }
);

conformance!(
    fn a_settled_row_has_the_status_that_was_given_and_may_be_claimed_again(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1]);
        claim_one::<Issue, _>(&mut conn, 1).settle(&mut conn, "FAILED").unwrap();
        assert_eq!(issue(db, 1), "FAILED/1 token");
        let again = claim_one::<Issue, _>(&mut conn, 1);
        assert_eq!(again.generation(), 2);
        again.settle(&mut conn, "it's odd; --").unwrap();
        assert_eq!(issue(db, 1), "it's odd; --/2 token");
    }
);

conformance!(
    fn a_commit_that_cannot_begin_gives_the_lease_back(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1]);
        let lease = claim_one::<Issue, _>(&mut conn, 1);
        let error = lease
            .commit(&mut conn, "IN_PROGRESS", |tx| Ok(write_article(tx, 1)?))
            .unwrap_err();
        assert!(
            matches!(
                error,
                CommitError::NotBegun {
                    error: RowError::Status(_),
                    ..
                }
            ),
            "{error:?}"
        );
        let lease = still_held(db, error);
        let error = conn
            .transaction(|tx| Ok::<_, diesel::result::Error>(lease.commit(tx, "DONE", |tx| Ok(write_article(tx, 1)?))))
            .unwrap()
            .unwrap_err();
        assert!(
            matches!(
                error,
                CommitError::NotBegun {
                    error: RowError::InTransaction,
                    ..
                }
            ),
            "{error:?}"
        );
        still_held(db, error)
            .commit(&mut conn, "DONE", |tx| Ok(write_article(tx, 1)?))
            .unwrap();
        assert_eq!((issue(db, 1).as_str(), articles(db)), ("DONE/1 token", 1));
    }
);

conformance!(
    fn an_error_of_the_closure_rolls_back_and_gives_the_lease_back(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1]);
        let lease = claim_one::<Issue, _>(&mut conn, 1);
        let error = lease
            .commit(&mut conn, "DONE", |tx| {
                write_article(tx, 1)?;
                write_article(tx, 1)?;
                Ok(())
            })
            .unwrap_err();
        let CommitError::Failed { error: cause, .. } = &error else {
            panic!("{error:?}")
        };
        assert!(cause.downcast_ref::<diesel::result::Error>().is_some());
        let lease = still_held(db, error);
        let error = lease
            .commit(&mut conn, "DONE", |tx| {
                write_article(tx, 1)?;
                Err::<(), _>("no room".into())
            })
            .unwrap_err();
        assert_eq!(error.to_string(), "no room");
        still_held(db, error).settle(&mut conn, "FAILED").unwrap();
        assert_eq!(issue(db, 1), "FAILED/1 token");
    }
);

conformance!(
    fn a_panic_of_the_closure_rolls_back(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1]);
        let lease = claim_one::<Issue, _>(&mut conn, 1);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            lease.commit(&mut conn, "DONE", |tx| {
                write_article(tx, 1)?;
                if articles(db) == 0 {
                    panic!("in the closure");
                }
                Ok(())
            })
        }));
        assert!(panicked.is_err());
        assert_eq!((issue(db, 1).as_str(), articles(db)), ("IN_PROGRESS/1 token until", 0));
        // The connection is outside of any transaction.
        expire(db, 1);
        assert_eq!(claim_one::<Issue, _>(&mut conn, 1).generation(), 2);
    }
);

conformance!(
    #[skip(sqlite, "it undoes such a statement alone, and commits the rest")]
    fn a_swallowed_error_is_no_commit(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1]);
        let lease = claim_one::<Issue, _>(&mut conn, 1);
        let error = lease
            .commit(&mut conn, "DONE", |tx| {
                write_article(tx, 1)?;
                let _ = write_article(tx, 1);
                Ok(())
            })
            .unwrap_err();
        assert!(
            matches!(
                error,
                CommitError::RolledBack {
                    why: NotCommitted::Swallowed,
                    ..
                }
            ),
            "{error:?}"
        );
        still_held(db, error)
            .commit(&mut conn, "DONE", |tx| Ok(write_article(tx, 1)?))
            .unwrap();
    }
);

conformance!(
    fn a_closure_that_ends_the_transaction_itself_is_found_out(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1]);
        let mut lease = claim_one::<Issue, _>(&mut conn, 1);
        for raw in ["ROLLBACK", "COMMIT", "COMMIT; BEGIN"] {
            let error = lease
                .commit(&mut conn, "DONE", |tx| Ok(tx.batch_execute(raw)?))
                .unwrap_err();
            assert!(
                matches!(
                    error,
                    CommitError::RolledBack {
                        why: NotCommitted::Ended,
                        ..
                    }
                ),
                "{raw}: {error:?}"
            );
            lease = still_held(db, error);
            conn = open(db);
        }
        let error = lease
            .commit(&mut conn, "DONE", |tx| {
                Ok(AnsiTransactionManager::begin_transaction(tx)?)
            })
            .unwrap_err();
        assert!(
            matches!(
                error,
                CommitError::RolledBack {
                    why: NotCommitted::LeftOpen,
                    ..
                }
            ),
            "{error:?}"
        );
        still_held(db, error).settle(&mut conn, "DONE").unwrap();
    }
);

conformance!(
    fn a_constraint_that_fails_at_the_commit_is_told_apart_from_a_lost_answer(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1]);
        db.sql("CREATE TABLE note (issue bigint REFERENCES article (issue) DEFERRABLE INITIALLY DEFERRED)");
        let lease = claim_one::<Issue, _>(&mut conn, 1);
        let error = lease
            .commit(&mut conn, "DONE", |tx| {
                Ok(tx.batch_execute("INSERT INTO note VALUES (99)")?)
            })
            .unwrap_err();
        assert!(
            matches!(
                error,
                CommitError::RolledBack {
                    why: NotCommitted::Refused(_),
                    ..
                }
            ),
            "{error:?}"
        );
        still_held(db, error)
            .commit(&mut conn, "DONE", |tx| Ok(write_article(tx, 1)?))
            .unwrap();
        assert_eq!((issue(db, 1).as_str(), articles(db)), ("DONE/1 token", 1));
    }
);

conformance!(
    #[skip(sqlite, "its one writer never conflicts with another")]
    fn a_serialization_failure_is_a_conflict_after_which_the_same_may_succeed(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1]);
        let lease = claim_one::<Issue, _>(&mut conn, 1);
        let mut other = open(db);
        conn.batch_execute("SET default_transaction_isolation = 'serializable'")
            .unwrap();
        let error = lease
            .commit(&mut conn, "DONE", |tx| {
                tx.batch_execute("SELECT * FROM desk")?;
                other.batch_execute("UPDATE issue SET title = 'other' WHERE id = 1")?;
                Ok(())
            })
            .unwrap_err();
        assert!(
            matches!(
                error,
                CommitError::RolledBack {
                    why: NotCommitted::Conflict(_),
                    ..
                }
            ),
            "{error:?}"
        );
        still_held(db, error)
            .commit(&mut conn, "DONE", |tx| Ok(write_article(tx, 1)?))
            .unwrap();
    }
);
