use chrono::{NaiveDate, TimeZone, Utc};
use chrono_tz::Tz;

use super::Times;

const DAY_MS: i64 = 24 * 3600 * 1000;

fn times(cron: &str, zone: &str) -> Times {
    Times::new(cron, zone).unwrap()
}

fn utc(text: &str) -> i64 {
    let naive = chrono::NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M").unwrap();
    Utc.from_utc_datetime(&naive).timestamp_millis()
}

/// The fire times after one instant and before another, in UTC: both ways, which must agree.
#[track_caller]
fn fires(cron: &str, zone: &str, from: &str, to: &str) -> Vec<String> {
    let (times, from, to) = (times(cron, zone), utc(from), utc(to));
    let shown = |ms: &i64| Utc.timestamp_millis_opt(*ms).unwrap().format("%d %H:%M").to_string();
    let ahead: Vec<i64> = std::iter::successors(times.after(from), |ms| times.after(*ms))
        .take_while(|ms| *ms < to)
        .collect();
    let mut back: Vec<i64> = std::iter::successors(times.until(to - 1), |ms| times.until(*ms - 1))
        .take_while(|ms| *ms > from)
        .collect();
    back.reverse();
    assert_eq!(ahead, back, "{cron} in {zone}");
    ahead.iter().map(shown).collect()
}

/// On 30 March 2025 the clocks of Berlin went from 2:00 to 3:00, at 1:00 UTC.
#[test]
fn a_named_time_in_a_gap_comes_once_when_the_clock_goes_on() {
    for cron in [
        "30 2 * * *",
        "0 2 * * *",
        "59 59 2 * * *",
        "0,30 2 * * *",
        "0 2,3 * * *",
    ] {
        assert_eq!(
            fires(cron, "Europe/Berlin", "2025-03-30 00:00", "2025-03-30 02:00"),
            ["30 01:00"],
            "{cron}"
        );
    }
    // The days beside it, and the year after.
    assert_eq!(
        fires("30 2 * * *", "Europe/Berlin", "2025-03-29 00:00", "2025-04-01 00:00"),
        ["29 01:30", "30 01:00", "31 00:30"]
    );
    assert_eq!(
        fires("30 2 * * *", "America/New_York", "2025-03-09 00:00", "2025-03-10 00:00"),
        ["09 07:00"]
    );
    // A whole day was left out.
    assert_eq!(
        fires("0 12 * * *", "Pacific/Apia", "2011-12-29 12:00", "2011-12-31 12:00"),
        ["29 22:00", "30 10:00", "30 22:00"]
    );
}

/// On 26 October 2025 the clocks of Berlin went from 3:00 back to 2:00, at 1:00 UTC.
#[test]
fn a_named_time_in_a_fold_comes_once_the_first_time() {
    for (cron, at) in [
        ("30 2 * * *", "26 00:30"),
        ("0 2 * * *", "26 00:00"),
        ("59 2 * * *", "26 00:59"),
    ] {
        assert_eq!(
            fires(cron, "Europe/Berlin", "2025-10-25 12:00", "2025-10-26 12:00"),
            [at],
            "{cron}"
        );
    }
    assert_eq!(
        fires(
            "15,45 1,14 * * *",
            "America/New_York",
            "2025-11-02 04:00",
            "2025-11-03 04:00"
        ),
        ["02 05:15", "02 05:45", "02 19:15", "02 19:45"]
    );
    // From an instant inside of the second hour.
    assert_eq!(
        fires("30 1 * * *", "America/New_York", "2025-11-02 06:10", "2025-11-03 12:00"),
        ["03 06:30"]
    );
}

#[test]
fn an_interval_goes_by_what_the_clock_shows() {
    assert_eq!(
        fires("30 * * * *", "Europe/Berlin", "2025-03-29 23:00", "2025-03-30 03:00"),
        ["29 23:30", "30 00:30", "30 01:30", "30 02:30"]
    );
    assert_eq!(
        fires("*/30 2 * * *", "Europe/Berlin", "2025-03-29 12:00", "2025-03-30 12:00"),
        [""; 0]
    );
    assert_eq!(
        fires("*/30 2 * * *", "Europe/Berlin", "2025-10-25 12:00", "2025-10-26 12:00"),
        ["26 00:00", "26 00:30", "26 01:00", "26 01:30"]
    );
    assert_eq!(
        fires(
            "0 1-2 * * *",
            "America/New_York",
            "2025-11-02 00:00",
            "2025-11-03 00:00"
        ),
        ["02 05:00", "02 06:00", "02 07:00"]
    );
}

