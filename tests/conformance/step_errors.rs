//! Steps that give no result: what a program is told, and whether the effect has happened.

use std::collections::BTreeMap;

use leasehold::error::{ResultError, StepError};
use leasehold::{EnqueueOptions, JobError, inspect};
use serde::{Deserialize, Serialize};

use crate::steps::{Api, run_again};
use crate::support::*;

#[track_caller]
fn step_error(error: &JobError) -> &StepError {
    error
        .downcast_ref()
        .unwrap_or_else(|| panic!("not a step's error: {error}"))
}

conformance!(
    fn a_name_is_used_once_in_an_execution(db: &mut Db) {
        let mut conn = migrated(db);
        let api = Api::default();
        let (id, counts) = run_new(&mut conn, |_, mut lease| {
            lease.step("charge", |key| api.call(key))?;
            let error = lease.step("charge", |key| api.call(key)).unwrap_err();
            assert!(matches!(step_error(&error), StepError::Repeated { step } if step == "charge"));
            Err(error)
        });
        assert_eq!((counts.retried, api.calls()), (1, 1));
        let told = &inspect::errors(&mut conn, &default_schema(), id).unwrap()[0].error;
        assert!(
            told.contains("give each its own name, such as with a counter"),
            "{told}"
        );
        // A recorded one, too.
        let counts = run_again(&mut conn, id, |_, mut lease| {
            lease.step("charge", |key| api.call(key))?;
            Err(lease.step("charge", |key| api.call(key)).unwrap_err())
        });
        assert_eq!((counts.retried, api.calls()), (1, 1));
    }
);

conformance!(
    fn names_that_cannot_be_used_are_refused_before_the_effect(db: &mut Db) {
        let mut conn = migrated(db);
        let api = Api::default();
        let (_, counts) = run_new(&mut conn, |_, mut lease| {
            for name in ["", &"é".repeat(65), "a\nb", "a\0", "\u{202e}a"] {
                let error = lease.step(name, |key| api.call(key)).unwrap_err();
                assert!(matches!(step_error(&error), StepError::Name(_)), "{error}");
            }
            let error = lease.step("a/b", |key| api.call(key)).unwrap_err();
            assert!(matches!(step_error(&error), StepError::Slash { step } if step == "a/b"));
            lease.step(&"é".repeat(64), |key| api.call(key))?;
            lease.finish()
        });
        assert_eq!((counts.completed, api.calls()), (1, 1));
    }
);

conformance!(
    fn a_recorded_result_of_another_type_is_an_error_and_never_a_second_call(db: &mut Db) {
        let mut conn = migrated(db);
        let api = Api::default();
        #[derive(Serialize, Deserialize)]
        struct Charge {
            amount: u64,
        }
        let (id, _) = run_new(&mut conn, |_, mut lease| {
            lease.step("charge", |key| api.call(key))?;
            Err(JobError::retry("before the deploy"))
        });
        let counts = run_again(&mut conn, id, |_, mut lease| {
            let error = lease
                .step("charge", |_| -> Result<Charge, JobError> { panic!("not called") })
                .map(|charge| charge.amount)
                .unwrap_err();
            let StepError::Decode { step, type_name, .. } = step_error(&error) else {
                panic!("{error}")
            };
            assert!(step == "charge" && type_name.ends_with("Charge"), "{error}");
            assert!(error.to_string().contains("invalid type: integer `1`"), "{error}");
            Err(error)
        });
        assert_eq!(counts.retried, 1);
        // A program that was repaired goes on.
        let counts = run_again(&mut conn, id, |_, mut lease| {
            assert_eq!(lease.step("charge", |key| api.call(key))?, 1);
            lease.finish()
        });
        assert_eq!((counts.completed, api.calls()), (1, 1));
    }
);

conformance!(
    fn a_renamed_step_is_an_error_and_never_a_call_under_the_new_name(db: &mut Db) {
        let mut conn = migrated(db);
        let api = Api::default();
        let (id, _) = run_new(&mut conn, |_, mut lease| {
            lease.step("charge", |key| api.call(key))?;
            lease.step("mail", |key| api.call(key))?;
            Err(JobError::retry("before the deploy"))
        });
        let counts = run_again(&mut conn, id, |_, mut lease| {
            let error = lease.step("pay", |key| api.call(key)).unwrap_err();
            assert!(
                matches!(step_error(&error), StepError::Renamed { recorded, asked } if recorded == "charge" && asked == "pay")
            );
            assert!(
                error
                    .to_string()
                    .contains("recorded as `charge`, asked for as `pay`: keep the name")
            );
            // Also one that a new program puts in between.
            lease.step("charge", |key| api.call(key))?;
            let between = lease.step("weigh", |key| api.call(key)).unwrap_err();
            assert!(matches!(step_error(&between), StepError::Renamed { recorded, .. } if recorded == "mail"));
            Err(error)
        });
        assert_eq!((counts.retried, api.calls()), (1, 2));
        // Who looks first may go on as he likes, in another order and with what is new behind it.
        let counts = run_again(&mut conn, id, |_, mut lease| {
            if lease.recorded_steps()?.contains(&"mail".to_owned()) {
                assert_eq!(lease.step("mail", |key| api.call(key))?, 2);
            }
            assert_eq!(lease.step("charge", |key| api.call(key))?, 1);
            assert_eq!(lease.step("weigh", |key| api.call(key))?, 3);
            lease.finish()
        });
        assert_eq!((counts.completed, api.calls()), (1, 3));
    }
);

