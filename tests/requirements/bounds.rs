//! What a statement reads does not grow with what it has nothing to do with: 100,000 rows each that are ready, scheduled,
//! blocked behind one key, of an unknown kind and of a newer version, both at the head of the order, and finished ones; events
//! behind one key that waits, and dead ones.
//!
//! The run by default has 100,000 completed rows; `LEASEHOLD_FULL_BOUNDS=1` makes it a million.

use leasehold::__private::*;
use leasehold::Schema;
use leasehold_tests::{TestDb, conformance};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::bounded::Bounded;

#[derive(Serialize, Deserialize, leasehold::Job)]
#[job(kind = "pair", concurrency(by = "tenant", max = 2))]
struct Pair {
    tenant: u64,
}

#[derive(Serialize, Deserialize, leasehold::Job)]
#[job(kind = "line", serial(by = "tenant"), rate(by = "tenant", max = 10, per = "1h"))]
struct Line {
    tenant: u64,
}

/// Fills the tables with SQL.
pub(crate) fn fill<Db: TestDb>(db: &mut Db) {
    let (now, later, yes, no) = match Db::BACKEND {
        "postgres" => ("now()", "now() + INTERVAL '1 day'", "true", "false"),
        _ => ("1", "253402300799000", "1", "0"),
    };
    let many =
        |count: u32| format!("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})");
    let mut jobs = |count, kind: &str, version, priority, run_at, scheduled, blocked_by: &str, limit_key: &str| {
        db.sql(&format!(
            "{} INSERT INTO leasehold.jobs (queue, kind, version, payload, priority, run_at, scheduled, blocked_by, limit_key,
                 created_at, max_attempts, lease_ms)
             SELECT 'default', '{kind}', {version}, '{{}}', {priority}, {run_at}, {scheduled}, {blocked_by}, {limit_key},
                 {now}, 5, 60000 FROM n",
            many(count)
        ));
    };
    jobs(100_000, "note", 1, 0, now, no, "NULL", "NULL");
    jobs(100_000, "note", 1, 0, later, yes, "NULL", "NULL");
    jobs(100_000, "unknown", 1, 100, now, no, "NULL", "NULL");
    jobs(100_000, "note", 2, 100, now, no, "NULL", "NULL");
    jobs(100_000, "pair", 1, 0, now, no, "'limit'", "'limit:one'");
    jobs(10_000, "line", 1, 0, now, no, "'limit'", "'limit:' || i");
    let full = std::env::var_os("LEASEHOLD_FULL_BOUNDS").is_some();
    for (count, state) in [
        (100_000, "discarded"),
        (if full { 1_000_000 } else { 100_000 }, "completed"),
    ] {
        let first = if state == "discarded" { 10_000_000 } else { 20_000_000 };
        db.sql(&format!(
            "{} INSERT INTO leasehold.finished_jobs (id, queue, kind, version, payload, state, priority, run_at, attempt,
                 max_attempts, generation, lease_ms, idempotency_key, created_at, finished_at)
             SELECT {first} + i, 'default', 'note', 1, '{{}}', '{state}', 0, {now}, 1, 5, 1, 60000, '{state}' || i, {now}, {now}
             FROM n",
            many(count)
        ));
    }
}

fn served(kind: &str) -> Served {
    Served {
        queue: "default".to_owned(),
        kind: kind.to_owned(),
        version: 1,
    }
}

