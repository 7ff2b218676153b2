//! A job that has become too old is discarded instead of run.

use std::time::Duration;

use leasehold::testing::Runner;
use leasehold::{EnqueueOptions, Handler, Job, JobError, LeaseGuard, Outcome};
use serde::{Deserialize, Serialize};

use crate::support::*;

/// Has a maximum age, and one at a time.
#[derive(Serialize, Deserialize, Job)]
#[job(kind = "quote", expires = "1h", unique(by = "share"), backoff = "fixed(1h)")]
struct Quote {
    share: String,
}

impl<C: Backend> Handler<C> for Quote {
    fn run<'j>(self, _: LeaseGuard<'j, C>, _: &()) -> Outcome<'j> {
        Err(JobError::retry("no answer"))
    }
}

fn quote(share: &str) -> Quote {
    Quote {
        share: share.to_owned(),
    }
}

fn aged(age: Duration) -> EnqueueOptions {
    EnqueueOptions::new().expires(age)
}

/// Lets jobs expire as if their time had passed.
fn let_expire<D: TestDb>(db: &mut D, filter: &str) {
    db.set_time("leasehold.jobs", "expires_at", -1, filter);
}

#[track_caller]
fn discarded<C: Backend>(conn: &mut C, limit: i64) -> Vec<i64> {
    let discarded = conn.discard_expired(&default_schema(), limit).unwrap();
    assert!(discarded.iter().all(|job| job.state == "discarded"), "{discarded:?}");
    let mut ids: Vec<i64> = discarded.iter().map(|job| job.id).collect();
    ids.sort_unstable();
    ids
}

const HOUR: Duration = Duration::from_secs(3600);

conformance!(
    fn the_age_is_the_kinds_unless_the_enqueue_has_another(db: &mut Db) {
        let mut conn = migrated(db);
        let left = |db: &mut Db, id: i64| from_now(db, "leasehold.jobs", "expires_at", &format!("id = {id}"));
        let kinds = quote("a").enqueue(&mut conn).unwrap().id();
        assert!(is_about(left(db, kinds), HOUR));
        let own = quote("b").enqueue_with(&mut conn, &aged(HOUR * 3)).unwrap().id();
        assert!(is_about(left(db, own), HOUR * 3));
        // Counted from the enqueue, whenever it may run.
        let delayed = aged(HOUR * 3).delay(HOUR * 2);
        let delayed = quote("c").enqueue_with(&mut conn, &delayed).unwrap().id();
        assert!(is_about(left(db, delayed), HOUR * 3));
        let longest = quote("d").enqueue_with(&mut conn, &aged(Duration::MAX)).unwrap().id();
        assert!(is_about(left(db, longest), HOUR * 24 * 365 * 100));
        let never = note("no age").enqueue(&mut conn).unwrap().id();
        assert_eq!(
            db.integer(&format!(
                "SELECT count(*) FROM leasehold.jobs WHERE id = {never} AND expires_at IS NULL"
            )),
            1
        );
        assert_eq!(<Quote as Job>::EXPIRES, Some(HOUR));
        assert!(discarded(&mut conn, 10).is_empty());
    }
);

conformance!(
    fn a_job_that_is_claimed_too_late_is_discarded_and_its_handler_never_begins(db: &mut Db) {
        let mut conn = migrated(db);
        let late = note("late").enqueue_with(&mut conn, &aged(HOUR)).unwrap().id();
        let_expire(db, "true");
        let at_once = note("at once")
            .enqueue_with(&mut conn, &aged(Duration::ZERO))
            .unwrap()
            .id();
        let counts = run(&mut conn, |_, _| panic!("its handler begins"));
        assert_eq!((counts.discarded, counts.ended(), counts.retried), (2, 2, 0));
        for id in [late, at_once] {
            assert_eq!(standing(db, id), "discarded generation=1 attempt=1: expired");
            assert!(conn.job_errors(&default_schema(), id).unwrap().is_empty());
        }
        let in_time = note("in time").enqueue_with(&mut conn, &aged(HOUR)).unwrap().id();
        assert_eq!(run(&mut conn, |_, lease| lease.finish()).completed, 1);
        assert_eq!(standing(db, in_time), "completed generation=1 attempt=1");
    }
);

