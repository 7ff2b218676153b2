//! A job queue for blocking Rust programs on Diesel, where a worker that lost its job cannot commit.
//!
//! Jobs are rows in the application's own database, PostgreSQL or a SQLite file. They are enqueued in the transaction that
//! writes the application's rows, and a handler's writes are committed together with the job's completion.
//!
//! ```
//! # include!("doctest_setup.rs");
//! # mod hidden {
//! use diesel::prelude::*;
//! use leasehold::{Handler, Job, LeaseGuard, Outcome, Worker};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize, Job)]
//! #[job(kind = "greet")]
//! struct Greet {
//!     name: String,
//! }
//!
//! impl Handler<SqliteConnection> for Greet {
//!     fn run<'j>(self, lease: LeaseGuard<'j, SqliteConnection>, _: &()) -> Outcome<'j> {
//!         println!("Hello, {}!", self.name);
//!         lease.finish()
//!     }
//! }
//!
//! # pub fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (url, mut conn) = super::doctest_database();
//! Greet { name: "world".to_owned() }.enqueue(&mut conn)?;
//! let summary = Worker::<SqliteConnection, _>::new(url, ()).register::<Greet>().run_until_empty()?;
//! assert_eq!(summary.counts.completed, 1);
//! # Ok(())
//! # }
//! # }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> { hidden::main() }
//! ```
//!
//! # Contents
//!
//! | To | look at |
//! | --- | --- |
//! | create the tables | [`migrate()`], [`migrate::Migrations`], [`Schema`] |
//! | define a job | [`Job`] and its derive, [`Backoff`], [`Unique`], [`OnConflict`], [`Limit`] |
//! | enqueue it | [`Job::enqueue`], [`EnqueueOptions`], [`Enqueued`], [`EnqueueError`] |
//! | run it | [`Handler`], [`LeaseGuard`], [`Receipt`], [`Outcome`], [`JobError`], [`Refusal`], [`LeaseWatch`] |
//! | run many | [`Worker`], [`Running`], [`ShutdownReport`], [`Summary`], [`Progress`] |
//! | claim chosen jobs | [`Running::claim_selected`], [`Running::claim_now`], [`Worker::claims_selected_only`], [`selected`] |
//! | enqueue at given times | [`schedule`], [`Worker::schedule`] |
//! | see what happens | [`Hooks`], [`Counts`], [`JobInfo`], [`inspect`] |
//! | run many as one, or one after others | [`Batch`], [`batch`](mod@batch), [`Workflow`], [`WorkflowJob`] |
//! | call other systems once | [`LeaseGuard::step`], [`LeaseGuard::idempotency_key`], [`inspect::steps`](fn@inspect::steps) |
//! | get results and progress | [`LeaseGuard::commit_result`], [`LeaseGuard::progress`], [`inspect::result`](fn@inspect::result), [`inspect::wait_for`] |
//! | tell others what has happened | [`outbox`](mod@outbox), [`Worker::relay`], [`inbox`] |
//! | cancel, requeue, edit and purge by hand | [`manage`] |
//! | own rows of a table of your own as jobs are owned | [`rows`] |
//! | test it | [`testing`], [`assert_enqueued!`] |
//!
//! # Create the tables
//!
//! [`migrate()`] creates the queue's tables or brings them up to date. Call it at every start, from any number of processes.
//!
//! # Enqueue
//!
//! [`Job::enqueue`] takes part in the transaction that is open: the job is there when the caller's other writes are, and
//! not otherwise. What one enqueue wants differently from its kind is in [`EnqueueOptions`].
//!
//! On SQLite give your own connections `PRAGMA busy_timeout = 10000`: without it they fail at once with "database is
//! locked" while a worker writes.
//!
//! ```
//! # include!("doctest_setup.rs");
//! use std::time::Duration;
//! use leasehold::EnqueueOptions;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (_url, mut conn) = doctest_database();
//! # diesel::sql_query("CREATE TABLE guests (name TEXT)").execute(&mut conn)?;
//! conn.transaction(|tx| {
//!     diesel::sql_query("INSERT INTO guests VALUES ('you')").execute(tx)?;
//!     Greet { name: "you".to_owned() }.enqueue(tx)
//! })?;
//!
//! let tomorrow = EnqueueOptions::new().delay(Duration::from_secs(24 * 3600));
//! Greet { name: "you".to_owned() }.enqueue_with(&mut conn, &tomorrow)?;
//! # Ok(())
//! # }
//! ```
//!
//! # Handle
//!
//! A [`Handler`] is given the [`LeaseGuard`] of its job and must give it up for a [`Receipt`], its only success value:
//!
//! | With | the job is | and |
//! | --- | --- | --- |
//! | [`lease.commit(…)`](LeaseGuard::commit) | completed | the closure's writes are committed with it, or nothing is |
//! | [`lease.commit_result(…)`](LeaseGuard::commit_result) | completed | as above, and what the closure returns is stored as its result |
//! | [`lease.finish()`](LeaseGuard::finish) | completed | there is nothing to write; many are written in one statement |
//! | [`lease.snooze(…)`](LeaseGuard::snooze) | ready again, later | no attempt is used up |
//! | [`lease.cancel(…)`](LeaseGuard::cancel) | cancelled | it is not needed any more |
//! | any error, by `?` | ready again, after the kind's [`Backoff`] | the error is kept; discarded after the last attempt |
//! | [`JobError::retry_after`] | ready again, then | as above |
//! | [`JobError::discard`] | discarded | another attempt would not help |
//!
//! A handler may run again after a crash, so what it does outside the database needs
//! [`LeaseGuard::idempotency_key`], which is the same in every attempt; [`LeaseGuard::step`] records what has happened, so
//! that a later attempt does not repeat it. What it commits happens at most once. It reads before the commit with
//! [`LeaseGuard::read`], and does slow work between the two, without a connection. A long handler looks at
//! [`LeaseGuard::check`] now and then.
//!
//! ```
//! # include!("doctest_setup.rs");
//! # fn reply_to(_: &str, _key: &str) -> Result<String, std::io::Error> { Ok("hi".to_owned()) }
//! # diesel::table! { replies (name) { name -> Text, text -> Text } }
//! #[derive(serde::Serialize, serde::Deserialize, Job)]
//! #[job(kind = "reply", lease = "2m", timeout = "10m", unique(by = "to"))]
//! struct Reply {
//!     to: String,
//! }
//!
//! struct App {
//!     blocked: Vec<String>,
//! }
//!
//! impl Handler<SqliteConnection, App> for Reply {
//!     fn run<'j>(self, mut lease: LeaseGuard<'j, SqliteConnection>, app: &App) -> Outcome<'j> {
//!         if app.blocked.contains(&self.to) {
//!             return lease.cancel("blocked since");
//!         }
//!         let replied: i64 = lease.read(|conn| {
//!             replies::table.filter(replies::name.eq(&self.to)).count().get_result(conn)
//!         })?;
//!         if replied > 0 {
//!             return lease.finish();
//!         }
//!         let text = reply_to(&self.to, lease.idempotency_key())?;
//!         lease.commit(|tx| {
//!             diesel::insert_into(replies::table)
//!                 .values((replies::name.eq(&self.to), replies::text.eq(&text)))
//!                 .execute(tx)?;
//!             Ok(())
//!         })
//!     }
//! }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (url, mut conn) = doctest_database();
//! # diesel::sql_query("CREATE TABLE replies (name TEXT, text TEXT)").execute(&mut conn)?;
//! # Reply { to: "you".to_owned() }.enqueue(&mut conn)?;
//! # let app = App { blocked: Vec::new() };
//! # let summary = leasehold::Worker::<SqliteConnection, _>::new(url, app).register::<Reply>().run_until_empty()?;
//! # assert_eq!(summary.counts.completed, 1);
//! # Ok(())
//! # }
//! ```
//!
//! # Run
//!
//! [`Worker::start`] runs until [`Running::shutdown`]; [`Worker::run_until_empty`] is for batch programs, and `main` may
//! return its [`Summary`] as the exit code.
//!
//! ```
//! # include!("doctest_setup.rs");
//! use std::time::Duration;
//! use leasehold::Worker;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (url, _conn) = doctest_database();
//! let running = Worker::<SqliteConnection, _>::new(url, ()).threads(8).register::<Greet>().start()?;
//! // … until the service ends. Running handlers are waited for, what has not begun is given back.
//! let report = running.shutdown(Duration::from_secs(30));
//! assert_eq!(report.abandoned, 0);
//! # Ok(())
//! # }
//! ```
//!
//! # Schedule
//!
//! A cron text in a time zone, stated by the kind (`schedule(cron = "0 3 * * *")`) or given to a worker or, at run time,
//! to the database: [`schedule`] has them, with the rules for missed times and changed clocks.
//!
//! # Look
//!
//! Each event is one line of the `log` crate and a call of [`Hooks`]; how jobs ended is counted in [`Counts`]. [`inspect`] shows jobs with
//! their errors and counts them; [`check`](mod@check) says what is wrong with the database; [`manage`] cancels, requeues, edits and purges them.
//!
//! # Test
//!
//! [`testing`] runs jobs on one connection inside a test transaction, with the statements that a worker uses.
//!
//! # Change a payload
//!
//! Stored jobs outlive a release. A field with `#[serde(default)]` needs nothing more. For any other change raise the
//! kind's `version` and give a `migrate` function: programs claim their own version and older ones, so a newer payload waits
//! for a newer program. After a rename of a kind, [`Worker::register_alias`] runs the jobs stored under the old name.
//!
//! # Features
//!
//! - `sqlite` (default): runs on `diesel::SqliteConnection`; SQLite itself is compiled in.
//! - `postgres`: runs on `diesel::PgConnection`, with the system's libpq.
//! - `postgres-bundled`: the same with libpq compiled in, which speaks no TLS.
//! - `schedules` (default): [`schedule`], with the rules of the time zones compiled in.
//! - `progress`: [`Worker::progress_bar`].
//! - `http`: [`outbox::HttpPost`](mod@outbox), which delivers events by a signed HTTP POST.
//! - `metrics`: counters, histograms and gauges; see [`metrics`].
//! - `tracing`: a span for each execution of a job, of the crate of that name.
//! - `signals`: [`Worker::stop_on_signals`] and [`Running::run_until_signalled`].

