use diesel::connection::SimpleConnection;
use diesel::r2d2::{ConnectionManager, Pool};
use leasehold::manage::{self, Cancel};
use leasehold::{EnqueueOptions, Job, Schema};

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
        assert!(enqueued.is_err());
    }
);

conformance!(
    fn a_cancel_does_not_commit_a_transaction_that_diesel_does_not_know_of(db: &mut Db) {
        let mut conn = migrated(db);
        db.sql("CREATE TABLE written (id integer)");
        let id = probe("").enqueue(&mut conn).unwrap().id();
        conn.batch_execute("BEGIN; INSERT INTO written VALUES (1)").unwrap();
        manage::cancel(&mut conn, &Schema::default(), id, Cancel::Hard, "ops", "why").unwrap_err();
        conn.batch_execute("ROLLBACK").unwrap();
        assert_eq!(db.integer("SELECT count(*) FROM written"), 0);
        assert_eq!(standing(db, id), "ready");
    }
);

conformance!(
    fn a_commit_does_not_commit_what_a_connection_of_the_pool_brought_along(db: &mut Db) {
        let mut conn = migrated(db);
        db.sql("CREATE TABLE written (id integer)");
        probe("").enqueue(&mut conn).unwrap();
        let pool = Pool::builder()
            .max_size(1)
            .build(ConnectionManager::<Connection>::new(db.url()))
            .unwrap();
        // Somebody forgot the COMMIT. On SQLite a write would keep everybody else from writing.
        let left = if Db::BACKEND == "sqlite" {
            "SELECT 1"
        } else {
            "INSERT INTO written VALUES (99)"
        };
        pool.get().unwrap().batch_execute(&format!("BEGIN; {left}")).unwrap();
        let worker = worker(db, |_, lease| {
            lease.commit(|tx| Ok(tx.batch_execute("INSERT INTO written VALUES (1)")?))
        });
        let running = worker.with_pool(pool).start().unwrap();
        wait_completed(&running, 1);
        assert_eq!(db.texts("SELECT CAST(id AS text) FROM written"), [Some("1".to_owned())]);
    }
);
