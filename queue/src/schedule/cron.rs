//! Reads a cron text. The derive's crate links to this file, so that a build refuses what a start would refuse.

use std::fmt;

use croner::parser::{CronParser, Seconds, Year};
use croner::{Cron, Weekday};

/// The longest text, in bytes: a list of every second is shorter.
pub(crate) const MAX_BYTES: usize = 256;

const NICKNAMES: [(&str, &str); 6] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];
const FIELDS: [&str; 6] = [
    "second",
    "minute",
    "hour",
    "day of the month",
    "month",
    "day of the week",
];
const MONTHS: [&str; 12] = [
    "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// Why a cron text is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CronError {
    /// Neither five fields, nor six.
    Fields {
        /// How many it has.
        found: usize,
    },
    /// Longer than 256 bytes.
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// A field that cannot be read.
    Field {
        /// Which field: `hour`.
        field: &'static str,
        /// What is written there.
        text: String,
    },
    /// An `@` with a name that is none of the known ones.
    Nickname,
    /// A range that is turned round, a step of zero and the like.
    Refused(String),
    /// No day of any year is meant by it, as in `0 0 30 2 *`.
    Never,
}

impl fmt::Display for CronError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fields { found } => write!(
                f,
                "it has {found} fields: write five (minute, hour, day, month, weekday), or six with seconds in front"
            ),
            Self::TooLong { bytes } => write!(f, "it has {bytes} bytes, more than {MAX_BYTES}"),
            Self::Field { field, text } => write!(f, "{text:?} is no {field}"),
            Self::Nickname => {
                let names: Vec<&str> = NICKNAMES.iter().map(|(name, _)| *name).collect();
                write!(f, "the names are {}", names.join(", "))
            }
            Self::Refused(why) => f.write_str(why),
            Self::Never => f.write_str("there is no such day in any year"),
        }
    }
}

impl std::error::Error for CronError {}

/// A cron text that was read.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    #[allow(dead_code, reason = "the derive only asks whether a text can be read")]
    pub(crate) cron: Cron,
    /// Whether second, minute and hour are all named, one by one: no `*`, step or range.
    #[allow(dead_code, reason = "as above")]
    pub(crate) is_named: bool,
}

/// Reads `text`: five fields, six with seconds, or a name like `@daily`.
pub(crate) fn parse(text: &str) -> Result<Pattern, CronError> {
    if text.len() > MAX_BYTES {
        return Err(CronError::TooLong { bytes: text.len() });
    }
    let text = match text.trim().strip_prefix('@') {
        Some(_) => nickname(text.trim())?,
        None => text,
    };
    let upper = text.to_ascii_uppercase();
    let mut fields: Vec<&str> = upper.split_ascii_whitespace().collect();
    match fields.len() {
        5 => fields.insert(0, "0"),
        6 => {}
        found => return Err(CronError::Fields { found }),
    }
    for (index, field) in fields.iter().enumerate() {
        if !is_field(index, field) {
            return Err(CronError::Field {
                field: FIELDS[index],
                text: (*field).to_owned(),
            });
        }
    }
    let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed);
    let cron = parser
        .build()
        .parse(&fields.join(" "))
        .map_err(|error| refused(&error))?;
    if !has_a_day(&cron) {
        return Err(CronError::Never);
    }
    let is_named = fields[..3].iter().all(|field| !field.contains(['*', '-', '/']));
    Ok(Pattern { cron, is_named })
}

fn nickname(name: &str) -> Result<&'static str, CronError> {
    let known = NICKNAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    known.map(|(_, fields)| *fields).ok_or(CronError::Nickname)
}

/// The crate beneath passes over empty elements of lists, which may leave a field without any value, and reads names of
/// days and months wherever they stand.
fn is_field(index: usize, field: &str) -> bool {
    let field = if index == 5 {
        field.strip_prefix('+').unwrap_or(field)
    } else {
        field
    };
    let is_number = |text: &str| !text.is_empty() && text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_weekday = |text: &str| is_number(text) || WEEKDAYS.contains(&text);
    let is_value = |text: &str| match index {
        3 => text == "?" || text == "L" || text == "LW" || text.strip_suffix('W').is_some_and(is_number),
        4 => MONTHS.contains(&text),
        5 => text == "?" || text == "L" || is_weekday(text.strip_suffix('L').unwrap_or(text)),
        _ => false,
    };
    let separators: &[char] = if index == 5 {
        &[',', '-', '/', '#']
    } else {
        &[',', '-', '/']
    };
    let is_right = |value: &str| value == "*" || is_number(value) || is_value(value);
    // A bare `L` as the weekday would stand for no day at all.
    field.split(separators).all(is_right) && !(index == 5 && field.split(',').any(|value| value == "L"))
}

