//! Results and progress: both under the fence.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::error::ResultError;
use leasehold::inspect::{self, ReadResultError, WaitError};
use leasehold::{EnqueueOptions, Job, JobError, Refusal};
use serde::{Deserialize, Serialize};

use crate::support::*;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Sums {
    rows: u64,
    of: BTreeMap<std::string::String, f64>,
}

fn sums() -> Sums {
    Sums {
        rows: u64::MAX,
        of: [("é\n\"".to_owned(), 0.1)].into(),
    }
}

conformance!(
    fn a_result_comes_with_the_completion(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let (with, counts) = run_new(&mut conn, |_, lease| {
            lease.commit_result(|tx| {
                write(tx, 1)?;
                Ok(sums())
            })
        });
        assert_eq!(counts.completed, 1);
        let (finished, _) = run_new(&mut conn, |_, lease| lease.finish_result(&sums()));
        let (without, _) = run_new(&mut conn, |_, lease| lease.commit(|_| Ok(())));
        assert_eq!(inspect::result(&mut conn, &schema, with).unwrap(), Some(sums()));
        assert_eq!(inspect::result(&mut conn, &schema, finished).unwrap(), Some(sums()));
        assert_eq!(inspect::result::<Sums>(&mut conn, &schema, without).unwrap(), None);
        assert_eq!(inspect::result::<Sums>(&mut conn, &schema, 999).unwrap(), None);
        assert_eq!(written(db), [1]);
        let wrong = inspect::result::<Vec<u8>>(&mut conn, &schema, with).unwrap_err();
        assert!(
            matches!(wrong, ReadResultError::Decode { id, .. } if id == with),
            "{wrong:?}"
        );
    }
);

conformance!(
    fn a_result_goes_with_a_refused_or_failed_commit(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        // Taken over while it ran: what the late worker gives back is not stored, what the new one gives back is.
        let (lost, counts) = run_new(&mut conn, |_, lease| {
            let id = lease.job_id();
            let mut other = open(&*db);
            let fence = take_over(&mut other, id).unwrap();
            assert_eq!(other.finish(&default_schema(), &[fence]).unwrap(), [id]);
            lease.commit_result(|tx| {
                write(tx, 1)?;
                Ok("late")
            })
        });
        assert_eq!((counts.lost, counts.completed), (1, 0));
        let (failed, _) = run_new(&mut conn, |_, lease| {
            lease.commit_result(|tx| {
                write(tx, 2)?;
                Err::<u8, _>(JobError::discard("no"))
            })
        });
        for id in [lost, failed] {
            assert_eq!(
                inspect::result::<std::string::String>(&mut conn, &schema, id).unwrap(),
                None
            );
        }
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.job_results"), 0);
        assert!(written(db).is_empty());
    }
);

conformance!(
    /// The closure's own COMMIT ends the transaction: what is stored after it would stand without the completion.
    fn no_result_is_stored_outside_of_the_commits_transaction(db: &mut Db) {
        let mut conn = migrated(db);
        let (id, counts) = run_new(&mut conn, |_, lease| {
            lease.commit_result(|tx| {
                tx.batch_execute("COMMIT")?;
                Ok(1)
            })
        });
        assert_eq!((counts.retried, counts.completed), (1, 0));
        assert_eq!(standing(db, id), "ready generation=1 attempt=1");
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.job_results"), 0);
    }
);

conformance!(
    fn the_result_of_an_earlier_completion_does_not_count(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let (id, _) = run_new(&mut conn, |_, lease| lease.finish_result(&1));
        db.sql("UPDATE leasehold.finished_jobs SET generation = generation + 2");
        assert_eq!(inspect::result::<i32>(&mut conn, &schema, id).unwrap(), None);
        db.sql("UPDATE leasehold.job_results SET generation = generation + 2");
        assert_eq!(inspect::result(&mut conn, &schema, id).unwrap(), Some(1));
        db.sql("UPDATE leasehold.finished_jobs SET state = 'discarded'");
        assert_eq!(inspect::result::<i32>(&mut conn, &schema, id).unwrap(), None);
    }
);

conformance!(
    fn a_result_that_cannot_be_stored_is_a_failed_attempt(db: &mut Db) {
        let mut conn = migrated(db);
        #[derive(Clone, Copy, Debug)]
        enum Bad {
            Large,
            Deep,
            Nul,
            Unserializable,
        }
        let value = |bad| match bad {
            Bad::Large => "x".repeat(EnqueueOptions::MAX_PAYLOAD_BYTES).into(),
            Bad::Deep => (0..=EnqueueOptions::MAX_PAYLOAD_DEPTH).fold(Value::Null, |inner, _| vec![inner].into()),
            _ => Value::from("a\0b"),
        };
        let is_right = |bad, error: &ResultError| match bad {
            Bad::Large => {
                matches!(error, ResultError::TooLarge { bytes } if *bytes > EnqueueOptions::MAX_PAYLOAD_BYTES)
            }
            Bad::Deep => matches!(error, ResultError::TooDeep),
            Bad::Nul => matches!(error, ResultError::Nul),
            Bad::Unserializable => matches!(error, ResultError::Serialize(_)),
        };
        for bad in [Bad::Large, Bad::Deep, Bad::Nul, Bad::Unserializable] {
            for finishes in [false, true] {
                let (_, counts) = run_new(&mut conn, |_, lease| {
                    let unserializable = BTreeMap::from([((1, 2), 3)]);
                    let outcome = match (bad, finishes) {
                        (Bad::Unserializable, false) => lease.commit_result(|_| Ok(unserializable)),
                        (Bad::Unserializable, true) => lease.finish_result(&unserializable),
                        (_, false) => lease.commit_result(|tx| {
                            write(tx, 1)?;
                            Ok(value(bad))
                        }),
                        (_, true) => lease.finish_result(&value(bad)),
                    };
                    let error = outcome.as_ref().unwrap_err();
                    assert!(is_right(bad, error.downcast_ref().unwrap()), "{bad:?}: {error}");
                    outcome
                });
                assert_eq!((counts.retried, counts.ended()), (1, 0), "{bad:?}");
            }
        }
        assert!(written(db).is_empty());
    }
);

