//! What each stage of a job's life does, statement by statement, the same on both backends.

#![cfg(any(feature = "sqlite", feature = "postgres"))]
#![allow(clippy::unwrap_used, reason = "a test fails by it")]