conformance!(
    fn what_nobody_claims_is_discarded_whatever_keeps_it(db: &mut Db) {
        let mut conn = migrated(db);
        let scheduled = quote("scheduled")
            .enqueue_with(&mut conn, &aged(HOUR).delay(HOUR))
            .unwrap();
        let due = quote("due").enqueue(&mut conn).unwrap();
        let [limited, waits] = ["limit", "jobs"].map(|keeper| {
            let id = quote(keeper).enqueue(&mut conn).unwrap().id();
            db.sql(&format!(
                "UPDATE leasehold.jobs SET blocked_by = '{keeper}' WHERE id = {id}"
            ));
            id
        });
        let_expire(db, "true");
        let young = quote("young").enqueue(&mut conn).unwrap().id();
        let ageless = note("ageless").enqueue(&mut conn).unwrap().id();
        let running = note("running").enqueue_with(&mut conn, &aged(HOUR)).unwrap().id();
        claim_notes(&mut conn);
        let_expire(db, &format!("id = {running}"));

        let all = [scheduled.id(), due.id(), limited, waits];
        assert_eq!(discarded(&mut conn, 10), all);
        for id in all {
            assert_eq!(standing(db, id), "discarded generation=1 attempt=0: expired");
        }
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 3);
        for id in [young, ageless, running] {
            assert!(row(db, id).is_some());
        }
        // Their keys are free, and only theirs.
        assert!(quote("due").enqueue(&mut conn).unwrap().is_new());
        assert!(!quote("young").enqueue(&mut conn).unwrap().is_new());
    }
);

conformance!(
    fn a_running_job_that_expires_goes_on_and_its_retry_does_not_run(db: &mut Db) {
        let mut conn = migrated(db);
        let id = note("slow").enqueue_with(&mut conn, &aged(HOUR)).unwrap().id();
        let fence = claim_notes(&mut conn)[0];
        let_expire(db, "true");
        assert!(discarded(&mut conn, 10).is_empty());
        let schema = default_schema();
        assert_eq!(conn.heartbeat(&schema, &[fence]).unwrap().len(), 1);
        assert_eq!(conn.finish(&schema, &[fence]).unwrap(), [id]);
        assert_eq!(standing(db, id), "completed generation=1 attempt=1");

        let id = quote("fails").enqueue(&mut conn).unwrap().id();
        assert!(Runner::new(()).register::<Quote>().run_one(&mut conn).unwrap());
        let_expire(db, "true");
        assert_eq!(standing(db, id), "ready generation=1 attempt=1");
        assert_eq!(discarded(&mut conn, 10), [id]);
        assert_eq!(standing(db, id), "discarded generation=2 attempt=1: expired");
        assert_eq!(conn.job_errors(&schema, id).unwrap().len(), 1);
    }
);

conformance!(
    fn expired_jobs_are_discarded_so_many_at_a_time_the_oldest_first(db: &mut Db) {
        let mut conn = migrated(db);
        let ids: Vec<i64> = (0..5)
            .map(|n| quote(&n.to_string()).enqueue(&mut conn).unwrap().id())
            .collect();
        for (age, id) in ids.iter().enumerate() {
            let ago = -1000 * (i64::try_from(age).unwrap() + 1);
            db.set_time("leasehold.jobs", "expires_at", ago, &format!("id = {id}"));
        }
        assert_eq!(discarded(&mut conn, 2), [ids[3], ids[4]]);
        assert_eq!(
            conn.expired_jobs(&default_schema(), 10).unwrap(),
            [ids[2], ids[1], ids[0]]
        );
        assert_eq!(conn.expired_jobs(&default_schema(), 1).unwrap(), [ids[2]]);
        let one = conn.discard_expired_one(&default_schema(), ids[0]).unwrap().unwrap();
        assert_eq!((one.id, one.generation, one.kind.as_str()), (ids[0], 1, "quote"));
        assert_eq!(conn.discard_expired_one(&default_schema(), ids[0]).unwrap(), None);
        assert_eq!(discarded(&mut conn, 10), [ids[1], ids[2]]);
    }
);

conformance!(
    #[skip(sqlite, "SQLite has no row locks")]
    fn an_expired_job_that_somebody_has_locked_is_left_for_the_next_time(db: &mut Db) {
        let mut conn = migrated(db);
        let [locked, free] = ["locked", "free"].map(|share| quote(share).enqueue(&mut conn).unwrap().id());
        let_expire(db, "true");
        let mut other = open(db);
        other
            .batch_execute(&format!(
                "BEGIN; SELECT 1 FROM leasehold.jobs WHERE id = {locked} FOR UPDATE"
            ))
            .unwrap();
        assert_eq!(discarded(&mut conn, 10), [free]);
        other.batch_execute("ROLLBACK").unwrap();
        assert_eq!(discarded(&mut conn, 10), [locked]);
    }
);

conformance!(
    fn a_row_at_the_end_of_its_numbers_does_not_fail_the_discard_of_its_neighbours(db: &mut Db) {
        let mut conn = migrated(db);
        let [last, other] = ["last", "other"].map(|share| quote(share).enqueue(&mut conn).unwrap().id());
        db.sql(&format!(
            "UPDATE leasehold.jobs SET generation = 9223372036854775806 WHERE id = {last}"
        ));
        let_expire(db, "true");
        assert_eq!(discarded(&mut conn, 10), [other]);
    }
);
