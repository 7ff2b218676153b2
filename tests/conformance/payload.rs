//! Payloads: what goes in comes out, in its version; what no program could decode is refused or discarded.

use std::cell::RefCell;
use std::rc::Rc;

use leasehold::testing::Runner;
use leasehold::{EnqueueError, EnqueueOptions, Handler, Job, LeaseGuard, Outcome, inspect};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::support::*;

/// Any JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Job)]
#[job(kind = "any")]
#[serde(transparent)]
struct Any(Value);

/// Keeps the jobs that it was given.
type Seen<J> = Rc<RefCell<Vec<J>>>;

impl<C: Backend> Handler<C, Seen<Any>> for Any {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, seen: &Seen<Any>) -> Outcome<'j> {
        seen.borrow_mut().push(self);
        lease.finish()
    }
}

#[track_caller]
fn drain<C: Backend, J: Handler<C, Seen<J>>>(conn: &mut C) -> (Vec<J>, leasehold::Counts) {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let runner = Runner::new(Rc::clone(&seen)).register::<J>();
    let counts = runner.drain(conn).unwrap();
    (seen.take(), counts)
}

/// Any JSON without NUL, with the ends of all numbers.
fn any_json() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        Just(json!(u64::MAX)),
        Just(json!(i64::MIN)),
        Just(json!(f64::MAX)),
        Just(json!(f64::MIN_POSITIVE)),
        Just(json!(5e-324)),
        Just(json!(-0.0)),
    ];
    let text = any::<String>().prop_map(|text| text.replace('\0', "\u{1}\u{7f}\\u0000"));
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number,
        text.clone().prop_map(Value::from)
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::btree_map(text.clone(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

conformance!(
    fn any_payload_comes_back_as_it_was_enqueued(db: &mut Db) {
        let mut conn = migrated(db);
        let config = Config {
            cases: 40,
            failure_persistence: None,
            ..Config::default()
        };
        let conn = RefCell::new(&mut conn);
        TestRunner::new(config)
            .run(&proptest::collection::vec(any_json(), 1..12), |values| {
                let conn = &mut **conn.borrow_mut();
                let jobs: Vec<Any> = values.into_iter().map(Any).collect();
                Any::enqueue_all(&jobs, conn, &EnqueueOptions::new()).unwrap();
                // The text is kept, so that nothing is reordered or rounded.
                let stored: Vec<_> = conn.open_jobs(&default_schema(), "any").unwrap();
                for (stored, job) in stored.iter().zip(&jobs) {
                    prop_assert_eq!(&stored.payload, &serde_json::to_string(job).unwrap());
                }
                let (seen, counts) = drain::<_, Any>(conn);
                prop_assert_eq!(counts.completed, u64::try_from(jobs.len()).unwrap());
                prop_assert_eq!(seen, jobs);
                Ok(())
            })
            .unwrap();
    }
);

conformance!(
    fn a_payload_at_the_limits_is_stored_and_one_beyond_is_refused(db: &mut Db) {
        let mut conn = migrated(db);
        let nested = |depth: usize| (0..depth).fold(json!(null), |inner, _| json!([inner]));
        let sized = |bytes: usize| json!("é".repeat((bytes - 2) / 2));
        let kept = [
            Any(sized(EnqueueOptions::MAX_PAYLOAD_BYTES)),
            Any(nested(EnqueueOptions::MAX_PAYLOAD_DEPTH)),
            Any(json!("\\u0000")),
        ];
        for job in &kept {
            job.enqueue(&mut conn).unwrap();
        }
        let (seen, _) = drain::<_, Any>(&mut conn);
        assert!(seen == kept);

        let refused = Any(sized(EnqueueOptions::MAX_PAYLOAD_BYTES + 2)).enqueue(&mut conn);
        assert!(
            matches!(refused, Err(EnqueueError::PayloadTooLarge { bytes, .. }) if bytes == EnqueueOptions::MAX_PAYLOAD_BYTES + 2)
        );
        let refused = Any(nested(EnqueueOptions::MAX_PAYLOAD_DEPTH + 1)).enqueue(&mut conn);
        assert!(matches!(refused, Err(EnqueueError::PayloadTooDeep { kind }) if kind == "any"));
        for nul in [json!("\0"), json!({ "a\0": 1 }), json!(["\\\0"])] {
            let refused = Any(nul).enqueue(&mut conn);
            assert!(matches!(refused, Err(EnqueueError::PayloadNul { kind }) if kind == "any"));
        }
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 0);
    }
);

#[derive(Debug, PartialEq, Serialize, Deserialize, Job)]
#[job(kind = "send")]
struct SendV1 {
    address: String,
}

/// The third version of [`SendV1`].
#[derive(Debug, PartialEq, Serialize, Deserialize, Job)]
#[job(kind = "send", version = 3, migrate = lift)]
struct Send {
    addresses: Vec<String>,
}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "send", version = 4, migrate = lift)]
struct SendV4 {}

