//! Cron schedules: what they enqueue, and when.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use leasehold::schedule::{self, Missed, Schedule};
use leasehold::{EnqueueOptions, Job, JobError, OnConflict};

use crate::manage::run_queue;
use crate::schedules::{YEARLY, found, move_next, put, yearly};
use crate::support::*;
use crate::unique::{bill, run_bills};

/// Fires what is due; each schedule with its fire time in seconds and its job.
#[track_caller]
fn fire<C: Backend>(conn: &mut C) -> Vec<(std::string::String, u64, i64)> {
    let seconds = |at: SystemTime| at.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let fired = fire_schedules(conn, &default_schema()).unwrap();
    fired
        .into_iter()
        .map(|(name, at, job)| (name, seconds(at), job))
        .collect()
}

conformance!(
    fn a_due_schedule_enqueues_its_job_and_goes_on_to_the_next_time(db: &mut Db) {
        let mut conn = migrated(db);
        let options = EnqueueOptions::new()
            .queue("night")
            .priority(4)
            .max_attempts(7)
            .lease(Duration::from_secs(77));
        put(
            &mut conn,
            &Schedule::new("a: b", YEARLY).job_with(&note("said"), &options),
        );
        let ahead = conn.fires_ahead(&default_schema()).unwrap();
        assert!(!ahead.is_due && ahead.next_ms.is_some_and(|ms| ms > 0), "{ahead:?}");
        assert!(fire(&mut conn).is_empty());

        let after_this = found(&mut conn, "a: b").next_at;
        move_next(db, "a: b", -3_000);
        let moved = found(&mut conn, "a: b")
            .next_at
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap()
            .as_secs();
        assert!(conn.fires_ahead(&default_schema()).unwrap().is_due);
        let fired = fire(&mut conn);
        let [(name, at, job)] = &fired[..] else {
            panic!("{fired:?}")
        };
        assert_eq!((name.as_str(), *at), ("a: b", moved));
        let row = conn.job(&default_schema(), *job).unwrap().unwrap();
        assert_eq!(
            (row.kind.as_str(), row.queue.as_str(), row.priority, row.max_attempts),
            ("note", "night", 4, 7)
        );
        assert_eq!(
            (row.payload.as_str(), row.state.as_str()),
            (r#"{"text":"said"}"#, "ready")
        );
        assert_eq!(row.run_at_ms, i64::try_from(moved).unwrap() * 1000);
        assert_eq!(db.integer("SELECT lease_ms FROM leasehold.jobs"), 77_000);
        assert_eq!(
            db.integer("SELECT job_id FROM leasehold.fires WHERE schedule = 'a: b'"),
            *job
        );
        let now = found(&mut conn, "a: b");
        assert_eq!((now.next_at, now.revision), (after_this, 1));
        assert_eq!(
            now.last_at
                .unwrap()
                .duration_since(SystemTime::UNIX_EPOCH)
                .unwrap()
                .as_secs(),
            moved
        );
        assert!(fire(&mut conn).is_empty());

        let seen = RefCell::new(None);
        run_queue(&mut conn, "night", |_, lease| {
            *seen.borrow_mut() = Some((lease.fire_at(), lease.idempotency_key().to_owned()));
            lease.finish()
        });
        let (fire_at, key) = seen.into_inner().unwrap();
        assert_eq!(fire_at, Some(SystemTime::UNIX_EPOCH + Duration::from_secs(moved)));
        assert!(key.starts_with("schedule:a: b:20") && key.ends_with('Z'), "{key}");
    }
);

conformance!(
    fn a_job_that_no_schedule_enqueued_has_no_fire_time(db: &mut Db) {
        let mut conn = migrated(db);
        for key in [
            "schedule:",
            "schedule:a",
            "schedule:a:2025-13-30T01:00:00Z",
            "schedulé:ééééééééééé",
            "a:2025-03-30T01:00:00Z",
        ] {
            note(key)
                .enqueue_with(&mut conn, &EnqueueOptions::new().idempotency_key(key))
                .unwrap();
        }
        note("no key").enqueue(&mut conn).unwrap();
        let seen = RefCell::new(0);
        run(&mut conn, |_, lease| {
            assert_eq!(lease.fire_at(), None, "{}", lease.idempotency_key());
            *seen.borrow_mut() += 1;
            lease.finish()
        });
        assert_eq!(seen.into_inner(), 6);
    }
);

conformance!(
    fn missed_fire_times_are_skipped_run_once_or_run_all_up_to_a_bound(db: &mut Db) {
        let mut conn = migrated(db);
        for (name, missed) in [
            ("1 late skip", Missed::Skip),
            ("2 late once", Missed::RunOnce),
            ("3 late all", Missed::RunAll { at_most: 5 }),
        ] {
            put(&mut conn, &yearly(name).missed(missed));
            move_next(db, name, -120_000);
        }
        put(&mut conn, &yearly("4 now skip").missed(Missed::Skip));
        move_next(db, "4 now skip", -1_000);
        for (name, missed) in [
            ("5 many skip", Missed::Skip),
            ("6 many once", Missed::RunOnce),
            ("7 many some", Missed::RunAll { at_most: 7 }),
            ("8 many all", Missed::RunAll { at_most: 1000 }),
        ] {
            put(
                &mut conn,
                &Schedule::new(name, "* * * * * *").missed(missed).job(&note(name)),
            );
            move_next(db, name, -100_000);
        }
        let first = db.integer(match Db::BACKEND {
            "sqlite" => "SELECT next_at / 1000 FROM leasehold.schedules WHERE name = '8 many all'",
            _ => "SELECT floor(extract(epoch FROM next_at))::bigint FROM leasehold.schedules WHERE name = '8 many all'",
        });
        let fired = fire(&mut conn);
        let of = |name: &str| {
            fired
                .iter()
                .filter(|(fired, ..)| fired == name)
                .map(|(_, at, _)| *at)
                .collect::<Vec<_>>()
        };
        assert_eq!(of("1 late skip"), [0_u64; 0]);
        assert_eq!((of("2 late once").len(), of("3 late all").len()), (1, 1));
        assert_eq!(of("4 now skip").len(), 1);
        let all = of("8 many all");
        assert_eq!(all[0], u64::try_from(first).unwrap());
        assert!(
            all.len() >= 100 && all.windows(2).all(|two| two[1] == two[0] + 1),
            "{all:?}"
        );
        // The newest ones, without a hole.
        let some = of("7 many some");
        assert!(
            some.len() == 7 && some.windows(2).all(|two| two[1] == two[0] + 1),
            "{some:?}"
        );
        let late = conn.clock().unwrap().unsigned_abs() / 1000 - some[6];
        assert!(late < 60, "{late}");
        for name in ["5 many skip", "6 many once"] {
            assert_eq!(of(name).len(), 1, "{name}");
        }
        // Skipped ones are through with, too.
        let skipped = found(&mut conn, "1 late skip");
        assert!(
            skipped.next_at > SystemTime::now() && skipped.last_at.is_some(),
            "{skipped:?}"
        );
        assert_eq!(
            db.integer("SELECT count(*) FROM leasehold.fires"),
            i64::try_from(fired.len()).unwrap()
        );
    }
);

conformance!(
    fn the_next_fire_time_does_not_depend_on_the_fate_of_the_last_job(db: &mut Db) {
        let mut conn = migrated(db);
        put(&mut conn, &yearly("a"));
        let mut jobs = BTreeSet::new();
        for fate in ["ready", "running", "discarded", "failed", "gone"] {
            move_next(db, "a", -1_000 * i64::try_from(10 - jobs.len()).unwrap());
            let fired = fire(&mut conn);
            assert_eq!(fired.len(), 1, "after {jobs:?}");
            jobs.insert(fired[0].2);
            match fate {
                "running" => assert_eq!(claim_notes(&mut conn).len(), 2),
                "discarded" => assert_eq!(run(&mut conn, |_, _| Err(JobError::discard("no"))).discarded, 1),
                "failed" => assert_eq!(run(&mut conn, |_, _| Err(JobError::retry("no"))).retried, 1),
                _ => {}
            }
        }
        assert_eq!(jobs.len(), 5);
    }
);

conformance!(
    fn a_fire_time_is_fired_once_whatever_becomes_of_its_schedule(db: &mut Db) {
        let mut conn = migrated(db);
        put(&mut conn, &yearly("a"));
        move_next(db, "a", -4_000);
        assert_eq!(fire(&mut conn).len(), 1);
        // Somebody moves the time back, and somebody makes the schedule anew.
        db.sql("UPDATE leasehold.schedules SET next_at = last_at");
        assert!(fire(&mut conn).is_empty());
        assert!(found(&mut conn, "a").next_at > SystemTime::now());
        db.sql("UPDATE leasehold.schedules SET next_at = last_at");
        db.sql("CREATE TABLE kept AS SELECT next_at FROM leasehold.schedules");
        assert!(schedule::remove(&mut conn, &default_schema(), "a", "ops").unwrap());
        put(&mut conn, &yearly("a"));
        db.sql("UPDATE leasehold.schedules SET next_at = (SELECT next_at FROM kept)");
        assert!(fire(&mut conn).is_empty());
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 1);
        // And the table itself refuses a second record.
        let one = Fire {
            schedule: "a".to_owned(),
            fire_at_ms: 1_000,
        };
        conn.add_fires(&default_schema(), &[(one.clone(), 1)]).unwrap();
        assert!(conn.add_fires(&default_schema(), &[(one.clone(), 2)]).is_err());
        assert_eq!(
            conn.fired(
                &default_schema(),
                &[
                    one.clone(),
                    Fire {
                        fire_at_ms: 2_000,
                        ..one.clone()
                    }
                ]
            )
            .unwrap(),
            [one]
        );
    }
);

