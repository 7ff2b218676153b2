//! Idempotency keys: one job for a key while it is remembered, whatever became of the job.

use std::time::Duration;

use diesel::result::Error;
use leasehold::{EnqueueError, EnqueueOptions, Enqueued, Job};

use crate::support::*;
use crate::unique::{bill, run_bills};

fn keyed(key: &str) -> EnqueueOptions {
    EnqueueOptions::new().idempotency_key(key)
}

conformance!(
    fn an_idempotency_key_enqueues_one_job_even_after_it_has_ended(db: &mut Db) {
        let mut conn = migrated(db);
        let first = note("a").enqueue_with(&mut conn, &keyed("key")).unwrap();
        assert!(first.is_new());
        let existing = Enqueued::Existing { id: first.id() };
        assert_eq!(note("a").enqueue_with(&mut conn, &keyed("key")).unwrap(), existing);
        let counts = run(&mut conn, |_, lease| {
            assert_eq!(lease.idempotency_key(), "key");
            lease.finish()
        });
        assert_eq!(counts.completed, 1);
        assert_eq!(note("a").enqueue_with(&mut conn, &keyed("key")).unwrap(), existing);
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 0);
        assert!(note("a").enqueue_with(&mut conn, &keyed("Key")).unwrap().is_new());
        assert!(note("a").enqueue(&mut conn).unwrap().is_new());
    }
);

conformance!(
    fn an_idempotency_key_for_something_else_is_a_conflict_and_writes_nothing(db: &mut Db) {
        let mut conn = migrated(db);
        let first = note("a").enqueue_with(&mut conn, &keyed("key")).unwrap().id();
        let conflict = note("b").enqueue_with(&mut conn, &keyed("key"));
        assert!(matches!(conflict, Err(EnqueueError::KeyConflict { id }) if id == first));
        // The caller's transaction goes on without the job.
        conn.transaction(|tx| {
            write(tx, 1)?;
            let other_kind = bill("a", 1).enqueue_with(tx, &keyed("key"));
            assert!(matches!(other_kind, Err(EnqueueError::KeyConflict { id }) if id == first));
            Ok::<_, Error>(())
        })
        .unwrap();
        assert_eq!(written(db), [1]);
        assert_eq!(db.integer("SELECT id FROM leasehold.jobs"), first);
        assert_eq!(db.integer("SELECT job_id FROM leasehold.unique_keys"), first);
        assert!(bill("a", 1).enqueue(&mut conn).unwrap().is_new());
    }
);

conformance!(
    fn a_job_withdrawn_for_one_key_takes_its_other_one_along(db: &mut Db) {
        let mut conn = migrated(db);
        let first = bill("a", 1).enqueue(&mut conn).unwrap().id();
        assert_eq!(
            bill("a", 2).enqueue_with(&mut conn, &keyed("key")).unwrap(),
            Enqueued::Existing { id: first }
        );
        // "key" is not remembered for a job that is not there.
        let second = bill("b", 1).enqueue_with(&mut conn, &keyed("key")).unwrap();
        assert!(second.is_new());
        run_bills(&mut conn, |lease| lease.finish());
        assert_eq!(
            bill("b", 1).enqueue_with(&mut conn, &keyed("key")).unwrap(),
            Enqueued::Existing { id: second.id() }
        );
        // Nor is the unique key, which was free.
        assert!(bill("b", 2).enqueue(&mut conn).unwrap().is_new());
    }
);

conformance!(
    fn an_idempotency_key_is_free_again_when_it_has_expired(db: &mut Db) {
        let mut conn = migrated(db);
        let hour = Duration::from_secs(3600);
        note("a").enqueue_with(&mut conn, &keyed("week")).unwrap();
        let kept = from_now(db, "leasehold.unique_keys", "expires_at", "expires_at IS NOT NULL");
        assert!(is_about(kept, leasehold::EnqueueOptions::KEY_RETENTION));
        db.set_time("leasehold.unique_keys", "expires_at", -1, "expires_at IS NOT NULL");
        let again = note("b")
            .enqueue_with(&mut conn, &keyed("week").remember_key(hour))
            .unwrap();
        assert!(again.is_new());
        let kept = from_now(db, "leasehold.unique_keys", "expires_at", "expires_at IS NOT NULL");
        assert!(is_about(kept, hour));
        assert_eq!(db.integer("SELECT job_id FROM leasehold.unique_keys"), again.id());
    }
);

conformance!(
    fn a_sweep_of_keys_removes_expired_ones_up_to_its_limit(db: &mut Db) {
        let mut conn = migrated(db);
        for number in 0..5 {
            let key = keyed(&format!("key {number}"));
            note("a").enqueue_with(&mut conn, &key).unwrap();
        }
        bill("a", 1).enqueue(&mut conn).unwrap();
        assert_eq!(conn.sweep_keys(&default_schema(), 10).unwrap(), 0);
        db.set_time("leasehold.unique_keys", "expires_at", -1000, "job_id IN (1, 2, 3)");
        db.set_time("leasehold.unique_keys", "expires_at", -5000, "job_id = 2");
        assert_eq!(conn.sweep_keys(&default_schema(), 1).unwrap(), 1);
        assert_eq!(
            db.integer("SELECT count(*) FROM leasehold.unique_keys WHERE job_id = 2"),
            0
        );
        assert_eq!(conn.sweep_keys(&default_schema(), 10).unwrap(), 2);
        assert_eq!(
            db.texts("SELECT CAST(job_id AS text) FROM leasehold.unique_keys ORDER BY job_id"),
            ["4", "5", "6"].map(|id| Some(id.to_owned()))
        );
    }
);