conformance!(
    fn a_step_that_failed_keeps_its_place(db: &mut Db) {
        let mut conn = migrated(db);
        let api = Api::default();
        let (id, _) = run_new(&mut conn, |_, mut lease| {
            lease.step("first", |key| api.call(key))?;
            let failed = lease.step("second", |_| Err::<(), _>(JobError::retry("not now")));
            lease.step("third", |key| api.call(key))?;
            Err(failed.unwrap_err())
        });
        let counts = run_again(&mut conn, id, |_, mut lease| {
            for name in ["first", "second", "third"] {
                lease.step(name, |key| api.call(key))?;
            }
            lease.finish()
        });
        assert_eq!((counts.completed, api.calls()), (1, 3));
        let steps = inspect::steps(&mut conn, &default_schema(), id).unwrap();
        let seen: Vec<_> = steps.iter().map(|step| (step.name.as_str(), step.position)).collect();
        assert_eq!(seen, [("first", 0), ("second", 1), ("third", 2)]);
    }
);

conformance!(
    fn a_result_that_cannot_be_stored_says_that_the_effect_has_happened(db: &mut Db) {
        let mut conn = migrated(db);
        let large = "x".repeat(EnqueueOptions::MAX_PAYLOAD_BYTES);
        let deep = (0..=EnqueueOptions::MAX_PAYLOAD_DEPTH).fold(Value::Null, |inner, _| vec![inner].into());
        let (id, counts) = run_new(&mut conn, |_, mut lease| {
            let text = |text: &str| Ok::<_, JobError>(text.to_owned());
            let errors = [
                lease.step("large", |_| text(&large)).unwrap_err(),
                lease.step("deep", |_| Ok::<_, JobError>(deep.clone())).unwrap_err(),
                lease.step("nul", |_| text("a\0b")).unwrap_err(),
                lease
                    .step("map", |_| Ok::<_, JobError>(BTreeMap::from([((1, 2), 3)])))
                    .unwrap_err(),
                lease.step("not a number", |_| Ok::<_, JobError>(f64::NAN)).unwrap_err(),
            ];
            let right = |error: &JobError| match step_error(error) {
                StepError::Unstorable { step, source } => match source {
                    ResultError::TooLarge { .. } => step == "large",
                    ResultError::TooDeep => step == "deep",
                    ResultError::Nul => step == "nul",
                    ResultError::Serialize(_) => step == "map",
                    _ => false,
                },
                StepError::Unreadable { step, type_name, .. } => step == "not a number" && *type_name == "f64",
                _ => false,
            };
            for error in &errors {
                assert!(right(error), "{error}");
                assert!(
                    error.to_string().contains("has happened and is not recorded"),
                    "{error}"
                );
            }
            let [error, ..] = errors;
            Err(error)
        });
        assert_eq!(counts.retried, 1);
        assert!(inspect::steps(&mut conn, &default_schema(), id).unwrap().is_empty());
    }
);

conformance!(
    /// Else the first attempt would go on with what no later one can have.
    fn the_first_attempt_gets_what_later_ones_read(db: &mut Db) {
        let mut conn = migrated(db);
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct Session {
            id: u8,
            #[serde(skip)]
            secret: u8,
        }
        let (id, _) = run_new(&mut conn, |_, mut lease| {
            let first = lease.step("login", |_| Ok::<_, JobError>(Session { id: 1, secret: 2 }))?;
            assert_eq!(first, Session { id: 1, secret: 0 });
            Err(JobError::retry("again"))
        });
        let counts = run_again(&mut conn, id, |_, mut lease| {
            let later = lease.step("login", |_| -> Result<Session, JobError> { panic!("not called") })?;
            assert_eq!(later, Session { id: 1, secret: 0 });
            lease.finish()
        });
        assert_eq!(counts.completed, 1);
    }
);

conformance!(
    fn a_record_that_the_database_refuses_says_that_the_effect_has_happened(db: &mut Db) {
        let mut conn = migrated(db);
        let (id, counts) = run_new(&mut conn, |_, mut lease| {
            // Its answer to the read is that there is nothing.
            lease.recorded_steps()?;
            db_sql(&*db, "ALTER TABLE leasehold.steps RENAME TO elsewhere");
            let error = lease.step("charge", |_| Ok::<_, JobError>(1)).unwrap_err();
            db_sql(&*db, "ALTER TABLE leasehold.elsewhere RENAME TO steps");
            assert!(matches!(step_error(&error), StepError::Unrecorded { step, .. } if step == "charge"));
            Err(error)
        });
        assert_eq!(counts.retried, 1);
        assert!(inspect::steps(&mut conn, &default_schema(), id).unwrap().is_empty());
    }
);

/// A statement on a connection of its own.
fn db_sql<D: TestDb>(db: &D, sql: &str) {
    let sql = match D::BACKEND {
        "sqlite" => sql.replace("leasehold.", "leasehold_").replace("TO ", "TO leasehold_"),
        _ => sql.to_owned(),
    };
    db.connect().batch_execute(&sql).unwrap();
}
