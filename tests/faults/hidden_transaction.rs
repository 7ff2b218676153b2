use diesel::connection::SimpleConnection;
use leasehold::{EnqueueOptions, Job};

use crate::probe::*;

conformance!(
    fn an_enqueue_with_a_key_does_not_commit_a_transaction_that_diesel_does_not_know_of(db: &mut Db) {
        let mut conn = migrated(db);
        db.sql("CREATE TABLE written (id integer)");
        conn.batch_execute("BEGIN; INSERT INTO written VALUES (1)").unwrap();
        let options = EnqueueOptions::new().idempotency_key("once");
        let enqueued = probe("").enqueue_with(&mut conn, &options);
        let _ = conn.batch_execute("ROLLBACK");
        let left = db.integer("SELECT count(*) FROM written") + db.integer("SELECT count(*) FROM leasehold.jobs");
        assert_eq!(left, 0, "{enqueued:?}");
    }
);
