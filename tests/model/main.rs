//! The lease protocol as a model: every state that can be reached, within bounds, and the rules that hold in each.
//!
//! `state`, `action` (with `step`, what each does), `rules` (with `judgement`, what workers are told) and `variants` are the
//! model; `ours` and `weaker` let the checker loose on it; `traces` are the counter-examples of weaker fences, which
//! `replay` plays against PostgreSQL.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod action;
mod judgement;
mod rules;
mod state;
mod step;
mod variants;

mod check;
mod ours;
mod traces;
mod weaker;

#[cfg(feature = "postgres")]
mod replay;

/// Says something of the run past the capture of the test runner.
fn report(text: &str) {
    use std::io::Write;
    // One write, so that the lines of parallel tests do not mix.
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}
