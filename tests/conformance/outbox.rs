//! Events: written with the caller's transaction, claimed in the order of their keys, marked under their fence.

use std::time::Duration;

use leasehold::__private::Fence;
use leasehold::outbox::{self, EmitError, Event};
use leasehold::{Backend, Job};
use uuid::Uuid;

use crate::support::*;

/// What a claim of a test asks for: everything, of keys `a` to `d`.
struct Wants {
    run: i64,
    unkeyed: i64,
    limit: i64,
    suspect: bool,
    halt: bool,
}

const ALL: Wants = Wants {
    run: 10,
    unkeyed: 10,
    limit: 100,
    suspect: false,
    halt: false,
};

#[track_caller]
fn emit<C: Backend>(conn: &mut C, key: Option<&str>, n: i64) -> Uuid {
    let event = Event::new("t", &n).max_attempts(3);
    let event = match key {
        Some(key) => event.key(key),
        None => event,
    };
    outbox::emit(conn, &default_schema(), &event).unwrap()
}

/// Claims as a relay does; the payloads with their keys, in the order of delivery, and the fences.
#[track_caller]
fn claim<C: Backend>(conn: &mut C, wants: &Wants) -> (Vec<String>, Vec<Fence>) {
    let keys = ["a", "b", "c", "d"].map(str::to_owned);
    let lease_token = Uuid::new_v4();
    let claim = EventClaim {
        topic: "t",
        keys: &keys,
        run: wants.run,
        unkeyed: wants.unkeyed,
        limit: wants.limit,
        suspect: wants.suspect,
        halt: wants.halt,
        lease_token,
        lease_ms: 60_000,
    };
    let mut rows = conn.claim_events(&default_schema(), &claim).unwrap();
    rows.sort_by_key(|row| row.id);
    let told = rows
        .iter()
        .map(|row| format!("{}{}", row.key.as_deref().unwrap_or_default(), row.payload));
    let fences = rows.iter().map(|row| Fence {
        id: row.id,
        generation: row.generation,
        lease_token,
    });
    (told.collect(), fences.collect())
}

fn failed(fence: Fence, delay_ms: Option<i64>) -> FailedEvent {
    FailedEvent {
        fence,
        delay_ms,
        error: "no answer".to_owned(),
    }
}

/// One line for each event.
fn standing<D: TestDb>(db: &mut D) -> Vec<String> {
    db.texts(
        "SELECT coalesce(key, '') || CAST(payload AS text) || ' ' || state || ' generation=' || generation || ' attempt=' || attempt \
         || CASE WHEN CAST(suspect AS integer) = 1 THEN ' suspect' ELSE '' END || coalesce(' ' || error, '') \
         FROM leasehold.outbox_events ORDER BY id",
    )
    .into_iter()
    .flatten()
    .collect()
}

conformance!(
    fn an_event_is_there_when_its_transaction_is_and_not_otherwise(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let rolled_back = conn.transaction(|tx| {
            emit(tx, None, 1);
            outbox::emit_all(tx, &schema, &[Event::new("t", &2), Event::new("t", &3)]).unwrap();
            Err::<(), _>(diesel::result::Error::RollbackTransaction)
        });
        assert!(rolled_back.is_err());
        assert_eq!(standing(db), Vec::<String>::new());
        conn.transaction(|tx| {
            emit(tx, Some("a"), 4);
            Ok::<_, diesel::result::Error>(())
        })
        .unwrap();
        emit(&mut conn, None, 5);
        assert_eq!(
            standing(db),
            ["a4 ready generation=0 attempt=0", "5 ready generation=0 attempt=0"]
        );
    }
);

