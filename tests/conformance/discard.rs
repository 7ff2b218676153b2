//! Jobs discarded by hand.

use leasehold::inspect::{Filter, State};
use leasehold::manage;
use leasehold::{Batch, Job as _, batch};

use crate::support::*;

conformance!(
    fn a_job_that_is_discarded_by_hand_refuses_its_worker(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let fence = claimed(&mut conn);
        assert!(manage::discard(&mut conn, &schema, fence.id, "ops", "a bad address").unwrap());
        assert_eq!(
            standing(db, fence.id),
            "discarded generation=2 attempt=1: a bad address"
        );
        assert!(conn.finish(&schema, &[fence]).unwrap().is_empty());
        assert!(!manage::discard(&mut conn, &schema, fence.id, "ops", "again").unwrap());
        assert!(!manage::discard(&mut conn, &schema, fence.id + 1, "ops", "nothing").unwrap());

        manage::requeue(&mut conn, &schema, fence.id, "ops").unwrap();
        assert_eq!(standing(db, fence.id), "ready generation=3 attempt=0");
    }
);

conformance!(
    fn a_filter_says_which_open_jobs_are_discarded(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let running = claimed(&mut conn);
        let ready = note("ready").enqueue(&mut conn).unwrap().id();
        let mut discard = |filter: &Filter| manage::discard_all(&mut conn, &schema, filter, "ops", "off").unwrap();
        assert_eq!(discard(&Filter::new().state(State::Cancelled)), 0);
        assert_eq!(discard(&Filter::new().state(State::Ready)), 1);
        assert_eq!(standing(db, ready), "discarded generation=1 attempt=0: off");
        assert_eq!(discard(&Filter::new()), 1);
        assert_eq!(standing(db, running.id), "discarded generation=2 attempt=1: off");
    }
);

conformance!(
    fn what_follows_from_a_discard_follows_from_one_by_hand(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let batch = Batch::new("letters")
            .add(&note("one"))
            .on_discarded(&note("tell"))
            .enqueue(&mut conn)
            .unwrap();
        let one = db.integer("SELECT min(id) FROM leasehold.jobs WHERE batch_id IS NOT NULL AND blocked_by IS NULL");
        assert!(manage::discard(&mut conn, &schema, one, "ops", "no such person").unwrap());
        let record = batch::record(&mut conn, &schema, batch.id).unwrap().unwrap();
        assert!(record.is_finished() && record.discarded_at.is_some());
        run(&mut conn, |note, lease| {
            assert_eq!(note.text, "tell");
            lease.finish()
        });
        let told = "SELECT count(*) FROM leasehold.finished_jobs WHERE state = 'completed'";
        assert_eq!(db.integer(told), 1);
    }
);