conformance!(
    fn a_schedule_goes_on_only_from_what_was_read(db: &mut Db) {
        let mut conn = migrated(db);
        put(&mut conn, &yearly("a"));
        let row = conn.schedule(&default_schema(), "a").unwrap().unwrap();
        let step = Advance {
            name: "a".to_owned(),
            revision: row.revision,
            was_at_ms: row.next_at_ms,
            next_at_ms: row.next_at_ms + 1_000,
            last_at_ms: None,
        };
        for other in [
            Advance {
                revision: step.revision + 1,
                ..step.clone()
            },
            Advance {
                was_at_ms: step.was_at_ms - 1_000,
                ..step.clone()
            },
            Advance {
                name: "b".to_owned(),
                ..step.clone()
            },
        ] {
            assert_eq!(
                conn.advance(&default_schema(), std::slice::from_ref(&other)).unwrap(),
                0,
                "{other:?}"
            );
        }
        assert_eq!(conn.advance(&default_schema(), std::slice::from_ref(&step)).unwrap(), 1);
        assert_eq!(
            conn.schedule(&default_schema(), "a").unwrap().unwrap().next_at_ms,
            step.next_at_ms
        );
    }
);

conformance!(
    fn what_a_newer_program_wrote_is_left_alone_and_stops_nobody(db: &mut Db) {
        let mut conn = migrated(db);
        for (name, change) in [
            ("b cron", "cron = 'H H * * *'"),
            ("b zone", "zone = 'Moon/Tycho'"),
            ("b missed", "missed = 'ask'"),
            ("b options", "options = '{\"colour\": 1}'"),
        ] {
            put(&mut conn, &yearly(name));
            db.sql(&format!(
                "UPDATE leasehold.schedules SET {change} WHERE name = '{name}'"
            ));
        }
        for name in ["a", "b", "c"] {
            put(&mut conn, &yearly(name));
        }
        db.set_time("leasehold.schedules", "next_at", -2_000, "1 = 1");
        let fired: Vec<_> = fire(&mut conn).into_iter().map(|(name, ..)| name).collect();
        assert_eq!(fired, ["a", "b", "c"]);
        // They are still due, for whoever can read them.
        assert!(conn.fires_ahead(&default_schema()).unwrap().is_due);
        assert!(fire(&mut conn).is_empty());
        assert_eq!(schedule::list(&mut conn, &default_schema()).unwrap().len(), 7);
        assert!(found(&mut conn, "b cron").upcoming(1).is_err());
    }
);

