//! What each stage of a job's life does, statement by statement, the same on both backends.

#![cfg(any(feature = "sqlite", feature = "postgres"))]
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod support;

mod enqueue;
mod idempotency;
mod payload;
mod unique;

mod claim;
mod fence;
mod found;
mod lease;
mod limits;
mod pause;

mod closure;
mod commit;
mod refusal;

mod cancel;
mod handler;
mod settle;
mod sweep;

mod inspect;
mod schema;
mod testing;
