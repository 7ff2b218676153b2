//! One file for each fault: what breaks, and what becomes of the jobs.

#![cfg(any(feature = "sqlite", feature = "postgres"))]
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod killed_processes;
#[cfg(feature = "postgres")]
mod locked_rows;
#[cfg(feature = "postgres")]
mod lost_answers;
#[cfg(feature = "postgres")]
mod lost_heartbeats;
#[cfg(feature = "postgres")]
mod read_only;
#[cfg(feature = "postgres")]
mod restarts;
mod stopped_process;
#[cfg(feature = "postgres")]
mod terminated;

const PROGRAM: &str = env!("CARGO_BIN_EXE_leasehold-test-worker");