conformance!(
    fn a_unique_kind_has_one_job_for_all_fire_times_until_it_ends(db: &mut Db) {
        let mut conn = migrated(db);
        put(
            &mut conn,
            &Schedule::new("bills", "* * * * * *")
                .missed(Missed::RunAll { at_most: 3 })
                .job(&bill("May", 1)),
        );
        move_next(db, "bills", -10_000);
        let fired = fire(&mut conn);
        assert_eq!(fired.len(), 3);
        assert!(fired.iter().all(|(_, _, job)| *job == fired[0].2), "{fired:?}");
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 1);
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.fires"), 3);
    }
);

conformance!(
    fn what_a_conflict_does_is_kept_with_the_schedule_and_stops_no_fire(db: &mut Db) {
        let mut conn = migrated(db);
        for (name, action) in [("rejects", OnConflict::Reject), ("replaces", OnConflict::Replace)] {
            let options = EnqueueOptions::new()
                .on_conflict(action)
                .unique_within(Duration::from_secs(3600));
            let every_second = Schedule::new(name, "* * * * * *").missed(Missed::RunAll { at_most: 3 });
            put(&mut conn, &every_second.job_with(&bill(name, 1), &options));
            move_next(db, name, -10_000);
        }
        let fired = fire(&mut conn);
        assert_eq!(fired.len(), 6);
        let jobs: BTreeSet<i64> = fired.iter().map(|(_, _, job)| *job).collect();
        assert_eq!(jobs.len(), 2, "{fired:?}");
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 2);
        let states = db.texts("SELECT CAST(states AS text) FROM leasehold.unique_keys WHERE expires_at IS NOT NULL AND key LIKE 'unique:%' ORDER BY 1");
        assert_eq!(states, [Some("1".to_owned()), Some("7".to_owned())]);
    }
);

