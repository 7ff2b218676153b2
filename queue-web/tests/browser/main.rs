//! Each page and each action once in a real browser, where one is installed.
//!
//! `LEASEHOLD_SCREENSHOTS=docs/screenshots ./test -p leasehold-web --test browser` also writes the pictures of the documentation.

#![cfg(all(feature = "server", feature = "sqlite"))]
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod browser;
mod fixture;
mod pictures;
mod visit;