fn refused(error: &croner::errors::CronError) -> CronError {
    let text = error.to_string();
    let why = text.rsplit_once(": ").map_or(text.as_str(), |(_, why)| why);
    CronError::Refused(why.trim_end_matches('.').to_owned())
}

/// Whether any day is meant. The calendar repeats after 400 years, so that is as far as one has to look.
fn has_a_day(cron: &Cron) -> bool {
    // The first day of the year 2000 was a Saturday.
    let mut weekday = Weekday::Saturday;
    for year in 2000..2400 {
        for month in 1..=12 {
            let days = croner::time::days_in_month(year, month);
            let is_meant = |day: u32| {
                let weekday = weekday.shift(i32::try_from(day - 1).unwrap_or_default());
                cron.pattern.day_match(year, month, day, weekday).unwrap_or_default()
            };
            if cron.pattern.month_match(month).unwrap_or_default() && (1..=days).any(is_meant) {
                return true;
            }
            weekday = weekday.shift(i32::try_from(days).unwrap_or_default());
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_meant_is_read() {
        for text in [
            "0 3 * * *",
            "  */5 * * * * ",
            "*/10 * * * * *",
            "0 0 1 jan mon-fri",
            "0 0 29 2 *",
            "0 0 29 2 +MON",
            "0 0 L * *",
            "0 0 LW * ?",
            "0 0 15W * *",
            "0 0 ? * FRI#L",
            "0 0 * * 5L",
            "0 0 * * MON#2,7",
            "0-30/10,45 8-17 * * 1-5",
            "@Daily",
            "59 59 23 31 12 *",
        ] {
            assert!(parse(text).is_ok(), "{text}: {:?}", parse(text).err());
        }
    }

    #[test]
    fn a_day_that_no_year_has_is_refused_at_once() {
        let begun = std::time::Instant::now();
        for text in [
            "0 0 30 2 *",
            "0 0 31 4,6,9,11 *",
            "* * * 31 2 *",
            "0 0 30 2 +MON",
            "0 0 31W 2 *",
            "0 0 1 1 +MON#5",
        ] {
            assert_eq!(parse(text).unwrap_err(), CronError::Never, "{text}");
        }
        assert!(
            begun.elapsed() < std::time::Duration::from_secs(30),
            "{:?}",
            begun.elapsed()
        );
    }

    #[test]
    fn what_means_nothing_is_refused_with_the_place() {
        let long = format!("{} * * * *", vec!["0"; 130].join(","));
        for (text, told) in [
            ("", "it has 0 fields"),
            ("* * * *", "it has 4 fields"),
            ("0 0 0 1 1 * 2030", "it has 7 fields"),
            ("60 * * * *", "out of bounds"),
            ("* 24 * * *", "out of bounds"),
            ("* * 0 * *", "out of bounds"),
            ("0-99999 * * * *", "\"0-99999\" is no minute"),
            ("0-9999 * * * *", "out of bounds"),
            ("5-1 * * * *", "out of bounds"),
            ("*/0 * * * *", "zero"),
            ("5/10 * * * *", "not allowed"),
            ("/10 * * * *", "\"/10\" is no minute"),
            ("1,,2 * * * *", "\"1,,2\" is no minute"),
            (", * * * *", "\",\" is no minute"),
            ("L * * * *", "\"L\" is no minute"),
            ("MON * * * *", "\"MON\" is no minute"),
            ("0 0 * JANFEB *", "\"JANFEB\" is no month"),
            ("0 0 * * L", "\"L\" is no day of the week"),
            ("0 0 * * 8", "out of bounds"),
            ("0 0 * * MON#6", "out of bounds"),
            ("0 0 * * ſun", "is no day of the week"),
            ("-1 * * * *", "\"-1\" is no minute"),
            ("* * * * * *\u{a0}", "is no day of the week"),
            ("@reboot", "the names are @yearly"),
            (&long, "more than 256"),
        ] {
            let error = parse(text).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(told), "{text:?}: {error}");
        }
    }

    #[test]
    fn times_are_named_or_make_an_interval() {
        for text in ["30 2 * * *", "0,30 2,14 1 1 *", "0 30 2 * * *", "@daily"] {
            assert!(parse(text).unwrap().is_named, "{text}");
        }
        for text in ["* 2 * * *", "0 */2 * * *", "0 1-3 * * *", "*/5 0 2 * * *", "@hourly"] {
            assert!(!parse(text).unwrap().is_named, "{text}");
        }
    }
}