conformance!(
    fn a_fire_that_was_recorded_before_takes_no_unique_key_from_another(db: &mut Db) {
        let mut conn = migrated(db);
        for name in ["a", "b"] {
            put(&mut conn, &Schedule::new(name, YEARLY).job(&bill("May", 1)));
        }
        move_next(db, "a", -2_000);
        let first = fire(&mut conn)[0].2;
        run_bills(&mut conn, |lease| lease.finish());
        // The record of the fire is lost. What tells of it now is the idempotency key of its job, which has ended.
        db.sql("DELETE FROM leasehold.fires; UPDATE leasehold.schedules SET next_at = last_at WHERE name = 'a'");
        move_next(db, "b", -1_000);
        let fired = fire(&mut conn);
        let job = |name: &str| fired.iter().find(|(fired, ..)| fired == name).unwrap().2;
        assert_eq!(job("a"), first);
        assert_eq!(standing(db, job("b")), "ready generation=0 attempt=0");
    }
);

conformance!(
    fn a_unique_kind_that_rejects_others_does_not_stop_its_schedule(db: &mut Db) {
        let mut conn = migrated(db);
        let reject = EnqueueOptions::new().on_conflict(OnConflict::Reject);
        put(
            &mut conn,
            &Schedule::new("bills", YEARLY).job_with(&bill("May", 1), &reject),
        );
        put(&mut conn, &yearly("other"));
        let mut jobs = BTreeSet::new();
        for earlier in [9_000, 8_000, 7_000] {
            move_next(db, "bills", -earlier);
            move_next(db, "other", -earlier);
            let fired = fire(&mut conn);
            assert_eq!(fired.len(), 2, "{fired:?}");
            jobs.insert(fired[0].2);
            assert!(found(&mut conn, "bills").next_at > SystemTime::now());
        }
        assert_eq!(jobs.len(), 1);
    }
);

