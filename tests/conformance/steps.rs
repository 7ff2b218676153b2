//! Recorded steps: an effect is called until its result is recorded, and not again.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use leasehold::inspect::{self, State};
use leasehold::manage::{self, Cancel, ForgetStepsError};
use leasehold::{EnqueueOptions, Job, JobError, LeaseGuard, Refusal, testing};

use crate::support::*;

/// An outside system that notes the key of each call, and answers with their number.
#[derive(Default)]
pub(crate) struct Api(RefCell<Vec<std::string::String>>);

impl Api {
    pub(crate) fn call(&self, key: &str) -> Result<usize, JobError> {
        self.0.borrow_mut().push(key.to_owned());
        Ok(self.calls())
    }

    pub(crate) fn calls(&self) -> usize {
        self.0.borrow().len()
    }

    fn keys(&self) -> Vec<std::string::String> {
        self.0.borrow().clone()
    }
}

/// Tells the compiler that a closure is a handler.
fn handles<C: Backend, F>(handler: F) -> F
where
    F: for<'j> Fn(Note, LeaseGuard<'j, C>) -> leasehold::Outcome<'j>,
{
    handler
}

/// Makes a job that waits due, and runs it.
#[track_caller]
pub(crate) fn run_again<C: Backend>(
    conn: &mut C,
    id: i64,
    handler: impl for<'j> Fn(Note, LeaseGuard<'j, C>) -> leasehold::Outcome<'j>,
) -> leasehold::Counts {
    assert!(testing::run_after(conn, &default_schema(), id, Duration::ZERO).unwrap());
    run(conn, handler)
}

fn names<C: Backend>(conn: &mut C, id: i64) -> Vec<std::string::String> {
    let steps = inspect::steps(conn, &default_schema(), id).unwrap();
    steps.into_iter().map(|step| step.name).collect()
}

conformance!(
    fn a_recorded_step_is_not_called_again_and_answers_every_later_attempt(db: &mut Db) {
        let mut conn = migrated(db);
        let api = Api::default();
        let (id, counts) = run_new(&mut conn, |_, mut lease| {
            assert_eq!(lease.recorded_steps()?, [""; 0]);
            assert_eq!(lease.step("charge", |key| api.call(key))?, 1);
            assert_eq!(lease.step("mail", |key| api.call(key))?, 2);
            Err(JobError::retry("between"))
        });
        assert_eq!(counts.retried, 1);
        let counts = run_again(&mut conn, id, |_, mut lease| {
            assert_eq!(lease.attempt(), 2);
            assert_eq!(lease.recorded_steps()?, ["charge", "mail"]);
            assert_eq!(lease.step("charge", |key| api.call(key))?, 1);
            assert_eq!(lease.step("mail", |key| api.call(key))?, 2);
            assert_eq!(lease.step("ship", |key| api.call(key))?, 3);
            lease.commit(|tx| Ok(write(tx, 1)?))
        });
        assert_eq!((counts.completed, api.calls()), (1, 3));
        let key = inspect::job(&mut conn, &default_schema(), id)
            .unwrap()
            .unwrap()
            .idempotency_key;
        assert_eq!(
            api.keys(),
            ["charge", "mail", "ship"].map(|step| format!("{key}/{step}"))
        );

        let steps = inspect::steps(&mut conn, &default_schema(), id).unwrap();
        let seen: Vec<_> = steps
            .iter()
            .map(|step| (step.name.as_str(), step.position, step.generation, step.result.as_str()))
            .collect();
        assert_eq!(seen, [("charge", 0, 1, "1"), ("mail", 1, 1, "2"), ("ship", 2, 2, "3")]);
        let age = steps[2].at.elapsed().unwrap_or_default();
        assert!(age < Duration::from_secs(60), "{age:?}");
        assert!(!format!("{:?}", steps[2]).contains("\"3\""), "results are not shown");
    }
);