conformance!(
    fn many_events_keep_their_order_and_are_all_there_or_none(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let events: Vec<Event> = (0..2500).map(|n| Event::new("t", &n)).collect();
        let ids = outbox::emit_all(&mut conn, &schema, &events).unwrap();
        let stored = db.texts("SELECT CAST(event_id AS text) FROM leasehold.outbox_events ORDER BY id");
        let told: Vec<_> = ids.iter().map(|id| Some(id.to_string())).collect();
        assert_eq!(stored, told);
        let numbers = db.texts("SELECT CAST(payload AS text) FROM leasehold.outbox_events ORDER BY id");
        assert!(numbers.iter().flatten().map(|n| n.parse::<i32>().unwrap()).eq(0..2500));

        // The last of three statements is refused.
        match Db::BACKEND {
            "sqlite" => db.sql(
                "CREATE TRIGGER refuse BEFORE INSERT ON leasehold_outbox_events WHEN NEW.topic = 'bad'
                 BEGIN SELECT RAISE(ABORT, 'refused'); END",
            ),
            _ => db.sql("ALTER TABLE leasehold.outbox_events ADD CONSTRAINT refused CHECK (topic <> 'bad')"),
        }
        let mut events: Vec<Event> = (0..2500).map(|n| Event::new("t", &n)).collect();
        events.push(Event::new("bad", &0));
        let refused = outbox::emit_all(&mut conn, &schema, &events);
        assert!(matches!(refused, Err(EmitError::Database(_))), "{refused:?}");
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.outbox_events"), 2500);
        assert!(outbox::emit_all(&mut conn, &schema, &[]).unwrap().is_empty());
    }
);

/// `Serialize` that fails.
struct Broken;

impl serde::Serialize for Broken {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("broken"))
    }
}

conformance!(
    fn what_cannot_be_stored_is_refused_before_the_database_sees_it(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        conn.transaction(|tx| {
            let mut refused = |event: Event| outbox::emit(tx, &schema, &event).unwrap_err();
            assert!(matches!(refused(Event::new("", &1)), EmitError::Topic(_)));
            assert!(matches!(refused(Event::new("a\nb", &1)), EmitError::Topic(_)));
            assert!(matches!(refused(Event::new("t", &1).key("\0")), EmitError::Key(_)));
            assert!(matches!(
                refused(Event::new("t", &1).key("x".repeat(256))),
                EmitError::Key(_)
            ));
            assert!(matches!(refused(Event::new("t", "a\0b")), EmitError::PayloadNul));
            let long = "x".repeat(1024 * 1024);
            assert!(matches!(
                refused(Event::new("t", &long)),
                EmitError::PayloadTooLarge { bytes: 1_048_578 }
            ));
            let deep = (0..101).fold(serde_json::json!(1), |inner, _| serde_json::json!([inner]));
            assert!(matches!(refused(Event::new("t", &deep)), EmitError::PayloadTooDeep));
            assert!(matches!(
                refused(Event::new("t", &1).max_attempts(0)),
                EmitError::MaxAttempts
            ));
            assert!(matches!(refused(Event::new("t", &Broken)), EmitError::Serialize(_)));
            // The transaction goes on.
            emit(tx, None, 1);
            Ok::<_, diesel::result::Error>(())
        })
        .unwrap();
        assert_eq!(standing(db).len(), 1);
        assert!(!format!("{:?}", Event::new("t", "s3cret")).contains("s3cret"));
    }
);

conformance!(
    fn a_claim_takes_the_first_events_of_each_key_and_nothing_behind_one_that_runs(db: &mut Db) {
        let mut conn = migrated(db);
        for (key, n) in [("a", 1), ("a", 2), ("b", 3), ("a", 4)] {
            emit(&mut conn, Some(key), n);
        }
        emit(&mut conn, None, 5);
        let two = Wants { run: 2, ..ALL };
        assert_eq!(claim(&mut conn, &two).0, ["a1", "a2", "b3", "5"]);
        // The next one of `a` is ready, and must wait for the two that run.
        assert_eq!(claim(&mut conn, &ALL).0, Vec::<String>::new());
        emit(&mut conn, Some("c"), 6);
        assert_eq!(claim(&mut conn, &ALL).0, ["c6"]);
    }
);

conformance!(
    fn a_small_claim_takes_of_many_keys_before_it_takes_many_of_one(db: &mut Db) {
        let mut conn = migrated(db);
        for (key, n) in [("a", 1), ("a", 2), ("a", 3), ("b", 4), ("b", 5), ("c", 6)] {
            emit(&mut conn, Some(key), n);
        }
        let four = Wants { limit: 4, ..ALL };
        assert_eq!(claim(&mut conn, &four).0, ["a1", "a2", "b4", "c6"]);
    }
);

