//! What the tests of leasehold stand on: a real database for each test, on both backends, and helpers to watch it.
//!
//! - [`conformance!`] writes a test once and runs it on both backends ([`TestDb`]).
//! - [`postgres::database`] and [`sqlite::database`] give a test a database of its own.
//! - [`postgres::Cluster`] is a server that a test may crash.
//! - [`jobs`] are job types whose handlers a test directs; [`WorkerProcess`] runs them in a process that may be killed.
//! - [`issues`] is an application's own table, whose rows are owned.
//! - `proxy` stands between a worker and PostgreSQL and loses what it is told to.
//! - [`Receiver`] is an HTTP server that relays deliver to.
//! - [`eventually`] waits for a condition, [`capture_log`] keeps log records for assertions.

// Nothing here is published, and a helper that fails must fail the test that called it.
#![expect(
    clippy::missing_panics_doc,
    reason = "every helper panics when its test cannot go on"
)]

mod conformance;
pub use conformance::{TestDb, skipped};

pub mod postgres;

#[cfg(feature = "sqlite")]
pub mod sqlite;

#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub mod jobs;

#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub mod issues;

#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub mod parcels;

#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod process;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use process::WorkerProcess;

#[cfg(feature = "postgres")]
pub mod proxy;

mod receiver;
pub use receiver::{Answer, Receiver, Request};

mod captured_log;
pub use captured_log::{CapturedLog, Record, capture_log};

mod polling;
pub use polling::{Over, eventually, race_time};

#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod answer;
mod report;