conformance!(
    fn a_key_that_somebody_has_used_stops_neither_its_schedule_nor_another(db: &mut Db) {
        let mut conn = migrated(db);
        put(
            &mut conn,
            &Schedule::new("a", "* * * * * *")
                .missed(Missed::RunAll { at_most: 3 })
                .job(&note("a")),
        );
        put(&mut conn, &yearly("b"));
        move_next(db, "a", -2_000);
        let fired = fire(&mut conn);
        let row = conn.job(&default_schema(), fired[0].2).unwrap().unwrap();
        // The record is lost, and the key is remembered for another payload.
        db.sql("DELETE FROM leasehold.fires");
        db.sql("UPDATE leasehold.unique_keys SET fingerprint = 'other'");
        db.sql("UPDATE leasehold.schedules SET next_at = last_at WHERE name = 'a'");
        move_next(db, "b", -2_000);
        let again = fire(&mut conn);
        assert!(again.iter().any(|(name, ..)| name == "b"), "{again:?}");
        assert!(
            again
                .iter()
                .any(|(name, _, job)| name == "a" && fired.iter().any(|(_, _, old)| old == job)),
            "{again:?}"
        );
        assert!(row.idempotency_key.starts_with("schedule:a:"));
        let keys = db.integer("SELECT count(DISTINCT idempotency_key) FROM leasehold.jobs");
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), keys);
    }
);

conformance!(
    fn old_records_of_fires_are_removed_in_bounded_batches(db: &mut Db) {
        let mut conn = migrated(db);
        let fires: Vec<(Fire, i64)> = (0..7)
            .map(|n| {
                (
                    Fire {
                        schedule: "a".to_owned(),
                        fire_at_ms: n * 1_000,
                    },
                    n,
                )
            })
            .collect();
        conn.add_fires(&default_schema(), &fires).unwrap();
        db.set_time("leasehold.fires", "fired_at", -100_000, "job_id < 5");
        let sweep = |conn: &mut Connection| conn.sweep_fires(&default_schema(), 50_000, 3).unwrap();
        assert_eq!((sweep(&mut conn), sweep(&mut conn), sweep(&mut conn)), (3, 2, 0));
        assert_eq!(db.integer("SELECT min(job_id) FROM leasehold.fires"), 5);
    }
);

conformance!(
    #[skip(sqlite, "SQLite has no row locks")]
    fn a_schedule_that_somebody_has_locked_is_passed_over(db: &mut Db) {
        let mut conn = migrated(db);
        for name in ["a", "b"] {
            put(&mut conn, &yearly(name));
            move_next(db, name, -1_000);
        }
        let mut other = open(db);
        other.begin_write().unwrap();
        let locked = other.due_schedules(&default_schema(), "", 1).unwrap();
        assert_eq!(locked[0].definition.name, "a");
        assert_eq!(fire(&mut conn).len(), 1);
        drop(other);
        leasehold_tests::eventually(leasehold_tests::jobs::SOON, "it is unlocked and fires", || {
            fire(&mut conn).len() == 1
        });
    }
);

conformance!(
    /// One transaction holds up the heartbeat no longer, and no statement is larger than the database takes.
    fn large_jobs_of_missed_fire_times_are_fired_a_few_at_a_time(db: &mut Db) {
        let mut conn = migrated(db);
        let large = note("x".repeat(1_000_000));
        let every_second = Schedule::new("large", "* * * * * *").job(&large);
        put(&mut conn, &every_second.missed(Missed::RunAll { at_most: 40 }));
        move_next(db, "large", -600_000);
        let first = fire(&mut conn);
        assert!((1..=16).contains(&first.len()), "{}", first.len());
        let (mut at, mut all): (Vec<u64>, _) = (first.iter().map(|fired| fired.1).collect(), first.len());
        while all < 40 {
            let more = fire(&mut conn);
            assert!((1..=16).contains(&more.len()), "{}", more.len());
            all += more.len();
            at.extend(more.iter().map(|fired| fired.1));
        }
        // The newest ones of the first look, without a hole.
        assert!(at.windows(2).all(|two| two[1] == two[0] + 1), "{at:?}");
        let last = found(&mut conn, "large").last_at.unwrap();
        let last = last.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        assert_eq!(at.last(), Some(&last));
    }
);