conformance!(
    fn a_failed_event_holds_its_key_until_its_time_and_no_other(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        for (key, n) in [("a", 1), ("a", 2), ("b", 3)] {
            emit(&mut conn, Some(key), n);
        }
        let (_, fences) = claim(&mut conn, &Wants { run: 1, ..ALL });
        let failed = [failed(fences[0], Some(60_000)), failed(fences[1], Some(60_000))];
        assert_eq!(conn.fail_events(&schema, &failed).unwrap().len(), 2);
        emit(&mut conn, Some("c"), 4);
        assert_eq!(claim(&mut conn, &ALL).0, ["c4"]);
        db.set_time("leasehold.outbox_events", "run_at", -1, "key = 'a' AND attempt = 1");
        assert_eq!(claim(&mut conn, &ALL).0, ["a1", "a2"]);
        assert_eq!(
            standing(db),
            [
                "a1 running generation=2 attempt=2 no answer",
                "a2 running generation=1 attempt=1",
                "b3 ready generation=1 attempt=1 no answer",
                "c4 running generation=1 attempt=1",
            ]
        );
    }
);

conformance!(
    /// It came later than those behind it, which are in backoff: the run ends before the first that has to wait.
    fn a_run_ends_before_an_event_that_is_not_due(db: &mut Db) {
        let mut conn = migrated(db);
        for n in 1..=4 {
            emit(&mut conn, Some("a"), n);
        }
        db.set_time(
            "leasehold.outbox_events",
            "run_at",
            60_000,
            "id = (SELECT max(id) - 1 FROM leasehold.outbox_events)",
        );
        assert_eq!(claim(&mut conn, &ALL).0, ["a1", "a2"]);
    }
);

conformance!(
    fn every_mark_names_the_whole_fence(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        emit(&mut conn, Some("a"), 1);
        let (_, fences) = claim(&mut conn, &ALL);
        let running = standing(db);
        for wrong in near_misses(&fences[0]) {
            let one = [wrong];
            assert!(conn.delete_delivered(&schema, &one).unwrap().is_empty(), "{wrong:?}");
            assert!(conn.release_events(&schema, &one).unwrap().is_empty(), "{wrong:?}");
            assert!(conn.renew_events(&schema, &one, 1).unwrap().is_empty(), "{wrong:?}");
            for delay in [Some(0), None] {
                let failed = [failed(wrong, delay)];
                assert!(conn.fail_events(&schema, &failed).unwrap().is_empty(), "{wrong:?}");
            }
        }
        assert_eq!(standing(db), running);
        assert_eq!(conn.renew_events(&schema, &fences, 60_000).unwrap(), [fences[0].id]);
        assert_eq!(conn.release_events(&schema, &fences).unwrap(), [fences[0].id]);
        assert_eq!(standing(db), ["a1 ready generation=1 attempt=0"]);
        // What it holds no more it cannot mark, though nobody else has it.
        assert!(conn.delete_delivered(&schema, &fences).unwrap().is_empty());
        assert!(
            conn.fail_events(&schema, &[failed(fences[0], None)])
                .unwrap()
                .is_empty()
        );
        let (_, fences) = claim(&mut conn, &ALL);
        assert_eq!(conn.delete_delivered(&schema, &fences).unwrap(), [fences[0].id]);
        assert_eq!(standing(db), Vec::<String>::new());
    }
);

fn expire<D: TestDb>(db: &mut D) {
    db.set_time("leasehold.outbox_events", "lease_until", -1, "state = 'running'");
}

conformance!(
    fn a_sweep_takes_back_what_expired_and_fences_out_its_relay(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        for (key, n) in [("a", 1), ("a", 2), ("b", 3)] {
            emit(&mut conn, Some(key), n);
        }
        let (_, old) = claim(&mut conn, &ALL);
        assert!(conn.sweep_events(&schema, "t", 100).unwrap().is_empty());
        expire(db);
        assert!(conn.sweep_events(&schema, "other", 100).unwrap().is_empty());
        assert_eq!(conn.sweep_events(&schema, "t", 100).unwrap().len(), 3);
        // Any of them may be what ended the relay: each is claimed alone from now on, and has its attempt back.
        assert_eq!(
            standing(db),
            [
                "a1 ready generation=2 attempt=0 suspect",
                "a2 ready generation=2 attempt=0 suspect",
                "b3 ready generation=2 attempt=0 suspect",
            ]
        );
        assert!(conn.delete_delivered(&schema, &old).unwrap().is_empty());
        assert!(conn.renew_events(&schema, &old, 1).unwrap().is_empty());
        assert_eq!(claim(&mut conn, &ALL).0, Vec::<String>::new());
        let one = Wants {
            run: 1,
            limit: 1,
            unkeyed: 0,
            suspect: true,
            ..ALL
        };
        let (told, fences) = claim(&mut conn, &one);
        assert_eq!(told, ["a1"]);
        // The one that was claimed alone keeps count, and is dead in the end.
        for attempt in 1..=3 {
            expire(db);
            let swept = conn.sweep_events(&schema, "t", 100).unwrap();
            assert_eq!((swept.len(), swept[0].attempt), (1, attempt));
            assert_eq!(swept[0].state, if attempt < 3 { "ready" } else { "dead" });
            if attempt < 3 {
                assert_eq!(claim(&mut conn, &one).0, ["a1"]);
            }
        }
        assert!(conn.delete_delivered(&schema, &fences).unwrap().is_empty());
        assert_eq!(
            standing(db)[0],
            "a1 dead generation=8 attempt=3 the lease ran out during its delivery"
        );
        // It holds its key no longer, and a delivery that fails in order clears the suspicion.
        let (told, fences) = claim(&mut conn, &one);
        assert_eq!(told, ["a2"]);
        conn.fail_events(&schema, &[failed(fences[0], Some(0))]).unwrap();
        assert_eq!(claim(&mut conn, &ALL).0, ["a2"]);
    }
);

