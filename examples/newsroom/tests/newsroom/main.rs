//! The newsroom on real databases, by its HTTP interface.

#![cfg(any(feature = "sqlite", feature = "postgres"))]
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod support;

mod api;
mod background;
mod browser;
mod stall;
mod storm;
