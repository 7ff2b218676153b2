//! The tests' own ground: what the other tests rely on without looking.

#![cfg(any(feature = "sqlite", feature = "postgres"))]
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod databases;
mod helpers;
#[cfg(feature = "postgres")]
mod server;
