//! One file for each fault: what breaks, and what becomes of the jobs.

#![cfg(any(feature = "sqlite", feature = "postgres"))]
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod probe;

mod bad_row;
mod cancel_between_beats;
#[cfg(all(feature = "sqlite", target_os = "linux"))]
mod disk_full;
#[cfg(feature = "postgres")]
mod encodings;
mod extreme_settings;
#[cfg(feature = "postgres")]
mod half_open;
mod hidden_transaction;
#[cfg(feature = "postgres")]
mod locked_tables;
#[cfg(feature = "postgres")]
mod maintenance_at_once;
#[cfg(feature = "postgres")]
mod odd_defaults;
#[cfg(feature = "postgres")]
mod pool_of_stuck_handlers;
#[cfg(feature = "postgres")]
mod pooler;
#[cfg(feature = "postgres")]
mod schema_names;
mod values_that_panic;
mod writes_in_a_read;

mod deadly_jobs;
mod killed_ahead;
mod killed_processes;
mod killed_relays;
#[cfg(feature = "postgres")]
mod locked_rows;
#[cfg(feature = "postgres")]
mod lost_answers;
#[cfg(feature = "postgres")]
mod lost_choices;
#[cfg(feature = "postgres")]
mod lost_heartbeats;
#[cfg(feature = "postgres")]
mod lost_records;
#[cfg(feature = "postgres")]
mod lost_row_answers;
#[cfg(feature = "postgres")]
mod promotion;
#[cfg(feature = "postgres")]
mod read_only;
mod recorded_steps;
#[cfg(feature = "postgres")]
mod restarts;
mod restored;
mod several_processes;
mod stopped_process;
#[cfg(feature = "postgres")]
mod synchronous_standby;
#[cfg(feature = "postgres")]
mod terminated;

const PROGRAM: &str = env!("CARGO_BIN_EXE_leasehold-test-worker");