#![cfg_attr(
    not(any(feature = "postgres", feature = "sqlite")),
    allow(dead_code, reason = "without a backend there is nothing to run a statement on")
)]

// The derive's output names the crate by its own name, here too.
extern crate self as leasehold;

mod schema;
pub use schema::Schema;

mod name;

mod panics;

mod sync;

pub mod migrate;
pub use migrate::migrate;

mod job;
pub use job::{Backoff, Job, OnConflict, Unique};
pub use leasehold_derive::Job;

mod enqueue;
pub use enqueue::{EnqueueError, EnqueueOptions, Enqueued, UntypedJob};

pub mod batch;
pub use batch::Batch;

mod workflow;
pub use workflow::{EnqueuedWorkflow, Workflow, WorkflowError, WorkflowJob};

mod limit;
pub use limit::Limit;

#[allow(missing_docs, reason = "for the runtime and the project's own tests")]
mod admit;

mod wake;

#[allow(missing_docs, reason = "for the runtime and the project's own tests")]
mod claim;

mod lease;
pub use lease::{LeaseGuard, LeaseWatch, Receipt, Refusal};

mod handler;
pub use handler::{Handler, JobError, Outcome};

mod registry;

pub mod outbox;

pub mod inbox;

mod results;

mod commit;

mod transaction;