conformance!(
    fn a_step_has_one_key_in_every_attempt_and_no_other_step_has_it(db: &mut Db) {
        let mut conn = migrated(db);
        let api = Api::default();
        let given = EnqueueOptions::new().idempotency_key("order/1");
        let id = note("once").enqueue_with(&mut conn, &given).unwrap().id();
        let fails = handles::<Connection, _>(|_, mut lease| {
            let mut call = |name: &str| {
                lease.step(name, |key| {
                    api.call(key)?;
                    Err::<(), _>(JobError::retry("after the effect"))
                })
            };
            // One that failed may be tried again in the same attempt, too: a new name would mean a new key.
            call("charge").unwrap_err();
            call("charge").unwrap_err();
            Err(call("mail").unwrap_err())
        });
        run(&mut conn, fails);
        let counts = run_again(&mut conn, id, fails);
        assert_eq!(counts.retried, 1);
        let attempt = ["order/1/charge", "order/1/charge", "order/1/mail"];
        assert_eq!(api.keys(), [attempt, attempt].concat());
        assert_eq!(names(&mut conn, id), [""; 0]);
    }
);

conformance!(
    fn an_effect_that_fails_or_panics_is_not_recorded(db: &mut Db) {
        let mut conn = migrated(db);
        let (id, counts) = run_new(&mut conn, |_, mut lease| {
            lease.step("parse", |_| "x".parse::<u8>())?;
            lease.finish()
        });
        assert_eq!(counts.retried, 1);
        assert_eq!(
            inspect::errors(&mut conn, &default_schema(), id).unwrap()[0].error,
            "invalid digit found in string"
        );
        let counts = run_again(&mut conn, id, |_, mut lease| {
            lease.step("parse", |_| -> Result<u8, JobError> { panic!("in the effect") })?;
            lease.finish()
        });
        assert_eq!(counts.retried, 1);
        let counts = run_again(&mut conn, id, |_, mut lease| {
            // Its own wish goes through, too.
            lease.step("parse", |_| Err::<u8, _>(JobError::discard("never")))?;
            lease.finish()
        });
        assert_eq!(counts.discarded, 1);
        assert_eq!(names(&mut conn, id), [""; 0]);
    }
);

conformance!(
    fn a_stale_worker_is_refused_before_its_first_effect(db: &mut Db) {
        let mut conn = migrated(db);
        let api = Api::default();
        let (id, counts) = run_new(&mut conn, |_, mut lease| {
            take_over(&mut open(&*db), lease.job_id()).unwrap();
            let error = lease.step("charge", |key| api.call(key)).unwrap_err();
            assert_eq!(error.refusal(), Some(&Refusal::Lost { generation: 3 }), "{error:?}");
            assert!(lease.is_lost());
            // This process knows it now.
            assert!(lease.step("mail", |key| api.call(key)).unwrap_err().is_lost());
            assert!(lease.recorded_steps().unwrap_err().is_lost());
            Err(error)
        });
        assert_eq!((counts.lost, api.calls()), (1, 0));
        assert_eq!(names(&mut conn, id), [""; 0]);
    }
);

conformance!(
    fn a_worker_that_lost_its_job_during_the_effect_records_nothing(db: &mut Db) {
        let mut conn = migrated(db);
        let refused = |db: &Db, ends: &dyn Fn(&mut Connection, i64)| {
            let seen = RefCell::new(None);
            let (id, counts) = run_new(&mut open(db), |_, mut lease| {
                let id = lease.job_id();
                let error = lease.step("charge", |_| {
                    ends(&mut open(db), id);
                    Ok::<_, JobError>("late".to_owned())
                });
                let error = error.unwrap_err();
                assert!(lease.is_lost());
                seen.replace(error.refusal().cloned());
                Err(error)
            });
            assert_eq!(counts.lost, 1);
            (id, seen.take().unwrap())
        };
        let (id, refusal) = refused(db, &|other, id| {
            let fence = take_over(other, id).unwrap();
            let step = NewStep {
                name: "charge".to_owned(),
                position: 0,
                result: "\"the new one's\"".to_owned(),
            };
            assert_eq!(other.record_step(&default_schema(), &fence, &step).unwrap(), 1);
        });
        assert_eq!(refusal, Refusal::Lost { generation: 3 });
        let kept = inspect::steps(&mut conn, &default_schema(), id).unwrap();
        assert_eq!(
            (kept.len(), kept[0].result.as_str(), kept[0].generation),
            (1, "\"the new one's\"", 3)
        );

        let (id, refusal) = refused(db, &|other, id| {
            manage::cancel(other, &default_schema(), id, Cancel::Hard, "ops", "by hand").unwrap();
        });
        assert!(matches!(refusal, Refusal::Cancelled), "{refusal:?}");
        assert_eq!(names(&mut conn, id), [""; 0]);
    }
);

