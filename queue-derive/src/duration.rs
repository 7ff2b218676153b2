//! Durations as they are written in options: `500ms`, `30s`, `5m`, `1h30m`, `2d`.

/// From the largest to the smallest, which is also the order in which they are written.
const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// One day, in milliseconds.
pub(crate) const DAY: u64 = UNITS[0].1;

/// The milliseconds that the text stands for, or what is wrong with it.
pub(crate) fn parse_millis(text: &str) -> Result<u64, String> {
    let malformed = || {
        format!(
            "{text:?} is not a duration: write numbers with their units, the largest first, \
             as in \"500ms\", \"30s\", \"5m\", \"1h30m\" or \"2d\""
        )
    };
    let too_long = || format!("{text:?} is too long a duration");

    if text.is_empty() {
        return Err(malformed());
    }
    // Shared by all the parts, so that no unit comes twice or before a larger one.
    let mut units = UNITS.iter();
    let mut total = 0_u64;
    let mut rest = text;
    while !rest.is_empty() {
        let (count, after) = split(rest, |c| !c.is_ascii_digit());
        let (unit, after) = split(after, |c| c.is_ascii_digit());
        if count.is_empty() {
            return Err(malformed());
        }
        let (_, millis) = units.find(|(name, _)| *name == unit).ok_or_else(malformed)?;
        let count: u64 = count.parse().map_err(|_| too_long())?;
        total = count
            .checked_mul(*millis)
            .and_then(|part| total.checked_add(part))
            .ok_or_else(too_long)?;
        rest = after;
    }
    Ok(total)
}

/// Splits before the first character that ends the part.
fn split(text: &str, ends: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(ends).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_and_their_sums_are_read() {
        for (text, millis) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("2d", 2 * DAY),
            ("1d2h3m4s5ms", 93_784_005),
            ("0s", 0),
            ("90m", 5_400_000),
            ("18446744073709551615ms", u64::MAX),
        ] {
            assert_eq!(parse_millis(text), Ok(millis), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_with_the_right_form() {
        for text in [
            "",
            " ",
            "30",
            "s",
            "5 minutes",
            "5min",
            "1h 30m",
            " 5m",
            "30m1h",
            "1h1h",
            "1ms1m",
            "-5s",
            "+5s",
            "1.5h",
            "5M",
            "٣s",
            "5µs",
            "1h30",
        ] {
            let message = parse_millis(text).expect_err(text);
            assert!(message.contains("is not a duration"), "{text}: {message}");
            assert!(message.contains("\"1h30m\""), "{text}: {message}");
        }
    }

    #[test]
    fn what_overflows_is_too_long() {
        for text in [
            "18446744073709551616ms",
            "213503982335d",
            "18446744073709551s616ms",
            "99999999999999999999999999d",
        ] {
            let message = parse_millis(text).expect_err(text);
            assert!(message.contains("too long"), "{text}: {message}");
        }
    }
}
