//! Many threads at once, for some seconds each: `LEASEHOLD_RACE_SECONDS`, 2 unless it is set.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod cancel;
