//! `leasehold.enqueue(kind, payload, options)`, from plain SQL.

use std::time::Duration;

use diesel::connection::SimpleConnection;
use leasehold::migrate::Migrations;
use leasehold::{EnqueueError, EnqueueOptions, Enqueued, Job, Schema, migrate};
use leasehold_tests::TestDb;
use leasehold_tests::postgres::{Database, database};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Greet {
    name: String,
    times: u32,
}

impl Job for Greet {
    const KIND: &'static str = "greet";
}

/// A job of the kind's defaults; the function cannot know a kind's, so its own must be the same.
fn greet() -> Greet {
    Greet {
        name: "Ödön \"x\" \u{1f4ee}".to_owned(),
        times: 3,
    }
}

fn migrated() -> Database {
    let db = database();
    migrate(&mut db.connect()).unwrap();
    db
}

/// Everything of a job but its id and its times.
fn columns(db: &mut Database, id: i64) -> Option<String> {
    db.text(&format!(
        "SELECT (to_jsonb(j) - '{{id, run_at, created_at, idempotency_key}}'::text[])::text || payload || scheduled
            || (run_at - created_at > interval '50 s') FROM leasehold.jobs AS j WHERE id = {id}"
    ))
}

fn keys(db: &mut Database) -> Vec<Option<String>> {
    db.texts(
        "SELECT key || ' ' || fingerprint || ' ' || round(extract(epoch FROM expires_at - clock_timestamp()) / 60)
            FROM leasehold.unique_keys ORDER BY key",
    )
}

#[track_caller]
fn refusal(db: &Database, call: &str) -> String {
    let refused = db.connect().batch_execute(&format!("SELECT {call}")).unwrap_err();
    let diesel::result::Error::DatabaseError(_, information) = &refused else {
        panic!("{refused}")
    };
    format!("{} ({})", information.message(), information.hint().unwrap_or_default())
}

#[test]
fn without_options_a_job_has_the_same_columns_as_one_from_rust() {
    let mut db = migrated();
    let id = db.integer("SELECT leasehold.enqueue('greet', '{\"name\":\"Ödön \\\"x\\\" \u{1f4ee}\",\"times\":3}')");
    let from_rust = greet().enqueue(&mut db.connect()).unwrap().id();
    assert_ne!(id, from_rust);
    assert_eq!(columns(&mut db, id), columns(&mut db, from_rust));
    let random = db.texts("SELECT DISTINCT idempotency_key FROM leasehold.jobs");
    assert_eq!(random.len(), 2);
}

#[test]
fn with_options_a_job_has_the_same_columns_as_one_from_rust() {
    let mut db = migrated();
    let id = db.integer(
        "SELECT leasehold.enqueue('greet', '{\"name\":\"Ödön \\\"x\\\" \u{1f4ee}\",\"times\":3}',
            '{\"queue\": \"mail\", \"priority\": -7, \"delay_ms\": 60000, \"max_attempts\": 3, \"lease_ms\": 1500}')",
    );
    let minute = Duration::from_secs(60);
    let options = EnqueueOptions::new()
        .queue("mail")
        .priority(-7)
        .delay(minute)
        .max_attempts(3);
    let options = options.lease(Duration::from_millis(1500));
    let from_rust = greet().enqueue_with(&mut db.connect(), &options).unwrap().id();
    assert_eq!(columns(&mut db, id), columns(&mut db, from_rust));
    assert!(columns(&mut db, id).unwrap().contains("\"queue\": \"mail\""));
}

#[test]
fn a_run_time_and_a_version_are_options_too() {
    let mut db = migrated();
    let id =
        db.integer("SELECT leasehold.enqueue('k', '[]', '{\"run_at\": \"2031-02-03 04:05:06+07\", \"version\": 4}')");
    let right = db.text(&format!(
        "SELECT run_at = '2031-02-02 21:05:06Z' AND version = 4 AND scheduled FROM leasehold.jobs WHERE id = {id}"
    ));
    assert_eq!(right.as_deref(), Some("true"));
}

