//! The site, asked request by request, on real databases.

#![cfg(any(feature = "sqlite", feature = "postgres"))]
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod support;

mod actions;
#[cfg(feature = "postgres")]
mod bounds;
mod groups;
mod lists;
mod refusals;
#[cfg(feature = "server")]
mod server;
mod visitors;
mod workers;
