//! Idempotency keys: one job for a key while it is remembered, whatever became of the job.

use std::time::Duration;

use diesel::result::Error;
use leasehold::{EnqueueError, EnqueueOptions, Enqueued, Job, inspect};
use serde::{Deserialize, Serialize};

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

/// A charge of an order is one request, whatever it says else; for a month.
#[derive(Debug, Serialize, Deserialize, Job)]
#[job(kind = "charge", idempotency_key(by = "order", remember = "30d"))]
struct Charge {
    order: u64,
    cents: u64,
}

/// Of another kind, with the same fields.
#[derive(Debug, Serialize, Deserialize, Job)]
#[job(kind = "refund", idempotency_key(by = "order"))]
struct Refund {
    order: u64,
}

conformance!(
    fn a_kind_may_derive_its_keys_from_the_payload_and_what_an_enqueue_says_wins(db: &mut Db) {
        let mut conn = migrated(db);
        let charge = |order, cents| Charge { order, cents };
        let first = charge(1, 10).enqueue(&mut conn).unwrap().id();
        let again = charge(1, 10).enqueue(&mut conn).unwrap();
        assert_eq!(again, Enqueued::Existing { id: first });
        let conflict = charge(1, 11).enqueue(&mut conn);
        assert!(matches!(conflict, Err(EnqueueError::KeyConflict { id }) if id == first));
        // Other values, another kind, another key.
        assert!(charge(2, 10).enqueue(&mut conn).unwrap().is_new());
        assert!(Refund { order: 1 }.enqueue(&mut conn).unwrap().is_new());
        let given = charge(1, 10).enqueue_with(&mut conn, &keyed("by hand")).unwrap();
        assert!(given.is_new());
        let key_of = |conn: &mut Connection, id| {
            let job = inspect::job(conn, &default_schema(), id).unwrap().unwrap();
            job.idempotency_key
        };
        assert_eq!(key_of(&mut conn, given.id()), "by hand");
        let derived = key_of(&mut conn, first);
        assert_eq!(Some(derived.clone()), charge(1, 99).idempotency_key());
        assert!(derived.starts_with("charge:") && derived.len() == 71, "{derived}");
        // The kind says for how long, unless the enqueue does.
        let of = |id| format!("job_id = {id}");
        let day = Duration::from_secs(24 * 3600);
        let kept = from_now(db, "leasehold.unique_keys", "expires_at", &of(first));
        assert!(is_about(kept, 30 * day));
        let brief = EnqueueOptions::new().remember_key(day);
        let brief = charge(3, 10).enqueue_with(&mut conn, &brief).unwrap().id();
        assert!(is_about(
            from_now(db, "leasehold.unique_keys", "expires_at", &of(brief)),
            day
        ));
    }
);

conformance!(
    fn jobs_of_one_call_that_derive_one_key_are_one_job(db: &mut Db) {
        let mut conn = migrated(db);
        let charge = |order, cents| Charge { order, cents };
        let same = [charge(1, 10), charge(2, 10), charge(1, 10)];
        let answers = Charge::enqueue_all(&same, &mut conn, &EnqueueOptions::new()).unwrap();
        assert!(answers[0].is_new() && answers[1].is_new());
        assert_eq!(answers[2], Enqueued::Existing { id: answers[0].id() });
        let other = [charge(3, 10), charge(3, 11)];
        let conflict = Charge::enqueue_all(&other, &mut conn, &EnqueueOptions::new());
        assert!(
            matches!(conflict, Err(EnqueueError::KeyConflict { .. })),
            "{conflict:?}"
        );
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 2);
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
