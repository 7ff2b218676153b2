use std::time::Duration;

use leasehold::{Handler, Job, LeaseGuard, Outcome, StartError, Worker};
use serde::{Deserialize, Serialize};

use crate::probe::*;

conformance!(
    fn the_largest_prefetch_claims_all_there_is(db: &mut Db) {
        let mut conn = migrated(db);
        let running = worker(db, |_, lease| lease.finish())
            .fixed_batch(usize::MAX)
            .start()
            .unwrap();
        for _ in 0..3 {
            probe("").enqueue(&mut conn).unwrap();
        }
        wait_completed(&running, 3);
    }
);

conformance!(
    fn an_endless_poll_interval_leaves_the_waking_to_the_enqueue(db: &mut Db) {
        let mut conn = migrated(db);
        let worker = worker(db, |_, lease| lease.finish());
        let running = worker
            .poll_interval(Duration::MAX)
            .sweep_interval(Duration::MAX)
            .start()
            .unwrap();
        for jobs in 1..3 {
            probe("").enqueue(&mut conn).unwrap();
            wait_completed(&running, jobs);
        }
    }
);

conformance!(
    fn an_endless_patience_waits_for_nothing_that_is_not_there(db: &mut Db) {
        let mut conn = migrated(db);
        probe("").enqueue(&mut conn).unwrap();
        let worker = worker(db, |_, lease| lease.finish());
        let summary = worker.patience(Duration::MAX).run_until_empty().unwrap();
        assert_eq!(summary.counts.completed, 1);
    }
);

/// The version is a date.
#[derive(Serialize, Deserialize)]
struct Dated;

impl Job for Dated {
    const KIND: &'static str = "dated";
    const VERSION: u32 = 20_240_601;
}

/// No payload has this version.
#[derive(Serialize, Deserialize)]
struct Unversioned;

impl Job for Unversioned {
    const KIND: &'static str = "unversioned";
    const VERSION: u32 = 0;
}

macro_rules! handler {
    ($($job:ident)+) => { $(
        impl<C: Backend> Handler<C> for $job {
            fn run<'j>(self, lease: LeaseGuard<'j, C>, _: &()) -> Outcome<'j> {
                lease.finish()
            }
        }
    )+ };
}
handler!(Dated Unversioned);

conformance!(
    fn a_version_that_cannot_be_served_is_refused_at_the_start(db: &mut Db) {
        drop(migrated(db));
        let dated = Worker::<Connection, ()>::new(db.url(), ()).register::<Dated>().start();
        assert!(matches!(dated, Err(StartError::Registry(_))), "{dated:?}");
        let unversioned = Worker::<Connection, ()>::new(db.url(), ())
            .register::<Unversioned>()
            .start();
        assert!(matches!(unversioned, Err(StartError::Registry(_))), "{unversioned:?}");
    }
);
