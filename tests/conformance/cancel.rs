//! Cancel: softly, as a request to a running job, and at once.

use leasehold::Job;
use leasehold::inspect;
#[cfg(feature = "postgres")]
use leasehold::inspect::State;
use leasehold::manage::{self, Cancel};

use crate::support::*;

conformance!(
    fn a_soft_cancel_asks_a_running_job_and_ends_any_other(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let fence = claimed(&mut conn);
        let soft =
            |conn: &mut Connection, id, why: &str| manage::cancel(conn, &schema, id, Cancel::Soft, "ops", why).unwrap();
        assert!(soft(&mut conn, fence.id, "please"));
        assert_eq!(standing(db, fence.id), "running generation=1 attempt=1");
        let asked = row(db, fence.id);
        assert!(soft(&mut conn, fence.id, "once more"));
        assert_eq!(row(db, fence.id), asked, "the first request's time stays");
        assert!(
            inspect::job(&mut conn, &default_schema(), fence.id)
                .unwrap()
                .unwrap()
                .cancel_requested
        );
        // It may complete all the same.
        assert_eq!(conn.finish(&default_schema(), &[fence]).unwrap(), [fence.id]);
        assert!(!soft(&mut conn, fence.id, "too late"));
        assert_eq!(standing(db, fence.id), "completed generation=1 attempt=1");

        let ready = note("ready").enqueue(&mut conn).unwrap().id();
        assert!(soft(&mut conn, ready, "not needed\0"));
        assert_eq!(
            standing(db, ready),
            "cancelled generation=1 attempt=0: not needed\u{fffd}"
        );
        assert!(!soft(&mut conn, 12345, "nobody"));
    }
);

conformance!(
    fn a_hard_cancel_ends_a_job_at_once_and_fences_its_worker_out(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let fence = claimed(&mut conn);
        let ready = note("ready").enqueue(&mut conn).unwrap().id();
        for (id, generation, attempt) in [(fence.id, 2, 1), (ready, 1, 0)] {
            assert!(manage::cancel(&mut conn, &schema, id, Cancel::Hard, "ops", "stop").unwrap());
            let expected = format!("cancelled generation={generation} attempt={attempt}: stop");
            assert_eq!(standing(db, id), expected);
            assert!(!manage::cancel(&mut conn, &schema, id, Cancel::Hard, "ops", "again").unwrap());
            assert_eq!(standing(db, id), expected);
        }
        assert!(conn.finish(&schema, &[fence]).unwrap().is_empty());
        assert!(conn.heartbeat(&schema, &[fence]).unwrap().is_empty());
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 0);
    }
);

conformance!(
    #[skip(sqlite, "SQLite has no row locks")]
    fn a_cancel_that_waited_for_a_claim_cancels_the_claimed_job(db: &mut Db) {
        let mut conn = migrated(db);
        let id = note("contended").enqueue(&mut conn).unwrap().id();
        let mut other = open(db);
        conn.begin_write().unwrap();
        let fence = claim_notes(&mut conn)[0];
        let waiting = std::thread::spawn(move || {
            other
                .end_open(&default_schema(), &[id], true, State::Cancelled, "stop")
                .unwrap()
        });
        leasehold_tests::eventually(std::time::Duration::from_secs(20), "the cancel waits", || {
            db.integer(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
            ) == 1
        });
        use diesel::connection::TransactionManager;
        diesel::connection::AnsiTransactionManager::commit_transaction(&mut conn).unwrap();
        assert_eq!(waiting.join().unwrap(), [id]);
        assert_eq!(standing(db, id), "cancelled generation=2 attempt=1: stop");
        assert!(conn.finish(&default_schema(), &[fence]).unwrap().is_empty());
    }
);
