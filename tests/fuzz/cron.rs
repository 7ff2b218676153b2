//! Cron texts, zones and what becomes of missed times.

use leasehold::__private::fire_times;
use leasehold::schedule::Missed;
use proptest::prelude::*;

use crate::{fuzz, text_of};

const PIECES: &[&str] = &[
    "*", "?", "/", "-", ",", "#", "+", "L", "W", "LW", "15W", "5L", "MON", "mon", "SUN", "JAN", "dec", "2#5", "5#L",
    "0", "7", "59", "60", "23", "24", "31", "32", "29", "30", "1-5", "*/5", "*/0", "5-1", "1-59/7", "0/15", "00", " ",
    "\t", "\u{a0}", "-1",
];

const WHOLE: &[&str] = &[
    "@daily",
    "@HOURLY",
    "@reboot",
    "@",
    "0 0 30 2 *",
    "0 0 29 2 MON",
    "0 0 29 2 *",
    "0 0 31 2,4,6,9,11 *",
    "* * * * * *",
    "59 59 23 31 12 7",
    "0 0 L 2 FRI#5",
    "0 0 LW * *",
    "30 2 * * *",
    "*/7 1-3 * * SUN#L",
    "0 0 1 1 *",
    "0 0 5W 2 *",
];

const ZONES: &[&str] = &[
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Africa/Casablanca",
    "Asia/Kathmandu",
    "Antarctica/Troll",
    "America/Sao_Paulo",
    "Etc/GMT+12",
    "Pacific/Kiritimati",
    "Africa/Monrovia",
];

/// The ends of numbers and of calendars, and clock changes of some zones.
const TIMES: &[i64] = &[
    i64::MIN,
    i64::MAX,
    -1,
    0,
    1,
    253_402_300_799_999,
    -62_135_596_800_001,
    8_210_266_876_799_000,
    8_210_266_876_799_999,
    -8_334_601_228_800_000,
    1_743_296_400_000,
    1_761_440_400_000,
    1_325_203_200_000,
    4_102_444_800_000,
];

fn cron() -> impl Strategy<Value = String> {
    let field = prop_oneof![3 => Just("*".to_owned()), 4 => text_of(PIECES, 4)];
    prop_oneof![
        6 => prop::collection::vec(field, 4..8).prop_map(|fields| fields.join(" ")),
        2 => prop::sample::select(WHOLE).prop_map(str::to_owned),
        1 => text_of(PIECES, 30),
        1 => any::<String>(),
    ]
}

fn zone() -> impl Strategy<Value = String> {
    prop_oneof![9 => prop::sample::select(ZONES).prop_map(str::to_owned), 1 => any::<String>()]
}

fn time() -> impl Strategy<Value = i64> {
    prop_oneof![
        1 => prop::sample::select(TIMES),
        3 => 0..4_102_444_800_000_i64,
        1 => any::<i64>(),
    ]
}

#[test]
fn cron_texts() {
    fuzz("cron texts", &(cron(), zone(), time()), |(cron, zone, ms)| {
        match fire_times(&cron, &zone, ms) {
            Ok((until, after)) => {
                prop_assert!(until.is_none_or(|at| at <= ms && at % 1000 == 0), "{until:?}");
                prop_assert!(after.is_none_or(|at| at > ms && at % 1000 == 0), "{after:?}");
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
        Ok(())
    });
}

#[test]
fn words_for_missed_times() {
    let pieces = &[
        "skip", "run once", "run all(", ")", "(", "run", " ", "all", "0", "1000", "1001",
    ];
    fuzz("words for missed times", &text_of(pieces, 5), |text| {
        if let Ok(missed) = text.parse::<Missed>() {
            prop_assert_eq!(missed.to_string().parse::<Missed>().unwrap(), missed);
        }
        Ok(())
    });
}
