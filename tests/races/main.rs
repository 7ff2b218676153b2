//! Many threads at once, for some seconds each: `LEASEHOLD_RACE_SECONDS`, 2 unless it is set.

#![cfg(any(feature = "sqlite", feature = "postgres"))]
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod cancel;
mod schedules;