#[test]
fn an_unknown_option_is_refused_with_the_known_ones() {
    let mut db = migrated();
    let refused = refusal(
        &db,
        "leasehold.enqueue('k', '1', '{\"queue\": \"a\", \"prioritiy\": 1}')",
    );
    assert!(
        refused.starts_with("unknown option \"prioritiy\" (Options are queue, version, priority,"),
        "{refused}"
    );
    refusal(&db, "leasehold.enqueue('k', '1', '[1]')");
    assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 0);
}

#[test]
fn a_repeated_idempotency_key_gives_the_first_jobs_id_and_another_payload_is_a_conflict() {
    let mut db = migrated();
    let call = |payload: &str| format!("leasehold.enqueue('k', '{payload}', '{{\"idempotency_key\": \"order 7\"}}')");
    let first = db.integer(&format!("SELECT {}", call("1")));
    assert_eq!(db.integer(&format!("SELECT {}", call("1"))), first);
    let conflict = refusal(&db, &call("2"));
    assert!(
        conflict.contains(&format!("was used for job {first} with another kind or payload")),
        "{conflict}"
    );
    assert_eq!(
        db.text("SELECT idempotency_key FROM leasehold.jobs").as_deref(),
        Some("order 7")
    );

    // Once it has expired, it is free.
    db.set_time("leasehold.unique_keys", "expires_at", -1, "true");
    assert_ne!(db.integer(&format!("SELECT {}", call("2"))), first);
    assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 2);
}

#[test]
fn rust_and_sql_see_each_others_idempotency_keys() {
    let text = "'greet', '{\"name\":\"Ödön \\\"x\\\" \u{1f4ee}\",\"times\":3}', '{\"idempotency_key\": \"schlüssel\"}'";
    let (mut sql_first, mut rust_first) = (migrated(), migrated());
    let options = EnqueueOptions::new().idempotency_key("schlüssel");

    let id = sql_first.integer(&format!("SELECT leasehold.enqueue({text})"));
    assert_eq!(
        greet().enqueue_with(&mut sql_first.connect(), &options).unwrap(),
        Enqueued::Existing { id }
    );
    let other = Greet { times: 4, ..greet() };
    let conflict = other.enqueue_with(&mut sql_first.connect(), &options).unwrap_err();
    assert!(
        matches!(conflict, EnqueueError::KeyConflict { id: holder } if holder == id),
        "{conflict:?}"
    );

    let id = greet().enqueue_with(&mut rust_first.connect(), &options).unwrap().id();
    assert_eq!(rust_first.integer(&format!("SELECT leasehold.enqueue({text})")), id);
    assert_eq!(keys(&mut sql_first), keys(&mut rust_first));
    assert_eq!(keys(&mut sql_first).len(), 1);
}

#[test]
fn two_that_use_one_key_at_once_get_one_job() {
    let mut db = migrated();
    let call = "SELECT leasehold.enqueue('k', '1', '{\"idempotency_key\": \"a\"}')";
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let mut conn = db.connect();
            std::thread::spawn(move || conn.batch_execute(call))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
    assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 1);
}

#[test]
fn it_works_under_another_schema_name_and_any_search_path() {
    let mut db = database();
    let mut conn = db.connect();
    conn.batch_execute("SET search_path = nowhere").unwrap();
    let schema = Schema::named("order").unwrap();
    Migrations::in_schema(&schema).up(&mut conn).unwrap();
    conn.batch_execute("SELECT \"order\".enqueue('k', '1', '{\"idempotency_key\": \"a\"}')")
        .unwrap();
    conn.batch_execute("SELECT \"order\".enqueue('k', '1', '{\"idempotency_key\": \"a\"}')")
        .unwrap();
    assert_eq!(db.integer("SELECT count(*) FROM \"order\".jobs"), 1);
    assert_eq!(db.integer("SELECT count(*) FROM \"order\".unique_keys"), 1);
}

#[test]
fn a_payload_above_the_cap_is_refused() {
    let mut db = migrated();
    let just = leasehold::EnqueueOptions::MAX_PAYLOAD_BYTES - 2;
    db.sql(&format!("SELECT leasehold.enqueue('k', to_json(repeat('x', {just})))"));
    let refused = refusal(
        &db,
        &format!("leasehold.enqueue('k', to_json(repeat('x', {just} + 1)))"),
    );
    assert!(refused.contains("1048576"), "{refused}");
}