conformance!(
    fn progress_is_shown_and_a_tight_loop_writes_little(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let cell = RefCell::new(db);
        let (id, _) = run_new(&mut conn, |_, mut lease| {
            let id = lease.job_id();
            let mut looks = open(&**cell.borrow());
            assert!(inspect::progress(&mut looks, &schema, id).unwrap().is_none());
            let begun = std::time::Instant::now();
            lease.progress(0, 100_000, "begins")?;
            let first = inspect::progress(&mut looks, &schema, id).unwrap().unwrap();
            assert_eq!(
                (first.done, first.total, first.text.as_str(), first.generation),
                (0, 100_000, "begins", 1)
            );
            let mut writes = 0;
            let mut seen = first.at;
            for done in 1..100_000 {
                lease.progress(done, 100_000, "goes on")?;
                if done % 1000 == 0 {
                    let at = inspect::progress(&mut looks, &schema, id).unwrap().unwrap().at;
                    writes += u32::from(at != seen);
                    seen = at;
                }
            }
            let at_most = begun.elapsed().as_millis() / 200 + 1;
            assert!(u128::from(writes) <= at_most, "{writes} writes, at most {at_most}");
            lease.progress(100_000, 100_000, "a\0b")?;
            let last = inspect::progress(&mut looks, &schema, id).unwrap().unwrap();
            assert_eq!((last.done, last.text.as_str()), (100_000, "a\u{fffd}b"));
            // The last is not written again and again either.
            cell.borrow_mut().sql("UPDATE leasehold.job_progress SET text = 'kept'");
            lease.progress(100_000, 100_000, "a\0b")?;
            lease.finish()
        });
        // It is kept after the end.
        let kept = inspect::progress(&mut conn, &schema, id).unwrap().unwrap();
        assert_eq!((kept.done, kept.total, kept.text.as_str()), (100_000, 100_000, "kept"));
    }
);

conformance!(
    fn the_progress_of_a_late_worker_is_refused(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let (id, counts) = run_new(&mut conn, |_, mut lease| {
            let id = lease.job_id();
            let mut other = open(&*db);
            let fence = take_over(&mut other, id).unwrap();
            let progress = NewProgress {
                done: 1,
                total: 2,
                text: "the new one's".to_owned(),
            };
            assert_eq!(other.store_progress(&schema, &fence, &progress).unwrap(), 1);
            let error = lease.progress(2, 2, "late").unwrap_err();
            assert_eq!(error.refusal(), Some(&Refusal::Lost { generation: 3 }), "{error:?}");
            assert!(lease.is_lost());
            Err(error)
        });
        assert_eq!(counts.lost, 1);
        let kept = inspect::progress(&mut conn, &schema, id).unwrap().unwrap();
        assert_eq!(
            (kept.done, kept.text.as_str(), kept.generation),
            (1, "the new one's", 3)
        );
    }
);

conformance!(
    fn progress_is_written_under_the_whole_fence(db: &mut Db) {
        let mut conn = migrated(db);
        let fence = claimed(&mut conn);
        let progress = NewProgress {
            done: 1,
            total: 2,
            text: "x".to_owned(),
        };
        for miss in near_misses(&fence) {
            assert_eq!(
                conn.store_progress(&default_schema(), &miss, &progress).unwrap(),
                0,
                "{miss:?}"
            );
        }
        assert_eq!(conn.store_progress(&default_schema(), &fence, &progress).unwrap(), 1);
        // What was written under a higher generation stays: a late worker's statement may have begun before its loss.
        db.sql("UPDATE leasehold.job_progress SET generation = 2");
        assert_eq!(conn.store_progress(&default_schema(), &fence, &progress).unwrap(), 0);
        conn.finish(&default_schema(), &[fence]).unwrap();
        assert_eq!(conn.store_progress(&default_schema(), &fence, &progress).unwrap(), 0);
    }
);

conformance!(
    fn a_wait_tells_why_it_came_to_nothing(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let id = note("waits").enqueue(&mut conn).unwrap().id();
        let short = Duration::from_millis(20);
        let late = inspect::wait_for(&mut conn, &schema, id, short).unwrap_err();
        assert!(
            matches!(late, WaitError::Timeout { timeout, .. } if timeout == short),
            "{late:?}"
        );
        let missing = inspect::wait_for(&mut conn, &schema, id + 1, Duration::MAX).unwrap_err();
        assert!(matches!(missing, WaitError::Missing { .. }), "{missing:?}");
        let inside = conn.transaction(|tx| Ok::<_, diesel::result::Error>(inspect::wait_for(tx, &schema, id, short)));
        assert!(matches!(inside, Ok(Err(WaitError::InTransaction { .. }))), "{inside:?}");
        run(&mut conn, |_, lease| lease.cancel("enough"));
        let ended = inspect::wait_for(&mut conn, &schema, id, Duration::ZERO).unwrap();
        assert_eq!(ended.reason.as_deref(), Some("enough"));
    }
);
