//! Many threads at once, for some seconds each: `LEASEHOLD_RACE_SECONDS`, 2 unless it is set.

#![cfg(any(feature = "sqlite", feature = "postgres"))]
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

#[path = "../conformance/support.rs"]
#[allow(dead_code, unused_imports, reason = "most of it is for the conformance tests")]
mod support;

mod batches;
mod cancel;
mod limits;
mod relays;
mod schedules;
mod starvation;
mod unique;
