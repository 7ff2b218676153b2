//! The numbered facts that the design rests on.

#![cfg(any(feature = "sqlite", feature = "postgres"))]
#![allow(clippy::unwrap_used, reason = "a test fails by it")]
