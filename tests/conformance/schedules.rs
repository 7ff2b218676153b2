//! Cron schedules: how they are kept and changed.

use std::time::{Duration, SystemTime};

use leasehold::EnqueueOptions;
use leasehold::schedule::{self, DefinedBy, Missed, Schedule, ScheduleError};

use crate::support::*;

pub(crate) const YEARLY: &str = "0 0 1 1 *";

/// A schedule of notes that is not due.
pub(crate) fn yearly(name: &str) -> Schedule {
    Schedule::new(name, YEARLY).job(&note(name))
}

#[track_caller]
pub(crate) fn put<C: Backend>(conn: &mut C, schedule: &Schedule) -> i64 {
    schedule::put(conn, &default_schema(), schedule).unwrap()
}

#[track_caller]
pub(crate) fn found<C: Backend>(conn: &mut C, name: &str) -> schedule::ScheduleRecord {
    schedule::find(conn, &default_schema(), name).unwrap().unwrap()
}

/// Moves the next fire time of a schedule, in milliseconds from now.
pub(crate) fn move_next<D: TestDb>(db: &mut D, name: &str, milliseconds: i64) {
    db.set_time(
        "leasehold.schedules",
        "next_at",
        milliseconds,
        &format!("name = '{name}'"),
    );
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

conformance!(
    fn a_schedule_is_put_found_and_listed_with_its_next_fire_times(db: &mut Db) {
        let mut conn = migrated(db);
        let options = EnqueueOptions::new().queue("night").priority(-7).max_attempts(3);
        let hourly = Schedule::new("hourly", "30 * * * *")
            .zone("Asia/Kathmandu")
            .missed(Missed::RunAll { at_most: 10 })
            .job_with(&note("said"), &options);
        assert_eq!(put(&mut conn, &hourly), 1);
        put(&mut conn, &yearly("a year"));

        let all = schedule::list(&mut conn, &default_schema()).unwrap();
        let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["a year", "hourly"]);
        let one = found(&mut conn, "hourly");
        assert_eq!(
            (one.cron.as_str(), one.zone.as_str(), one.missed.as_str()),
            ("30 * * * *", "Asia/Kathmandu", "run all(10)")
        );
        assert_eq!(
            (one.kind.as_str(), one.version, one.queue.as_str()),
            ("note", 1, "night")
        );
        assert_eq!(
            (one.payload.as_str(), one.priority, one.max_attempts),
            (r#"{"text":"said"}"#, -7, 3)
        );
        assert_eq!(
            (one.paused, one.defined_by, one.revision, one.last_at),
            (false, DefinedBy::Call, 1, None)
        );
        // Kathmandu is 5:45 ahead of UTC.
        let upcoming = one.upcoming(3).unwrap();
        assert_eq!(upcoming[0], one.next_at);
        assert!(upcoming.iter().all(|at| seconds(*at) % 3600 == 45 * 60), "{upcoming:?}");
        assert_eq!(upcoming[2], one.next_at + Duration::from_secs(7200));
        let ahead = one.next_at.duration_since(SystemTime::now());
        assert!(ahead.is_ok_and(|ahead| ahead <= Duration::from_secs(3600)), "{one:?}");
        assert!(!format!("{one:?}").contains("said"), "{one:?}");
        assert!(schedule::find(&mut conn, &default_schema(), "none").unwrap().is_none());
    }
);

conformance!(
    fn a_mistake_in_a_schedule_is_a_typed_error_and_nothing_is_written(db: &mut Db) {
        let mut conn = migrated(db);
        let job = note("x");
        let schema = default_schema();
        let mut refused = |schedule: Schedule| schedule::put(&mut conn, &schema, &schedule).unwrap_err();
        assert!(matches!(
            refused(Schedule::new("", YEARLY).job(&job)),
            ScheduleError::Name(_)
        ));
        for cron in ["0 0 30 2 *", "61 * * * *", "* * *", &"*".repeat(300)] {
            let error = refused(Schedule::new("a", cron).job(&job));
            assert!(
                matches!(&error, ScheduleError::Cron { text, .. } if text == cron),
                "{error:?}"
            );
        }
        let never = refused(Schedule::new("a", "0 0 30 2 *").job(&job));
        assert_eq!(
            never.to_string(),
            "the cron text \"0 0 30 2 *\": there is no such day in any year"
        );
        assert!(
            matches!(refused(yearly("a").zone("Europe/Bielefeld")), ScheduleError::Zone { zone } if zone == "Europe/Bielefeld")
        );
        for at_most in [0, 1001] {
            assert!(matches!(
                refused(yearly("a").missed(Missed::RunAll { at_most })),
                ScheduleError::Missed { .. }
            ));
        }
        assert!(matches!(
            refused(Schedule::new("a", YEARLY)),
            ScheduleError::NoJob { .. }
        ));
        let nul = refused(Schedule::new("a", YEARLY).job(&note("\0")));
        assert!(matches!(&nul, ScheduleError::Enqueue { .. }), "{nul:?}");
        for options in [
            EnqueueOptions::new().delay(Duration::from_secs(1)),
            EnqueueOptions::new().run_at(SystemTime::now()),
            EnqueueOptions::new().idempotency_key("mine"),
        ] {
            let error = refused(Schedule::new("a", YEARLY).job_with(&job, &options));
            assert!(matches!(error, ScheduleError::Options { .. }), "{error:?}");
        }
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.schedules"), 0);
    }
);

conformance!(
    fn a_put_replaces_a_schedule_and_computes_its_time_anew_only_if_that_changed(db: &mut Db) {
        let mut conn = migrated(db);
        put(&mut conn, &yearly("a"));
        move_next(db, "a", 5_000_000);
        let moved = found(&mut conn, "a").next_at;
        assert_eq!(put(&mut conn, &Schedule::new("a", YEARLY).job(&note("other"))), 2);
        let same_time = found(&mut conn, "a");
        assert_eq!(
            (same_time.next_at, same_time.payload.as_str()),
            (moved, r#"{"text":"other"}"#)
        );
        assert_eq!(
            put(
                &mut conn,
                &Schedule::new("a", YEARLY).zone("Asia/Tokyo").job(&note("other"))
            ),
            3
        );
        let tokyo = found(&mut conn, "a").next_at;
        assert_eq!(seconds(tokyo) % 86_400, 15 * 3600);
        assert_eq!(
            put(
                &mut conn,
                &Schedule::new("a", "0 12 1 1 *").zone("Asia/Tokyo").job(&note("other"))
            ),
            4
        );
        assert_eq!(found(&mut conn, "a").next_at, tokyo + Duration::from_secs(12 * 3600));
    }
);

conformance!(
    fn a_change_of_another_revision_is_a_typed_conflict(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let revision = put(&mut conn, &yearly("a"));
        let often = Schedule::new("a", "*/5 * * * *").job(&note("a"));
        let changed = schedule::change(&mut conn, &schema, &often, revision).unwrap();
        assert_eq!(
            (changed, found(&mut conn, "a").cron.as_str()),
            (revision + 1, "*/5 * * * *")
        );

        let conflict = schedule::change(&mut conn, &schema, &yearly("a"), revision).unwrap_err();
        assert!(
            matches!(conflict, ScheduleError::Conflict { revision: Some(now), .. } if now == changed),
            "{conflict:?}"
        );
        assert_eq!(found(&mut conn, "a").cron, "*/5 * * * *");
        // The statement itself is fenced, too: two may have read the same revision.
        let definition = conn.schedule(&schema, "a").unwrap().unwrap().definition;
        assert_eq!(
            conn.replace_schedule(&schema, &definition, "code", revision, None)
                .unwrap(),
            0
        );
        assert_eq!(conn.pause_schedule(&schema, "a", revision, true, 0).unwrap(), 0);

        assert!(schedule::remove(&mut conn, &schema, "a", "ops").unwrap());
        let gone = schedule::change(&mut conn, &schema, &often, changed).unwrap_err();
        assert!(
            matches!(gone, ScheduleError::Conflict { revision: None, .. }),
            "{gone:?}"
        );
        assert!(!schedule::remove(&mut conn, &schema, "a", "ops").unwrap());
    }
);

conformance!(
    fn a_paused_schedule_fires_nothing_and_makes_nothing_up(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        put(&mut conn, &yearly("a").missed(Missed::RunAll { at_most: 10 }));
        assert!(schedule::pause(&mut conn, &schema, "a", "ops").unwrap());
        assert!(schedule::pause(&mut conn, &schema, "a", "ops").unwrap());
        assert_eq!(
            (found(&mut conn, "a").paused, found(&mut conn, "a").revision),
            (true, 2)
        );
        move_next(db, "a", -5_000);
        assert!(fire_schedules(&mut conn, &schema).unwrap().is_empty());
        assert!(!conn.fires_ahead(&schema).unwrap().is_due);
        // What is put meanwhile stays paused.
        put(&mut conn, &yearly("a").zone("Asia/Tokyo"));
        assert!(found(&mut conn, "a").paused);
        move_next(db, "a", -5_000);

        assert!(schedule::resume(&mut conn, &schema, "a", "ops").unwrap());
        let resumed = found(&mut conn, "a");
        assert!(!resumed.paused && resumed.next_at > SystemTime::now(), "{resumed:?}");
        assert!(fire_schedules(&mut conn, &schema).unwrap().is_empty());
        assert!(!schedule::pause(&mut conn, &schema, "none", "ops").unwrap());
        assert!(!schedule::resume(&mut conn, &schema, "none", "ops").unwrap());
    }
);

conformance!(
    fn two_schemas_have_schedules_of_their_own(db: &mut Db) {
        let mut conn = migrated(db);
        let other = leasehold::Schema::named("other").unwrap();
        leasehold::migrate::Migrations::in_schema(&other).up(&mut conn).unwrap();
        schedule::put(&mut conn, &other, &yearly("a")).unwrap();
        assert!(schedule::list(&mut conn, &default_schema()).unwrap().is_empty());
        let earlier = conn.clock().unwrap() - 1000;
        let row = conn.schedule(&other, "a").unwrap().unwrap();
        assert_eq!(
            conn.replace_schedule(&other, &row.definition, "code", row.revision, Some(earlier))
                .unwrap(),
            1
        );
        assert_eq!(fire_schedules(&mut conn, &other).unwrap().len(), 1);
        assert!(conn.open_jobs(&default_schema(), "note").unwrap().is_empty());
        assert_eq!(conn.open_jobs(&other, "note").unwrap().len(), 1);
    }
);
