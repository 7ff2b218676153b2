//! The site, asked request by request, on real databases.

#![cfg(any(feature = "sqlite", feature = "postgres"))]
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod support;

mod actions;
mod attacks;
#[cfg(feature = "postgres")]
mod bounds;
mod chance;
mod colours;
mod forgeries;
mod groups;
mod large;
mod life;
mod lists;
mod many;
mod outages;
mod refusals;
mod search;
#[cfg(feature = "server")]
mod server;
mod visitors;
mod workers;