conformance!(
    fn a_step_is_recorded_and_read_under_the_whole_fence(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let fence = claimed(&mut conn);
        let step = |position, result: &str| NewStep {
            name: "charge".to_owned(),
            position,
            result: result.to_owned(),
        };
        for miss in near_misses(&fence) {
            assert_eq!(conn.record_step(&schema, &miss, &step(0, "1")).unwrap(), 0, "{miss:?}");
            assert_eq!(conn.held_steps(&schema, &miss).unwrap(), None, "{miss:?}");
        }
        assert_eq!(conn.held_steps(&schema, &fence).unwrap(), Some(Vec::new()));
        assert_eq!(conn.record_step(&schema, &fence, &step(0, "1")).unwrap(), 1);
        // Once more, after its answer was lost: what is recorded stays.
        assert_eq!(conn.record_step(&schema, &fence, &step(0, "2")).unwrap(), 1);
        let held = conn.held_steps(&schema, &fence).unwrap().unwrap();
        assert_eq!((held.len(), held[0].result.as_str()), (1, "1"));
        // What another lease recorded is not ours to take for our own.
        db.sql("UPDATE leasehold.steps SET generation = 7");
        assert_eq!(conn.record_step(&schema, &fence, &step(0, "2")).unwrap(), 0);
        conn.finish(&schema, &[fence]).unwrap();
        assert_eq!(conn.record_step(&schema, &fence, &step(1, "2")).unwrap(), 0);
        assert_eq!(conn.held_steps(&schema, &fence).unwrap(), None);
        // And a row that waits has the token of its last lease still.
        let fence = claimed(&mut conn);
        db.sql(&format!(
            "UPDATE leasehold.jobs SET state = 'ready', worker = NULL, lease_until = NULL, begun = {} WHERE id = {}",
            if Db::BACKEND == "sqlite" { "0" } else { "false" },
            fence.id
        ));
        assert_eq!(conn.record_step(&schema, &fence, &step(0, "1")).unwrap(), 0);
        assert_eq!(conn.held_steps(&schema, &fence).unwrap(), None);
    }
);

conformance!(
    fn steps_outlive_a_snooze_a_sweep_and_a_requeue_by_hand(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let api = Api::default();
        // Sleeping between two steps: no thread waits, and no attempt is used up.
        let (id, counts) = run_new(&mut conn, |_, mut lease| {
            lease.step("order", |key| api.call(key))?;
            lease.snooze(Duration::from_secs(24 * 3600))
        });
        assert_eq!(counts.snoozed, 1);
        let swept = Cell::new(false);
        let next_day = handles::<Connection, _>(|_, mut lease| {
            assert_eq!(lease.attempt(), 1);
            assert_eq!(lease.step("order", |key| api.call(key))?, 1);
            assert_eq!(lease.step("ship", |key| api.call(key))?, 2);
            swept.set(take_over(&mut open(&*db), lease.job_id()).is_some());
            lease.finish()
        });
        assert_eq!(run_again(&mut conn, id, next_day).lost, 1);
        assert!(swept.get());
        // Whoever took it over is released before it did anything.
        let fence = leasehold::__private::Fence {
            id,
            generation: 4,
            lease_token: db
                .text(&format!(
                    "SELECT CAST(lease_token AS text) FROM leasehold.jobs WHERE id = {id}"
                ))
                .unwrap()
                .parse()
                .unwrap(),
        };
        assert_eq!(conn.release(&schema, &[fence]).unwrap(), [id]);
        let counts = run(&mut conn, |_, mut lease| {
            assert_eq!(lease.recorded_steps()?, ["order", "ship"]);
            assert_eq!(lease.step("order", |key| api.call(key))?, 1);
            lease.step("ship", |key| api.call(key))?;
            Err(JobError::discard("no paper"))
        });
        assert_eq!(counts.discarded, 1);
        assert_eq!(names(&mut conn, id), ["order", "ship"]);
        manage::requeue(&mut conn, &schema, id, "ops").unwrap();
        let counts = run(&mut conn, |_, mut lease| {
            assert_eq!(lease.step("order", |key| api.call(key))?, 1);
            assert_eq!(lease.step("ship", |key| api.call(key))?, 2);
            lease.finish()
        });
        assert_eq!((counts.completed, api.calls()), (1, 2));
        assert_eq!(names(&mut conn, id), ["order", "ship"]);
    }
);