mod follow_up;

mod settle;

pub mod metrics;
mod trace;

mod events;
pub use events::{Counts, Hooks, JobInfo};

mod worker;
pub use worker::{
    Health, HealthLimits, Probe, Problem, Progress, Running, ShutdownReport, StartError, Summary, Worker, selected,
};

#[cfg(feature = "schedules")]
pub mod schedule;

pub mod rows;

pub mod inspect;

pub mod check;

pub mod manage;

pub mod testing;

mod sql;

#[allow(
    missing_docs,
    clippy::missing_errors_doc,
    reason = "most of the seam is sealed and hidden; what is public has its documentation"
)]
mod backend;
pub use backend::{AsBackend, Backend, Isolation};

pub mod error;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;

/// Compiles and runs the README's program.
#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../README.md")]
struct Readme;

/// Compiles and runs the programs of the guide.
#[cfg(all(doctest, feature = "sqlite"))]
mod guide {
    #[doc = include_str!("../../docs/guide/batches.md")]
    struct Batches;
    #[doc = include_str!("../../docs/guide/crashes.md")]
    struct Crashes;
    #[doc = include_str!("../../docs/guide/deploys.md")]
    struct Deploys;
    #[doc = include_str!("../../docs/guide/events.md")]
    struct Events;
    #[doc = include_str!("../../docs/guide/from-apalis.md")]
    struct FromApalis;
    #[doc = include_str!("../../docs/guide/from-fang.md")]
    struct FromFang;
    #[doc = include_str!("../../docs/guide/health.md")]
    struct Health;
    #[doc = include_str!("../../docs/guide/lease.md")]
    struct Lease;
    #[doc = include_str!("../../docs/guide/limits.md")]
    struct Limits;
    #[doc = include_str!("../../docs/guide/manage.md")]
    struct Manage;
    #[cfg(feature = "metrics")]
    #[doc = include_str!("../../docs/guide/metrics.md")]
    struct Metrics;
    #[doc = include_str!("../../docs/guide/outbox.md")]
    struct Outbox;
    #[doc = include_str!("../../docs/guide/postgres.md")]
    struct Postgres;
    #[doc = include_str!("../../docs/guide/queues.md")]
    struct Queues;
    #[doc = include_str!("../../docs/guide/results.md")]
    struct Results;
    #[doc = include_str!("../../docs/guide/retries.md")]
    struct Retries;
    #[cfg(feature = "postgres")]
    #[doc = include_str!("../../docs/guide/roles.md")]
    struct Roles;
    #[doc = include_str!("../../docs/guide/rows.md")]
    struct Rows;
    #[cfg(feature = "schedules")]
    #[doc = include_str!("../../docs/guide/schedules.md")]
    struct Schedules;
    #[doc = include_str!("../../docs/guide/steps.md")]
    struct Steps;
    #[doc = include_str!("../../docs/guide/selected.md")]
    struct Selected;
    #[doc = include_str!("../../docs/guide/start.md")]
    struct Start;
    #[doc = include_str!("../../docs/guide/testing.md")]
    struct Testing;
    #[doc = include_str!("../../docs/guide/unique.md")]
    struct Unique;
    #[doc = include_str!("../../docs/guide/workflows.md")]
    struct Workflows;
}
