//! Random sequences of operations, run on a database and on a plain model of it, and compared after each step.
//!
//! `operation` is what can happen, `model` (with `enqueuing`, `claiming`, `settling` and `managing`) what should come of it, in plain Rust
//! and without a clock, and `real` (with `workers`, `people` and `view`) what the library's statements make of it. `predicate` compares the rows
//! that claims take with a plain filter.

#![cfg(any(feature = "sqlite", feature = "postgres"))]
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod answer;
mod claiming;
mod enqueuing;
mod managing;
mod model;
mod operation;
mod people;
mod real;
mod settling;
mod view;
mod workers;

mod predicate;
mod sequences;

/// Says something of the run past the capture of the test runner.
fn report(text: &str) {
    use std::io::Write;
    // One write, so that the lines of parallel tests do not mix.
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// How many cases a test runs: so many, or as many as `LEASEHOLD_LOCKSTEP_CASES` says.
fn cases(default: u32) -> u32 {
    let given = std::env::var("LEASEHOLD_LOCKSTEP_CASES").ok();
    given.map_or(default, |cases| {
        cases.parse().expect("LEASEHOLD_LOCKSTEP_CASES is a number")
    })
}
