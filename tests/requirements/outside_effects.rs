//! Effects outside of the database: what no commit can undo, and what a key and a generation can say of them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use diesel::connection::SimpleConnection as _;
use leasehold::__private::*;
use leasehold::testing::{self, Runner};
use leasehold::{Backend, EnqueueError, EnqueueOptions, Handler, Job, JobError, LeaseGuard, Outcome, Schema};
use leasehold_tests::{TestDb, conformance};
use serde::{Deserialize, Serialize};

use crate::jobs::{control, migrated, standing};

/// A job whose handler is the runner's state.
#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(kind = "charge", backoff = "fixed(1h)", max_attempts = 10)]
struct Charge {
    cents: u64,
}

impl<C: Backend, F> Handler<C, F> for Charge
where
    F: for<'j> Fn(LeaseGuard<'j, C>) -> Outcome<'j>,
{
    fn run<'j>(self, lease: LeaseGuard<'j, C>, app: &F) -> Outcome<'j> {
        app(lease)
    }
}

/// Makes a job due and runs it.
#[track_caller]
fn run<C: Backend>(conn: &mut C, id: i64, handler: impl for<'j> Fn(LeaseGuard<'j, C>) -> Outcome<'j>) {
    testing::run_after(conn, &Schema::default(), id, Duration::ZERO).unwrap();
    let runner = Runner::<C, _>::new(handler).register::<Charge>();
    assert!(runner.run_one(conn).unwrap(), "job {id} is due");
}

/// The lease of a running job runs out, and a sweep takes it back.
#[track_caller]
fn sweep<Db: TestDb>(db: &Db, id: i64) {
    let mut conn = control(db);
    conn.expire_lease(&Schema::default(), id).unwrap();
    assert!(
        conn.sweep(&Schema::default(), 10)
            .unwrap()
            .iter()
            .any(|swept| swept.id == id)
    );
}

/// An outside system. It cannot roll back; it may know a key again.
#[derive(Default)]
struct Api(RefCell<Vec<String>>);

impl Api {
    fn charge(&self, key: &str) {
        self.0.borrow_mut().push(key.to_owned());
    }

    fn calls(&self) -> usize {
        self.0.borrow().len()
    }

    /// What a system did that knows keys.
    fn charges(&self) -> usize {
        self.0.borrow().iter().collect::<BTreeSet<_>>().len()
    }
}

conformance!(
    fn s0_24_refusing_the_write_does_not_undo_the_effect_and_the_next_attempt_has_the_same_key(db: &mut Db) {
        let mut conn = migrated(db);
        let api = Api::default();
        let id = Charge { cents: 100 }.enqueue(&mut conn).unwrap().id();
        for (is_swept, after, rows) in [(true, "ready/2", 0), (false, "completed/3", 1)] {
            run(&mut conn, id, |lease| {
                api.charge(lease.idempotency_key());
                if is_swept {
                    sweep(&*db, id);
                }
                lease.commit(|tx| Ok(tx.batch_execute("INSERT INTO business VALUES ('charged')")?))
            });
            assert_eq!(standing(db, id), after);
            assert_eq!(db.integer("SELECT count(*) FROM business"), rows);
        }
        assert_eq!(
            (api.calls(), api.charges()),
            (2, 1),
            "two calls, and one charge for who knows the key"
        );
    }
);

conformance!(
    fn s0_24_a_recorded_step_is_called_once_although_the_write_is_refused(db: &mut Db) {
        let mut conn = migrated(db);
        let api = Api::default();
        let id = Charge { cents: 100 }.enqueue(&mut conn).unwrap().id();
        for is_swept in [true, false] {
            run(&mut conn, id, |mut lease| {
                lease.step("charge", |key| {
                    api.charge(key);
                    Ok::<_, JobError>(())
                })?;
                if is_swept {
                    sweep(&*db, id);
                }
                lease.commit(|tx| Ok(tx.batch_execute("INSERT INTO business VALUES ('charged')")?))
            });
        }
        assert_eq!((api.calls(), db.integer("SELECT count(*) FROM business")), (1, 1));
    }
);

/// How an execution ends without completing its job.
#[derive(Debug, Clone, Copy)]
enum Ends {
    Fails,
    Panics,
    Snoozes,
    IsSwept,
}