/// An interval is what a clock on the wall would do that looks at each minute.
#[test]
fn an_interval_comes_at_every_minute_that_the_clock_shows_and_no_other() {
    for zone in [
        "Europe/Berlin",
        "America/New_York",
        "Australia/Lord_Howe",
        "Africa/Casablanca",
        "UTC",
    ] {
        for (cron, matches) in [
            ("*/7 * * * *", (|h, m| m % 7 == 0 && h < 24) as fn(u32, u32) -> bool),
            ("10-20 1-3 * * *", |h, m| (10..=20).contains(&m) && (1..=3).contains(&h)),
            ("5 */2 * * *", |h, m| m == 5 && h % 2 == 0),
        ] {
            for (year, month, day) in [
                (2025, 3, 30),
                (2025, 10, 26),
                (2025, 3, 9),
                (2025, 11, 2),
                (2025, 4, 6),
                (2025, 10, 5),
                (2025, 2, 23),
                (2025, 4, 6),
            ] {
                compare_with_a_clock(zone, cron, matches, NaiveDate::from_ymd_opt(year, month, day).unwrap());
            }
        }
    }
}

#[track_caller]
fn compare_with_a_clock(zone: &str, cron: &str, matches: fn(u32, u32) -> bool, day: NaiveDate) {
    use chrono::Timelike;
    let tz: Tz = zone.parse().unwrap();
    let from = day.and_hms_opt(0, 0, 0).unwrap().and_utc().timestamp_millis() - DAY_MS;
    let to = from + 3 * DAY_MS;
    let seen: Vec<i64> = (1..)
        .map(|minute| from + minute * 60_000)
        .take_while(|ms| *ms < to)
        .filter(|ms| {
            let local = Utc.timestamp_millis_opt(*ms).unwrap().with_timezone(&tz);
            matches(local.hour(), local.minute())
        })
        .collect();
    let times = times(cron, zone);
    let ahead: Vec<i64> = std::iter::successors(times.after(from), |ms| times.after(*ms))
        .take_while(|ms| *ms < to)
        .collect();
    assert_eq!(ahead, seen, "{cron} in {zone} around {day}");
    let mut back: Vec<i64> = std::iter::successors(times.until(to - 1), |ms| times.until(*ms - 1))
        .take_while(|ms| *ms > from)
        .collect();
    back.reverse();
    assert_eq!(back, seen, "{cron} in {zone} around {day}, backwards");
}

#[test]
fn an_instant_between_two_seconds_belongs_to_the_earlier() {
    let every = times("* * * * * *", "UTC");
    assert_eq!(every.after(1_500), Some(2_000));
    assert_eq!(every.after(1_000), Some(2_000));
    assert_eq!(every.until(1_999), Some(1_000));
    assert_eq!(every.until(1_000), Some(1_000));
    let named = times("0 0 * * *", "UTC");
    assert_eq!(
        (named.until(DAY_MS), named.after(DAY_MS - 1)),
        (Some(DAY_MS), Some(DAY_MS))
    );
    assert_eq!(
        times("0 0 29 2 *", "UTC").after(utc("2096-03-01 00:00")),
        Some(utc("2104-02-29 00:00"))
    );
}

#[test]
fn there_are_no_fire_times_beyond_the_calendar() {
    for cron in ["0 0 29 2 MON", "*/5 * * * *"] {
        let times = times(cron, "Australia/Lord_Howe");
        for ms in [i64::MIN, i64::MAX, 8_210_266_876_799_000, -8_334_601_228_800_000] {
            assert_eq!((times.until(ms), times.after(ms)), (None, None), "{cron} at {ms}");
        }
        let far = utc("4900-01-01 00:00");
        assert!(times.until(far).is_some_and(|at| at <= far) && times.after(far).is_some_and(|at| at > far));
    }
}
