//! What each stage of a job's life does, statement by statement, the same on both backends.

#![cfg(any(feature = "sqlite", feature = "postgres"))]
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod pages;
mod support;

mod conflict;
mod enqueue;
mod idempotency;
mod inbox;
mod key_lost;
mod key_states;
mod payload;
mod unique;
mod untyped;

mod claim;
mod claim_behind;
mod fence;
mod found;
mod lease;
mod limits;
mod manage;
mod outbox;
mod pause;
mod selected;
mod selected_at_once;

mod closure;
mod commit;
mod refusal;

mod actions;
mod batches;
mod cancel;
mod discard;
mod expiry;
mod handler;
mod retry;
mod settle;
mod sweep;

mod check;
#[cfg(feature = "postgres")]
mod check_server;
mod check_tables;
mod fires;
mod glance;
mod inspect;
mod life;
mod results;
mod rows;
mod schedules;
mod schema;
mod search;
mod step_errors;
mod steps;
mod testing;
mod workflows;
