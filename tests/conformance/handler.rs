//! What becomes of a job whose handler fails: retried after its backoff, discarded, and why is kept.

use std::fmt;
use std::time::Duration;

use leasehold::inspect::{self, ErrorRecord};
use leasehold::{EnqueueOptions, Job, JobError};

use crate::support::*;

fn attempts<C: Backend>(conn: &mut C, id: i64) -> Vec<ErrorRecord> {
    inspect::errors(conn, &default_schema(), id).unwrap()
}

#[derive(Debug)]
struct Outer(std::num::ParseIntError);

impl fmt::Display for Outer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("line 3 is broken")
    }
}

impl std::error::Error for Outer {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

fn parse(text: &str) -> Result<u32, Outer> {
    text.parse().map_err(Outer)
}

conformance!(
    fn any_error_is_retried_after_the_backoff_and_kept_with_its_sources(db: &mut Db) {
        let mut conn = migrated(db);
        let (id, counts) = run_new(&mut conn, |_, lease| {
            parse("x")?;
            lease.finish()
        });
        assert_eq!((counts.retried, counts.ended()), (1, 0));
        assert_eq!(standing(db, id), "ready generation=1 attempt=1");
        assert!(is_about(waits(db, id), Duration::from_secs(60)));
        let [attempt] = &attempts(&mut conn, id)[..] else {
            panic!("one attempt")
        };
        assert_eq!(
            (attempt.attempt, attempt.generation, attempt.cause.as_str()),
            (1, 1, "error")
        );
        assert_eq!(attempt.error, "line 3 is broken: invalid digit found in string");

        let (boxed, _) = run_new(&mut conn, |_, lease| {
            let failed: Result<u32, Box<dyn std::error::Error + Send + Sync>> = parse("y").map_err(Into::into);
            failed.map_err(JobError::boxed)?;
            lease.finish()
        });
        assert_eq!(attempts(&mut conn, boxed)[0].error, attempts(&mut conn, id)[0].error);
    }
);

conformance!(
    fn an_error_can_say_when_to_retry_or_that_it_is_no_use(db: &mut Db) {
        let mut conn = migrated(db);
        let (later, counts) = run_new(&mut conn, |_, _| {
            Err(JobError::retry_after("busy", Duration::from_secs(7200)))
        });
        assert_eq!(counts.retried, 1);
        assert!(is_about(waits(db, later), Duration::from_secs(7200)));
        assert_eq!(attempts(&mut conn, later)[0].error, "busy");

        let (discarded, counts) = run_new(&mut conn, |_, _| Err(JobError::discard("not an address")));
        assert_eq!((counts.discarded, counts.ended()), (1, 1));
        assert_eq!(
            standing(db, discarded),
            "discarded generation=1 attempt=1: not an address"
        );
        assert_eq!(attempts(&mut conn, discarded)[0].error, "not an address");
    }
);

conformance!(
    fn a_job_whose_attempts_are_used_up_is_discarded_with_all_its_errors(db: &mut Db) {
        let mut conn = migrated(db);
        let options = EnqueueOptions::new().max_attempts(3);
        let id = note("hopeless").enqueue_with(&mut conn, &options).unwrap().id();
        for attempt in 1..=3 {
            let counts = run(&mut conn, |_, lease| {
                assert_eq!((lease.attempt(), lease.is_last_attempt()), (attempt, attempt == 3));
                match attempt {
                    2 => panic!("failure 2"),
                    _ => Err(JobError::retry(format!("failure {attempt}"))),
                }
            });
            let expected = if attempt < 3 { (1, 0) } else { (0, 1) };
            assert_eq!((counts.retried, counts.discarded), expected);
            conn.move_run_at(&default_schema(), id, 0).unwrap();
        }
        assert_eq!(standing(db, id), "discarded generation=3 attempt=3: failure 3");
        let kept = attempts(&mut conn, id);
        let told: Vec<_> = kept
            .iter()
            .map(|attempt| (attempt.attempt, attempt.error.as_str()))
            .collect();
        assert_eq!(told, [(1, "failure 1"), (2, "panicked: failure 2"), (3, "failure 3")]);
        assert_eq!(run(&mut conn, |_, lease| lease.finish()).ended(), 0);
    }
);

conformance!(
    fn every_text_of_a_failure_can_be_stored(db: &mut Db) {
        let mut conn = migrated(db);
        let (id, _) = run_new(&mut conn, |_, _| Err(JobError::discard("a\0b")));
        assert_eq!(attempts(&mut conn, id)[0].error, "a\u{fffd}b");
        assert_eq!(standing(db, id), "discarded generation=1 attempt=1: a\u{fffd}b");

        // Cut at 8 KiB, between characters.
        let (id, _) = run_new(&mut conn, |_, _| {
            Err(JobError::retry(format!("x{}", "é".repeat(100_000))))
        });
        let kept = attempts(&mut conn, id).remove(0).error;
        assert_eq!(kept, format!("x{}", "é".repeat(4095)));

        for text in [
            "",
            "it's \"quoted\" $1 ? %s",
            "📮\u{202e}\r\n\t",
            "'; DROP TABLE written; --",
        ] {
            let (id, _) = run_new(&mut conn, |_, _| Err(JobError::retry(text)));
            assert_eq!(attempts(&mut conn, id)[0].error, text);
        }
        assert!(written(db).is_empty());
    }
);

conformance!(
    fn a_panic_is_a_failed_attempt_with_its_text(db: &mut Db) {
        let mut conn = migrated(db);
        for (panic, text) in [
            (
                Box::new("a plain text") as Box<dyn std::any::Any + Send>,
                "panicked: a plain text",
            ),
            (Box::new("an owned one\0".to_owned()), "panicked: an owned one\u{fffd}"),
            (Box::new(42), "panicked: with a value that is not a text"),
        ] {
            let panic = std::cell::RefCell::new(Some(panic));
            let (id, counts) = run_new(&mut conn, |_, _| std::panic::resume_unwind(panic.take().unwrap()));
            assert_eq!((counts.retried, counts.ended()), (1, 0));
            assert_eq!(standing(db, id), "ready generation=1 attempt=1");
            assert!(is_about(waits(db, id), Duration::from_secs(60)));
            let attempt = attempts(&mut conn, id).remove(0);
            assert_eq!((attempt.cause.as_str(), attempt.error.as_str()), ("panic", text));
        }
    }
);

conformance!(
    fn a_handler_that_forgets_its_guard_can_still_be_retried(db: &mut Db) {
        let mut conn = migrated(db);
        let (id, counts) = run_new(&mut conn, |_, lease| {
            std::mem::forget(lease);
            Err(JobError::retry("forgotten"))
        });
        assert_eq!(counts.retried, 1);
        assert_eq!(standing(db, id), "ready generation=1 attempt=1");
        assert!(is_free(db, id));
    }
);