fn lift(from: u32, payload: Value) -> Result<Value, String> {
    match (from, payload["address"].as_str()) {
        (1, Some("impossible")) => Err("nobody lives there".to_owned()),
        (1, Some("wrong")) => Ok(json!({ "addresses": 7 })),
        (1, Some(address)) => Ok(json!({ "addresses": [address] })),
        _ => Err(format!("version {from} never was")),
    }
}

impl<C: Backend> Handler<C, Seen<Send>> for Send {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, seen: &Seen<Send>) -> Outcome<'j> {
        seen.borrow_mut().push(self);
        lease.finish()
    }
}

conformance!(
    fn older_payloads_are_migrated_and_newer_ones_wait(db: &mut Db) {
        let mut conn = migrated(db);
        let own = Send {
            addresses: vec!["b".to_owned(), "c".to_owned()],
        };
        SendV1 {
            address: "a".to_owned(),
        }
        .enqueue(&mut conn)
        .unwrap();
        own.enqueue(&mut conn).unwrap();
        let newer = SendV4 {}.enqueue(&mut conn).unwrap().id();
        let (seen, counts) = drain::<_, Send>(&mut conn);
        assert_eq!(
            seen,
            [
                Send {
                    addresses: vec!["a".to_owned()]
                },
                own
            ]
        );
        assert_eq!((counts.completed, counts.ended()), (2, 2));
        assert_eq!(standing(db, newer), "ready generation=0 attempt=0");
    }
);

conformance!(
    fn what_cannot_be_decoded_is_discarded_with_its_payload_and_the_reason(db: &mut Db) {
        let mut conn = migrated(db);
        let v1 = |address: &str| SendV1 {
            address: address.to_owned(),
        };
        let impossible = v1("impossible").enqueue(&mut conn).unwrap().id();
        let wrong = v1("wrong").enqueue(&mut conn).unwrap().id();
        let broken = v1("own version").enqueue(&mut conn).unwrap().id();
        let unknown = v1("no version").enqueue(&mut conn).unwrap().id();
        db.sql(&format!("UPDATE leasehold.jobs SET version = 3 WHERE id = {broken}"));
        db.sql(&format!("UPDATE leasehold.jobs SET version = 2 WHERE id = {unknown}"));
        let (seen, counts) = drain::<_, Send>(&mut conn);
        assert_eq!((seen.len(), counts.discarded, counts.ended()), (0, 4, 4));
        for (id, reason) in [
            (
                impossible,
                "the payload of version 1 was not migrated: nobody lives there",
            ),
            (
                wrong,
                "the payload of version 1 cannot be decoded: invalid type: integer `7`",
            ),
            (
                broken,
                "the payload of version 3 cannot be decoded: missing field `addresses`",
            ),
            (
                unknown,
                "the payload of version 2 was not migrated: version 2 never was",
            ),
        ] {
            let job = inspect::job(&mut conn, &default_schema(), id).unwrap().unwrap();
            assert_eq!(job.state, inspect::State::Discarded);
            assert!(job.reason.as_ref().unwrap().starts_with(reason), "{:?}", job.reason);
            assert!(job.payload.starts_with(r#"{"address":"#), "{}", job.payload);
            let attempts = inspect::errors(&mut conn, &default_schema(), id).unwrap();
            assert_eq!(attempts.len(), 1);
            assert_eq!(Some(&attempts[0].error), job.reason.as_ref());
        }
    }
);

conformance!(
    fn an_idempotency_key_is_the_same_in_every_attempt_and_differs_between_jobs(db: &mut Db) {
        let mut conn = migrated(db);
        let seen = RefCell::new(Vec::new());
        for _ in 0..2 {
            note("retried").enqueue(&mut conn).unwrap();
        }
        for _ in 0..3 {
            run(&mut conn, |_, lease| {
                seen.borrow_mut()
                    .push((lease.job_id(), lease.idempotency_key().to_owned()));
                Err(leasehold::JobError::retry("again"))
            });
            db.set_time("leasehold.jobs", "run_at", -1000, "state = 'ready'");
        }
        let mut seen = seen.into_inner();
        assert_eq!(seen.len(), 6);
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 2);
        assert_ne!(seen[0].1, seen[1].1);
        assert!(seen.iter().all(|(_, key)| key.len() >= 32));
    }
);
