//! One file for each fault: what breaks, and what becomes of the jobs.

#![cfg(any(feature = "sqlite", feature = "postgres"))]
#![allow(clippy::unwrap_used, reason = "a test fails by it")]
