//! Texts of any kind into what reads texts: nothing panics, and what comes back can be used.
//!
//! For some seconds each, `LEASEHOLD_FUZZ_SECONDS` says how many. The derive's options are fuzzed in its own sources.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::cell::Cell;
use std::io::Write;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};

mod cron;
mod errors;
mod payloads;

/// Runs `check` on values of `strategy` until the time is up.
#[track_caller]
fn fuzz<S: Strategy>(name: &str, strategy: &S, check: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let seconds = std::env::var("LEASEHOLD_FUZZ_SECONDS").ok();
    let seconds = seconds.map_or(2, |seconds| {
        seconds.parse().expect("LEASEHOLD_FUZZ_SECONDS is a number")
    });
    let (start, cases, slowest) = (Instant::now(), Cell::new(0_u64), Cell::new(Duration::ZERO));
    let timed = |value: S::Value| {
        let begun = Instant::now();
        let checked = check(value);
        slowest.set(slowest.get().max(begun.elapsed()));
        cases.set(cases.get() + 1);
        checked
    };
    while start.elapsed() < Duration::from_secs(seconds) {
        let mut runner = TestRunner::new(Config {
            cases: 100,
            failure_persistence: None,
            max_global_rejects: u32::MAX,
            ..Config::default()
        });
        match runner.run(strategy, timed) {
            Ok(()) => {}
            Err(TestError::Fail(why, value)) => panic!("{name}: {why}: {value:?}"),
            Err(abort) => panic!("{name}: {abort}"),
        }
    }
    let text = format!(
        "fuzz of {name}: {} cases, the slowest took {:?}\n",
        cases.get(),
        slowest.get()
    );
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// A text of a few pieces, mostly of those that mean something.
fn text_of(pieces: &'static [&'static str], most: usize) -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        12 => prop::sample::select(pieces).prop_map(str::to_owned),
        2 => (0..100_u32).prop_map(|number| number.to_string()),
        1 => any::<u64>().prop_map(|number| number.to_string()),
        1 => any::<String>(),
    ];
    prop::collection::vec(piece, 0..most).prop_map(|pieces| pieces.concat())
}
