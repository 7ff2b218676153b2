//! Times as they are shown: UTC, in ISO 8601, and how far they are from now.

use std::time::{Duration, SystemTime};

use maud::{Markup, html};

/// Milliseconds since 1970, negative before.
pub(crate) fn millis(at: SystemTime) -> i64 {
    let clamp = |distance: Duration| i64::try_from(distance.as_millis()).unwrap_or(i64::MAX);
    match at.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => clamp(after),
        Err(before) => -clamp(before.duration()),
    }
}

/// `2026-12-01T08:15:30.250Z`.
pub(crate) fn iso(at: SystemTime) -> String {
    let millis = millis(at);
    let (days, rest) = (millis.div_euclid(86_400_000), millis.rem_euclid(86_400_000));
    let (year, month, day) = civil(days);
    let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
    let (second, milli) = (rest / 1000 % 60, rest % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

/// The date of a day since 1970, in the Gregorian calendar: by eras of 400 years that begin in March, so that the day which
/// not every year has comes last.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days.saturating_add(719_468);
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// `250 ms`, `3.2 s`, `5 min`, `2 h 10 min`, `12 d`.
pub(crate) fn span(length: Duration) -> String {
    let seconds = length.as_secs();
    match seconds {
        0 => format!("{} ms", length.as_millis()),
        1..=9 => format!("{:.1} s", length.as_secs_f64()),
        10..=99 => format!("{seconds} s"),
        100..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// How far a time is from now, in words.
pub(crate) fn distance(now: SystemTime, at: SystemTime) -> String {
    match now.duration_since(at) {
        Ok(ago) => format!("{} ago", span(ago)),
        Err(ahead) => format!("in {}", span(ahead.duration())),
    }
}

/// A time to read, with how far it is from now.
pub(crate) fn show(now: SystemTime, at: SystemTime) -> Markup {
    let text = iso(at);
    html! { time datetime=(text) title=(text) { (seconds(&text)) " " small { (distance(now, at)) } } }
}

/// As [`show`], where there may be none.
pub(crate) fn show_some(now: SystemTime, at: Option<SystemTime>) -> Markup {
    html! { @match at { Some(at) => (show(now, at)), None => "–" } }
}

fn seconds(iso: &str) -> String {
    format!("{}Z", iso.split('.').next().unwrap_or(iso))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> SystemTime {
        let distance = Duration::from_secs(seconds.unsigned_abs());
        match seconds >= 0 {
            true => SystemTime::UNIX_EPOCH + distance,
            false => SystemTime::UNIX_EPOCH - distance,
        }
    }

    #[test]
    fn times_are_shown_in_utc() {
        assert_eq!(iso(at(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(iso(at(951_782_399)), "2000-02-28T23:59:59.000Z");
        assert_eq!(iso(at(951_782_400)), "2000-02-29T00:00:00.000Z");
        assert_eq!(iso(at(4_107_542_400)), "2100-03-01T00:00:00.000Z");
        assert_eq!(iso(at(-1)), "1969-12-31T23:59:59.000Z");
    }

    #[test]
    fn a_distance_is_said_in_words() {
        let now = at(1_000_000);
        assert_eq!(distance(now, at(999_700)), "5 min ago");
        assert_eq!(distance(now, at(1_007_800)), "in 2 h 10 min");
        assert_eq!(span(Duration::from_millis(3200)), "3.2 s");
    }
}
