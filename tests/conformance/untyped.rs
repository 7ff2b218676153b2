//! Jobs of kinds for which the program that enqueues has no type.

use std::time::Duration;

use leasehold::{EnqueueError, EnqueueOptions, Job as _, UntypedJob};
use serde_json::json;

use crate::support::*;

conformance!(
    fn a_job_without_a_type_runs_where_its_kind_is_known(db: &mut Db) {
        let mut conn = migrated(db);
        let job = UntypedJob::new("note", &json!({ "text": "by hand" })).unwrap();
        let options = EnqueueOptions::new()
            .priority(3)
            .max_attempts(2)
            .lease(Duration::from_secs(7))
            .idempotency_key("request 1");
        let first = job.enqueue(&mut conn, &options).unwrap();
        assert!(first.is_new());
        assert_eq!(job.enqueue(&mut conn, &options).unwrap().id(), first.id());
        let stored =
            "SELECT CONCAT(queue, ' ', priority, ' ', max_attempts, ' ', lease_ms, ' ', version) FROM leasehold.jobs";
        assert_eq!(db.text(stored).as_deref(), Some("default 3 2 7000 1"));

        let seen = std::cell::RefCell::new(String::new());
        run(&mut conn, |note, lease| {
            *seen.borrow_mut() = note.text;
            lease.finish()
        });
        assert_eq!(seen.into_inner(), "by hand");
        assert_eq!(standing(db, first.id()), "completed generation=1 attempt=1");
    }
);

conformance!(
    fn a_job_without_a_type_is_as_one_whose_type_says_nothing(db: &mut Db) {
        let mut conn = migrated(db);
        let typed = note("the same").enqueue(&mut conn).unwrap().id();
        let untyped = UntypedJob::new("note", &json!({ "text": "the same" })).unwrap();
        let untyped = untyped.enqueue(&mut conn, &EnqueueOptions::new()).unwrap().id();
        let mut stored = |id: i64| {
            db.text(&format!(
                "SELECT CONCAT(queue, ' ', version, ' ', payload, ' ', priority, ' ', max_attempts, ' ', lease_ms, ' ', unique_states, ' ',
                 limit_rank) FROM leasehold.jobs WHERE id = {id}"
            ))
        };
        assert_eq!(stored(typed), stored(untyped));
    }
);

conformance!(
    fn what_no_worker_could_read_is_refused_without_a_type_too(db: &mut Db) {
        let mut conn = migrated(db);
        let refused = |payload: serde_json::Value| UntypedJob::new("note", &payload).map(|_| ());
        assert!(matches!(refused(json!({ "text": "a\0b" })), Err(EnqueueError::PayloadNul { kind }) if kind == "note"));
        let long = "x".repeat(EnqueueOptions::MAX_PAYLOAD_BYTES);
        assert!(matches!(
            refused(json!(long)),
            Err(EnqueueError::PayloadTooLarge { .. })
        ));
        assert!(matches!(UntypedJob::new("a\nb", &json!(1)), Err(EnqueueError::Kind(_))));
        let newest = UntypedJob::new("note", &json!(1)).unwrap().version(1001);
        let refused = newest.enqueue(&mut conn, &EnqueueOptions::new());
        assert!(matches!(
            refused,
            Err(EnqueueError::OutOfRange { option: "VERSION", .. })
        ));
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 0);
    }
);