conformance!(
    /// Every order of three ends, and a fourth execution that completes: a job for each.
    fn s0_25_the_key_is_the_same_in_every_execution_and_the_generation_grows(db: &mut Db) {
        use Ends::{Fails, IsSwept, Panics, Snoozes};
        let mut conn = migrated(db);
        let mut keys = BTreeMap::new();
        let all = [Fails, Panics, Snoozes, IsSwept];
        let orders = all.into_iter().flat_map(|a| {
            all.into_iter()
                .flat_map(move |b| all.map(|c| [Some(a), Some(b), Some(c), None]))
        });
        for (number, order) in orders.enumerate() {
            let options = match number % 2 {
                0 => EnqueueOptions::new(),
                _ => EnqueueOptions::new().idempotency_key(format!("order {number}")),
            };
            let id = Charge { cents: 100 }.enqueue_with(&mut conn, &options).unwrap().id();
            let seen = RefCell::new(Vec::new());
            for ends in order {
                run(&mut conn, id, |lease| {
                    let (key, generation) = (lease.idempotency_key().to_owned(), lease.generation());
                    seen.borrow_mut().push((key, generation, lease.attempt()));
                    match ends {
                        Some(Fails) => Err(JobError::retry("fails")),
                        Some(Panics) => panic!("panics"),
                        Some(Snoozes) => lease.snooze(Duration::from_secs(3600)),
                        Some(IsSwept) => {
                            sweep(&*db, id);
                            lease.finish()
                        }
                        None => lease.finish(),
                    }
                });
            }
            let seen = seen.into_inner();
            let snoozes = order.iter().filter(|ends| matches!(ends, Some(Snoozes))).count();
            assert!(
                seen.iter().all(|(key, ..)| *key == seen[0].0),
                "{order:?}: one key: {seen:?}"
            );
            assert!(
                seen.is_sorted_by(|before, after| before.1 < after.1),
                "{order:?}: the generation grows: {seen:?}"
            );
            assert_eq!(
                usize::try_from(seen[3].2).unwrap(),
                4 - snoozes,
                "{order:?}: attempts: {seen:?}"
            );
            assert!(standing(db, id).starts_with("completed/"), "{order:?}");
            keys.insert(seen[0].0.clone(), id);
        }
        assert_eq!(keys.len(), 64, "no two jobs have one key");
    }
);

conformance!(
    fn s0_26_one_key_is_one_request_for_as_long_as_it_is_remembered(db: &mut Db) {
        let mut conn = migrated(db);
        let hour = Duration::from_secs(3600);
        let keyed = |cents: u64| {
            let options = EnqueueOptions::new().idempotency_key("order 4711").remember_key(hour);
            move |conn: &mut Connection| Charge { cents }.enqueue_with(conn, &options)
        };
        let first = keyed(100)(&mut conn).unwrap().id();
        // Before and after its end.
        for _ in 0..2 {
            let same = keyed(100)(&mut conn).unwrap();
            assert_eq!((same.id(), same.is_new()), (first, false));
            let conflict = keyed(999)(&mut conn);
            assert!(
                matches!(conflict, Err(EnqueueError::KeyConflict { id }) if id == first),
                "{conflict:?}"
            );
            if standing(db, first).starts_with("ready") {
                run(&mut conn, first, |lease| lease.finish());
            }
        }
        db.set_time("leasehold.unique_keys", "expires_at", 60_000, "expires_at IS NOT NULL");
        assert!(!keyed(100)(&mut conn).unwrap().is_new(), "a minute is left");
        db.set_time("leasehold.unique_keys", "expires_at", -1, "expires_at IS NOT NULL");
        assert!(keyed(999)(&mut conn).unwrap().is_new(), "its hour is over");
    }
);

/// A resource that goes by the highest number it has seen, as one does that is fenced by the numbers of *one* lock.
#[derive(Default)]
struct Shared {
    highest: i64,
}

impl Shared {
    fn accepts(&mut self, generation: i64) -> bool {
        let accepts = generation >= self.highest;
        self.highest = self.highest.max(generation);
        accepts
    }
}

conformance!(
    /// Each job counts for itself: generation 1 of a job may be younger than generation 5 of another. A resource that two
    /// jobs share needs a number of its own, or one for each job.
    fn s0_28_generations_do_not_order_two_different_jobs(db: &mut Db) {
        let mut conn = migrated(db);
        let old = Charge { cents: 1 }.enqueue(&mut conn).unwrap().id();
        for _ in 0..4 {
            run(&mut conn, old, |lease| lease.snooze(Duration::from_secs(3600)));
        }
        let (mut by_generation, mut by_job) = (Shared::default(), BTreeMap::<i64, Shared>::new());
        let (seen, order) = (RefCell::new(Vec::new()), |lease: &LeaseGuard<'_, Connection>| {
            (lease.job_id(), lease.generation())
        });
        run(&mut conn, old, |lease| {
            seen.borrow_mut().push(order(&lease));
            lease.finish()
        });
        let young = Charge { cents: 2 }.enqueue(&mut conn).unwrap().id();
        run(&mut conn, young, |lease| {
            seen.borrow_mut().push(order(&lease));
            lease.finish()
        });
        let seen = seen.into_inner();
        assert_eq!(seen, [(old, 5), (young, 1)], "in the order in which they ran");
        let accepted = seen.iter().map(|(_, generation)| by_generation.accepts(*generation));
        assert_eq!(
            accepted.collect::<Vec<_>>(),
            [true, false],
            "the later one is taken for a stale one"
        );
        let accepted = seen
            .iter()
            .map(|(id, generation)| by_job.entry(*id).or_default().accepts(*generation));
        assert_eq!(accepted.collect::<Vec<_>>(), [true, true]);
    }
);