conformance!(
    fn dead_events_are_listed_redelivered_in_their_place_and_dropped(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let ids: Vec<Uuid> = (1..=3).map(|n| emit(&mut conn, Some("a"), n)).collect();
        let (_, fences) = claim(&mut conn, &Wants { run: 2, ..ALL });
        conn.fail_events(&schema, &[failed(fences[0], None), failed(fences[1], None)])
            .unwrap();
        let halting = Wants { halt: true, ..ALL };
        assert_eq!(claim(&mut conn, &halting).0, Vec::<String>::new());

        let dead = outbox::dead(&mut conn, &schema, Some("t"), 0, 1).unwrap();
        assert_eq!((dead.len(), dead[0].event_id), (1, ids[0]));
        let next = outbox::dead(&mut conn, &schema, None, dead[0].id, 10).unwrap();
        assert_eq!((next.len(), next[0].event_id), (1, ids[1]));
        assert_eq!(
            (next[0].error.as_str(), next[0].payload.as_str(), next[0].attempt),
            ("no answer", "2", 1)
        );
        assert!(
            outbox::dead(&mut conn, &schema, Some("other"), 0, 10)
                .unwrap()
                .is_empty()
        );

        // The third is not dead: neither touches it.
        assert_eq!(
            outbox::redeliver(&mut conn, &schema, &[ids[0], ids[2], Uuid::new_v4()]).unwrap(),
            1
        );
        assert_eq!(outbox::drop_dead(&mut conn, &schema, &[ids[1], ids[2]]).unwrap(), 1);
        assert_eq!(
            standing(db),
            [
                "a1 ready generation=2 attempt=0 no answer",
                "a3 ready generation=0 attempt=0",
            ]
        );
        assert_eq!(claim(&mut conn, &halting).0, ["a1", "a3"]);
        assert_eq!(outbox::redeliver(&mut conn, &schema, &ids).unwrap(), 0);
        assert_eq!(outbox::drop_dead(&mut conn, &schema, &ids).unwrap(), 0);
    }
);

conformance!(
    fn counts_tell_of_each_topic_what_waits_and_for_how_long(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        for key in ["a", "b", "c"] {
            emit(&mut conn, Some(key), 1);
            emit(&mut conn, Some(key), 2);
        }
        outbox::emit(&mut conn, &schema, &Event::new("other", &1)).unwrap();
        let (_, fences) = claim(&mut conn, &Wants { run: 1, ..ALL });
        conn.fail_events(&schema, &[failed(fences[0], Some(60_000)), failed(fences[1], None)])
            .unwrap();
        db.set_time(
            "leasehold.outbox_events",
            "created_at",
            -7_200_000,
            "key = 'b' AND state = 'ready'",
        );
        db.set_time("leasehold.outbox_events", "created_at", -9_000_000, "state = 'dead'");
        let counts = outbox::counts(&mut conn, &schema).unwrap();
        let told: Vec<_> = counts
            .iter()
            .map(|one| (one.topic.as_str(), one.ready, one.retrying, one.running, one.dead))
            .collect();
        assert_eq!(told, [("other", 1, 0, 0, 0), ("t", 3, 1, 1, 1)]);
        let oldest = counts[1].oldest.unwrap();
        assert!(
            oldest >= Duration::from_secs(7200) && oldest < Duration::from_secs(8000),
            "{oldest:?}"
        );
    }
);

