use std::panic::catch_unwind;
use std::time::Duration;

use leasehold_tests::{TestDb, capture_log, conformance, eventually};

#[test]
fn eventually_returns_as_soon_as_the_condition_holds() {
    let mut looks = 0;
    eventually(Duration::from_secs(60), "the third look", || {
        looks += 1;
        looks == 3
    });
    assert_eq!(looks, 3);
}

#[test]
fn eventually_names_what_never_came() {
    let never = catch_unwind(|| eventually(Duration::from_millis(20), "the end of the world", || false));
    let message = *never.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("the end of the world"), "{message}");
    assert!(message.contains("20ms"), "{message}");
}

#[test]
fn log_records_are_kept_while_a_capture_lives() {
    let early = capture_log();
    log::info!("record 5417 of one");
    let late = capture_log();
    log::warn!("record 5417 of both");
    assert_eq!(early.with("record 5417").len(), 2);
    let [record] = &late.with("record 5417")[..] else {
        panic!("the late capture has one record");
    };
    assert_eq!(record.level, log::Level::Warn);
    assert_eq!(record.target, module_path!());
}

conformance!(
    fn times_are_set_from_now_in_milliseconds(db: &mut Db) {
        let (time, later) = match Db::BACKEND {
            "postgres" => ("timestamptz", "clock_timestamp() + interval '59 minutes'"),
            _ => ("integer", "(unixepoch() + 59 * 60) * 1000"),
        };
        db.sql(&format!("CREATE TABLE events (id integer, at {time})"));
        db.sql("INSERT INTO events VALUES (1, NULL), (2, NULL)");
        db.set_time("events", "at", 3_600_000, "id = 1");
        db.set_time("events", "at", -3_600_000, "id = 2");
        assert_eq!(db.integer(&format!("SELECT id FROM events WHERE at > {later}")), 1);
    }
);