conformance!(
    fn steps_are_forgotten_by_hand_unless_the_job_runs(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let api = Api::default();
        let (id, _) = run_new(&mut conn, |_, mut lease| {
            lease.step("a", |key| api.call(key))?;
            lease.step("b", |key| api.call(key))?;
            let busy = manage::forget_steps(&mut open(&*db), &default_schema(), lease.job_id(), "ops");
            assert!(matches!(busy, Err(ForgetStepsError::Running { id }) if id == lease.job_id()));
            Err(JobError::retry("again"))
        });
        assert_eq!(manage::forget_steps(&mut conn, &schema, id, "ops").unwrap(), 2);
        assert_eq!(manage::forget_steps(&mut conn, &schema, id, "ops").unwrap(), 0);
        let (other, _) = run_new(&mut conn, |_, mut lease| {
            lease.step("a", |key| api.call(key))?;
            lease.finish()
        });
        let counts = run_again(&mut conn, id, |_, mut lease| {
            assert_eq!(lease.step("a", |key| api.call(key))?, 4);
            lease.finish()
        });
        assert_eq!((counts.completed, api.calls()), (1, 4));
        // A finished one as well, and nobody else's.
        assert_eq!(manage::forget_steps(&mut conn, &schema, id, "ops").unwrap(), 1);
        assert_eq!(names(&mut conn, other), ["a"]);
        let missing = manage::forget_steps(&mut conn, &schema, 999, "ops").unwrap_err();
        assert!(matches!(missing, ForgetStepsError::Missing { id: 999 }), "{missing}");
    }
);

conformance!(
    fn steps_are_purged_with_their_finished_job(db: &mut Db) {
        let mut conn = migrated(db);
        let ends = handles::<Connection, _>(|_, mut lease| {
            lease.step("a", |_| Ok::<_, JobError>(()))?;
            lease.finish()
        });
        let (old, _) = run_new(&mut conn, ends);
        db.set_time(
            "leasehold.finished_jobs",
            "finished_at",
            -2 * 3600 * 1000,
            "state = 'completed'",
        );
        let (young, _) = run_new(&mut conn, ends);
        let hour = Duration::from_secs(3600);
        assert_eq!(
            manage::purge(&mut conn, &default_schema(), State::Completed, hour).unwrap(),
            1
        );
        assert_eq!((names(&mut conn, old).len(), names(&mut conn, young).len()), (0, 1));
    }
);

conformance!(
    #[skip(sqlite, "SQLite has one writer at a time")]
    fn a_record_comes_before_a_sweep_or_after_it(db: &mut Db) {
        let (mut conn, mut other) = (migrated(db), open(&*db));
        let schema = default_schema();
        let step = NewStep {
            name: "charge".to_owned(),
            position: 0,
            result: "1".to_owned(),
        };
        // While it is under way nobody takes the job: the next worker must see it.
        let fence = claimed(&mut conn);
        assert_eq!(conn.expire_lease(&schema, fence.id).unwrap(), 1);
        conn.transaction(|tx| {
            assert_eq!(tx.record_step(&schema, &fence, &step)?, 1);
            assert!(other.sweep(&schema, 100)?.is_empty());
            Ok::<_, diesel::result::Error>(())
        })
        .unwrap();
        let next = take_over(&mut other, fence.id).unwrap();
        assert_eq!(other.held_steps(&schema, &next).unwrap().unwrap().len(), 1);
        other.finish(&schema, &[next]).unwrap();

        // Behind a sweep it waits, and is refused.
        let fence = claimed(&mut conn);
        assert_eq!(conn.expire_lease(&schema, fence.id).unwrap(), 1);
        std::thread::scope(|scope| {
            let recording = conn
                .transaction(|tx| {
                    assert_eq!(tx.sweep(&schema, 100)?.len(), 1);
                    let recording = scope.spawn(|| other.record_step(&default_schema(), &fence, &step));
                    let waiting = "SELECT count(*) FROM pg_stat_activity \
                        WHERE datname = current_database() AND wait_event_type = 'Lock'";
                    leasehold_tests::eventually(leasehold_tests::jobs::SOON, "it waits for the sweep", || {
                        db.integer(waiting) == 1
                    });
                    Ok::<_, diesel::result::Error>(recording)
                })
                .unwrap();
            assert_eq!(recording.join().unwrap().unwrap(), 0);
        });
        assert_eq!(names(&mut conn, fence.id), [""; 0]);
    }
);
