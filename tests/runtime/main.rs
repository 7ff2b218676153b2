//! What a worker's threads do, on both backends.

#![cfg(any(feature = "sqlite", feature = "postgres"))]
#![allow(clippy::unwrap_used, reason = "a test fails by it")]
