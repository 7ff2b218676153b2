use leasehold::manage::{self, Cancel};
use leasehold::{Job, JobError, Schema};

use crate::probe::*;

conformance!(
    fn a_job_that_fails_before_the_next_heartbeat_tells_of_its_cancel_does_not_run_again(db: &mut Db) {
        let mut conn = migrated(db);
        let id = probe("").enqueue(&mut conn).unwrap().id();
        let url = db.url();
        let worker = worker(db, move |_, lease| {
            let mut conn = <Connection as diesel::Connection>::establish(&url)?;
            assert!(manage::cancel(
                &mut conn,
                &Schema::default(),
                lease.job_id(),
                Cancel::Soft,
                "ops",
                "not needed"
            )?);
            Err(JobError::retry("failed"))
        });
        let summary = worker.run_until_empty().unwrap();
        assert_eq!((summary.counts.cancelled, summary.counts.retried), (1, 0));
        assert_eq!(standing(db, id), "cancelled: failed");
    }
);
