//! The numbered facts that the design rests on, each shown by a test that has its number.

#![cfg(any(feature = "sqlite", feature = "postgres"))]
#![allow(clippy::unwrap_used, reason = "a test fails by it")]
#![cfg_attr(
    not(feature = "postgres"),
    allow(
        dead_code,
        unused_imports,
        reason = "most facts are about PostgreSQL, and named skips without it"
    )
)]

mod jobs;
#[cfg(feature = "postgres")]
mod session;
mod sources;
mod story;

mod bounded;
mod bounds;
mod chosen;
#[cfg(feature = "postgres")]
mod chosen_locks;
mod claims;
mod clocks;
mod deadlines;
mod durability;
mod features;
mod fences;
mod glances;
mod harness;
mod isolation;
mod log_form;
mod outbox;
mod outside_effects;
mod ownership;
mod patterns;
#[cfg(feature = "postgres")]
mod promotion;
mod refusals;
mod row_locks;
mod rows;
mod statements;