conformance! {
    fn what_a_claim_reads_does_not_grow_with_what_it_does_not_take(db: &mut Db) {
        leasehold::migrate(&mut db.connect()).unwrap();
        let schema = Schema::default();
        // A plan made while the tables were empty must do for full ones.
        let mut early: Connection = Connect::connect(&db.url(), &ConnectionSettings::default()).unwrap();
        let serves = [served("note"), served("pair"), served("line")];
        let request = |oldest| ClaimRequest {
            serves: &serves,
            limit: 50,
            lease_token: Uuid::new_v4(),
            worker: Uuid::new_v4(),
            begun: true,
            counted: &[],
            oldest,
            behind: &[],
        };
        assert!(early.claim(&schema, &request(false)).unwrap().is_empty());
        let nowhere = SelectedRequest {
            chosen: Chosen::Ids(&[1, 2]), runs: &[], lease_token: Uuid::new_v4(), worker: Uuid::new_v4(), counted: &[],
        };
        assert_eq!(early.claim_selected(&schema, &nowhere).unwrap().len(), 2);
        fill(db);
        let late = Connect::connect(&db.url(), &ConnectionSettings::default()).unwrap();
        for (name, mut conn) in [("a plan of empty tables", early), ("a plan of full tables", late)] {
            for oldest in [false, true] {
                // Fifty rows, which are also written: their index entries, and each index's path to its leaves.
                conn.assert_bounded(&format!("{name}: claim, oldest: {oldest}"), 500, 3000, |conn| {
                    assert_eq!(conn.claim(&schema, &request(oldest)).unwrap().len(), 50);
                });
            }
            // Fifty that are claimed, fifty of a newer version, fifty that have ended and fifty that are nowhere.
            let first = db.integer("SELECT min(id) FROM leasehold.jobs WHERE kind = 'note' AND version = 1");
            let newer = db.integer("SELECT min(id) FROM leasehold.jobs WHERE kind = 'note' AND version = 2");
            let ids: Vec<i64> = [first, newer, 20_000_001, 90_000_000].iter().flat_map(|from| *from..*from + 50).collect();
            conn.assert_bounded(&format!("{name}: claim of chosen jobs"), 3000, 6000, |conn| {
                let runs = [RunsKind { kind: "note".to_owned(), version: 1 }];
                let request = SelectedRequest {
                    chosen: Chosen::Ids(&ids), runs: &runs, lease_token: Uuid::new_v4(), worker: Uuid::new_v4(), counted: &[],
                };
                let rows = conn.claim_selected(&schema, &request).unwrap();
                assert_eq!(rows.iter().filter(|row| matches!(row.found, SelectedAs::Claimed(_))).count(), 50);
            });
            conn.assert_bounded(&format!("{name}: promote"), 100, 200, |conn| {
                assert_eq!(conn.promote(&schema, &serves, 1000).unwrap(), 0);
            });
            conn.assert_bounded(&format!("{name}: sweep"), 200, 300, |conn| {
                assert!(conn.sweep(&schema, 500).unwrap().is_empty());
            });
            // The cold path counts up to a thousand of each.
            conn.assert_bounded(&format!("{name}: waiting"), 12_000, 12_000, |conn| {
                assert_eq!(conn.waiting(&schema, &serves, 1000).unwrap().ready, 1000);
            });
            conn.assert_bounded(&format!("{name}: blocked kinds"), 20, 100, |conn| {
                assert_eq!(conn.blocked_kinds(&schema, &["line", "note", "pair"]).unwrap(), ["line", "pair"]);
            });
            // One key with 100,000 rows; and of 10,000 keys as many as one look takes.
            conn.assert_bounded(&format!("{name}: room of one key"), 20, 100, |conn| {
                let rooms = conn.room(&schema, &limit_of::<Pair>(), Keys::After("", 256)).unwrap();
                assert_eq!((rooms.len(), rooms[0].room), (1, 2));
                assert_eq!(conn.admit(&schema, "pair", &rooms).unwrap(), 2);
            });
            conn.assert_bounded(&format!("{name}: room of many keys"), 2000, 8000, |conn| {
                assert_eq!(conn.room(&schema, &limit_of::<Line>(), Keys::After("", 256)).unwrap().len(), 256);
            });
            conn.assert_bounded(&format!("{name}: room of a key that was freed"), 20, 100, |conn| {
                let keys = ["limit:777".to_owned()];
                assert_eq!(conn.room(&schema, &limit_of::<Line>(), Keys::These(&keys)).unwrap().len(), 1);
            });
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Events {
    /// Behind one key, which waits for its next try; and one of another key.
    Waiting,
    Dead,
}

fn fill_outbox<Db: TestDb>(db: &mut Db, more: Events) {
    let (now, later, id) = match Db::BACKEND {
        "postgres" => ("now()", "now() + INTERVAL '1 day'", "pg_catalog.gen_random_uuid()"),
        _ => ("1", "253402300799000", "hex(randomblob(16))"),
    };
    let mut events = |count: u32, key: &str, state: &str, run_at: &str, dead_at: &str| {
        db.sql(&format!(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})
             INSERT INTO leasehold.outbox_events (event_id, topic, key, payload, max_attempts, state, run_at, created_at, dead_at)
             SELECT {id}, 't', {key}, '{{}}', 20, '{state}', {run_at}, {now}, {dead_at} FROM n"
        ));
    };
    match more {
        Events::Waiting => {
            events(100_000, "'waits'", "ready", later, "NULL");
            events(1, "'flows'", "ready", now, "NULL");
        }
        Events::Dead => events(100_000, "'dead' || i % 10", "dead", now, now),
    }
}

conformance! {
    fn what_a_relay_reads_does_not_grow_with_what_it_does_not_take(db: &mut Db) {
        leasehold::migrate(&mut db.connect()).unwrap();
        let schema = Schema::default();
        let keys = ["flows".to_owned(), "waits".to_owned()];
        let claim = |halt| EventClaim {
            topic: "t", keys: &keys, run: 20, unkeyed: 100, limit: 100, suspect: false, halt, lease_token: Uuid::new_v4(),
            lease_ms: 60_000,
        };
        let mut early: Connection = Connect::connect(&db.url(), &ConnectionSettings::default()).unwrap();
        assert!(early.claim_events(&schema, &claim(true)).unwrap().is_empty());
        assert!(early.look_at_keys(&schema, "t", "", 256, true).unwrap().is_empty());
        let mut late = Vec::new();
        for more in [Events::Waiting, Events::Dead] {
            fill_outbox(db, more);
            // By itself the database gets to know its rows a minute later.
            db.sql("ANALYZE");
            late.push((format!("{more:?}: a plan of full tables"), Connect::connect(&db.url(), &ConnectionSettings::default()).unwrap()));
            let early = (format!("{more:?}: a plan of empty tables"), &mut early);
            for (name, conn) in late.iter_mut().map(|(name, conn)| (name.clone(), conn)).chain([early]) {
                for halt in [false, true] {
                    conn.assert_bounded(&format!("{name}: claim of events, halt: {halt}"), 100, 400, |conn| {
                        assert_eq!(conn.claim_events(&schema, &claim(halt)).unwrap().len(), 1);
                    });
                    conn.assert_bounded(&format!("{name}: look at keys, halt: {halt}"), 100, 200, |conn| {
                        let looks = conn.look_at_keys(&schema, "t", "", 256, halt).unwrap();
                        assert_eq!(looks.iter().map(|look| look.next_ms == Some(0)).collect::<Vec<_>>(), [true, false]);
                    });
                }
                conn.assert_bounded(&format!("{name}: look at a topic"), 100, 200, |conn| {
                    assert_eq!(conn.look_at_topic(&schema, "t").unwrap().running, 0);
                });
                conn.assert_bounded(&format!("{name}: sweep of events"), 100, 200, |conn| {
                    assert!(conn.sweep_events(&schema, "t", 500).unwrap().is_empty());
                });
            }
        }
    }
}
