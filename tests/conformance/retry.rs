//! How long a job waits that is put back: the shapes of a backoff, and what a handler asks for.

use std::time::Duration;

use leasehold::testing::Runner;
use leasehold::{Handler, Job, JobError, LeaseGuard, Outcome};
use serde::{Deserialize, Serialize};

use crate::support::*;

/// A job type that fails, for each backoff.
macro_rules! failing {
    ($($name:ident $kind:literal $backoff:expr;)+) => { $(
        #[derive(Serialize, Deserialize, Job)]
        #[job(kind = $kind, backoff = $backoff)]
        struct $name {}

        impl<C: Backend> Handler<C> for $name {
            fn run<'j>(self, _: LeaseGuard<'j, C>, _: &()) -> Outcome<'j> {
                Err(JobError::retry("again"))
            }
        }
    )+ };
}
failing! {
    Linear "linear" "linear(10m..25m)";
    Exponential "exponential" "exponential(10m..70m)";
    Listed "listed" "list(10m, 30m)";
    Squared "squared" squares;
    Endless "endless" endless;
    Spread "spread" "fixed(1000m, jitter 50%)";
}

fn squares(attempt: u32) -> Duration {
    Duration::from_secs(600) * attempt.pow(2)
}

fn endless(_: u32) -> Duration {
    Duration::MAX
}

/// Fails a job four times; the minutes that it waits after each.
#[track_caller]
fn minutes<D: TestDb, J: Handler<D::Connection> + Job>(db: &mut D, job: &J) -> [u64; 4] {
    let mut conn = db.connect();
    let id = job.enqueue(&mut conn).unwrap().id();
    [(); 4].map(|()| {
        assert!(Runner::new(()).register::<J>().run_one(&mut conn).unwrap());
        let wait = waits(db, id);
        conn.move_run_at(&default_schema(), id, 0).unwrap();
        (wait + Duration::from_secs(10)).as_secs() / 60
    })
}

conformance!(
    fn the_backoff_of_the_kind_grows_with_the_attempts(db: &mut Db) {
        migrated(db);
        assert_eq!(minutes(db, &Linear {}), [10, 20, 25, 25]);
        assert_eq!(minutes(db, &Exponential {}), [10, 20, 40, 70]);
        assert_eq!(minutes(db, &Listed {}), [10, 30, 30, 30]);
        assert_eq!(minutes(db, &Squared {}), [10, 40, 90, 160]);
        let fixed = <Note as Job>::BACKOFF;
        assert_eq!([1, 7, u32::MAX].map(|attempt| fixed.after(attempt).as_secs()), [60; 3]);
    }
);

conformance!(
    fn jitter_spreads_the_waits_of_jobs_that_fail_together(db: &mut Db) {
        let mut conn = migrated(db);
        let ids: Vec<i64> = (0..20).map(|_| Spread {}.enqueue(&mut conn).unwrap().id()).collect();
        Runner::new(()).register::<Spread>().drain(&mut conn).unwrap();
        let mut minutes: Vec<u64> = ids.iter().map(|id| waits(db, *id).as_secs() / 60).collect();
        assert!(
            minutes.iter().all(|minutes| (499..=1000).contains(minutes)),
            "{minutes:?}"
        );
        minutes.sort_unstable();
        minutes.dedup();
        // Twenty of five hundred minutes: fewer than five different ones do not happen.
        assert!(minutes.len() >= 5, "{minutes:?}");
    }
);

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

conformance!(
    fn the_longest_wait_is_a_hundred_years_whoever_asks_for_it(db: &mut Db) {
        let mut conn = migrated(db);
        let (retried, counts) = run_new(&mut conn, |_, _| {
            Err(JobError::retry_after("much later", Duration::MAX))
        });
        assert_eq!(counts.retried, 1);
        let (snoozed, counts) = run_new(&mut conn, |_, lease| lease.snooze(Duration::MAX));
        assert_eq!(counts.snoozed, 1);
        let failed = Endless {}.enqueue(&mut conn).unwrap().id();
        assert!(Runner::new(()).register::<Endless>().run_one(&mut conn).unwrap());
        for id in [retried, snoozed, failed] {
            assert!(is_about(waits(db, id), 100 * YEAR));
        }
        // Such a row fails no look at the others.
        let (rows, _) = claim_served(&mut conn, &[served("default", "note", 1)], 10);
        assert!(rows.is_empty());
        let waiting = conn
            .waiting(&default_schema(), &[served("default", "note", 1)], 10)
            .unwrap();
        assert_eq!((waiting.scheduled, waiting.ready), (2, 0));
        assert!(waiting.next_due_ms.unwrap() > 99 * 365 * 24 * 3600 * 1000);
    }
);

conformance!(
    fn no_wait_at_all_makes_a_job_due_at_once(db: &mut Db) {
        let mut conn = migrated(db);
        let (id, counts) = run_new(&mut conn, |_, lease| match lease.generation() {
            1 => Err(JobError::retry_after("at once", Duration::ZERO)),
            2 => lease.snooze(Duration::ZERO),
            _ => lease.finish(),
        });
        assert_eq!((counts.retried, counts.snoozed, counts.completed), (1, 1, 1));
        assert_eq!(standing(db, id), "completed generation=3 attempt=2");
    }
);

conformance!(
    fn a_job_may_snooze_more_often_than_it_has_attempts(db: &mut Db) {
        let mut conn = migrated(db);
        let options = leasehold::EnqueueOptions::new().max_attempts(1);
        let id = note("snoozes").enqueue_with(&mut conn, &options).unwrap().id();
        for snoozes in 1..=5 {
            let counts = run(&mut conn, |_, lease| {
                assert_eq!((lease.attempt(), lease.is_last_attempt()), (1, true));
                lease.snooze(Duration::from_secs(3600))
            });
            assert_eq!((counts.snoozed, counts.discarded), (1, 0));
            assert!(is_about(waits(db, id), Duration::from_secs(3600)));
            assert_eq!(standing(db, id), format!("ready generation={snoozes} attempt=0"));
            conn.move_run_at(&default_schema(), id, 0).unwrap();
        }
        assert_eq!(run(&mut conn, |_, lease| lease.finish()).completed, 1);
    }
);