conformance!(
    fn a_look_sees_the_first_event_of_each_key_and_what_keeps_it(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        for key in ["a", "b", "c", "d"] {
            emit(&mut conn, Some(key), 1);
            emit(&mut conn, Some(key), 2);
        }
        let (_, fences) = claim(
            &mut conn,
            &Wants {
                run: 1,
                limit: 3,
                ..ALL
            },
        );
        conn.fail_events(&schema, &[failed(fences[1], Some(60_000)), failed(fences[2], None)])
            .unwrap();
        let mut look = |halt| {
            let keys = conn.look_at_keys(&schema, "t", "", 10, halt).unwrap();
            let told = keys.into_iter().map(|key| match key.next_ms {
                None => format!("{} kept", key.key),
                Some(0) => format!("{} due", key.key),
                Some(ms) => format!("{} {}", key.key, if ms > 50_000 { "later" } else { "too soon" }),
            });
            told.collect::<Vec<_>>()
        };
        assert_eq!(look(false), ["a kept", "b later", "c due", "d due"]);
        assert_eq!(look(true), ["a kept", "b later", "c kept", "d due"]);
        assert_eq!(conn.look_at_keys(&schema, "t", "a", 2, false).unwrap().len(), 2);
        let topic = conn.look_at_topic(&schema, "t").unwrap();
        assert_eq!((topic.running, topic.next_ms, topic.suspect), (1, None, false));
        assert!(topic.lease_ms.is_some_and(|ms| ms > 30_000), "{topic:?}");
        emit(&mut conn, None, 3);
        assert_eq!(conn.look_at_topic(&schema, "t").unwrap().next_ms, Some(0));
        assert_eq!(conn.look_at_topic(&schema, "other").unwrap().running, 0);
    }
);

conformance!(
    fn an_event_is_part_of_the_commit_that_emits_it(db: &mut Db) {
        let mut conn = migrated(db);
        let (_, counts) = run_new(&mut conn, |_, lease| {
            lease.commit(|tx| {
                write(tx, 1)?;
                outbox::emit(tx, &default_schema(), &Event::new("t", &1))?;
                Ok(())
            })
        });
        assert_eq!(counts.completed, 1);
        assert_eq!((written(db), standing(db).len()), (vec![1], 1));
        run_new(&mut conn, |_, lease| {
            lease.commit(|tx| {
                outbox::emit(tx, &default_schema(), &Event::new("t", &2))?;
                Err(leasehold::JobError::discard("no"))
            })
        });
        assert_eq!(standing(db).len(), 1);
        note("once").enqueue(&mut conn).unwrap();
    }
);

conformance!(
    #[skip(sqlite, "SQLite has one writer, and no lock beside that")]
    fn one_relay_claims_from_a_topic_at_a_time(db: &mut Db) {
        let (mut one, mut other) = (migrated(db), open(db));
        let schema = default_schema();
        let tries = |conn: &mut Connection, topic: &str| {
            conn.transaction(|conn| conn.try_lock_topic(&default_schema(), topic))
                .unwrap()
        };
        let locked = one.transaction(|one| {
            assert!(one.try_lock_topic(&schema, "t")?);
            assert!(!tries(&mut other, "t"));
            assert!(tries(&mut other, "u"));
            Ok::<_, diesel::result::Error>(())
        });
        assert_eq!((locked, tries(&mut other, "t")), (Ok(()), true));
    }
);

conformance!(
    #[skip(sqlite, "SQLite has no row locks")]
    fn an_event_that_somebody_has_locked_keeps_those_behind_it(db: &mut Db) {
        let (mut conn, mut person) = (migrated(db), db.connect());
        for (key, n) in [("a", 1), ("a", 2), ("a", 3), ("b", 4)] {
            emit(&mut conn, Some(key), n);
        }
        for (id, expected) in [("min(id)", &["b4"][..]), ("min(id) + 1", &["a1"])] {
            person
                .transaction(|person| {
                    person.batch_execute(&format!(
                        "SELECT 1 FROM leasehold.outbox_events
                         WHERE id = (SELECT {id} FROM leasehold.outbox_events) FOR UPDATE"
                    ))?;
                    assert_eq!(claim(&mut conn, &ALL).0, expected);
                    Ok::<_, diesel::result::Error>(())
                })
                .unwrap();
        }
    }
);
