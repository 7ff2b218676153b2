//! A job queue for blocking Rust programs on Diesel, where a worker that lost its job cannot commit.

// The derive's output names the crate by its own name, here too.
extern crate self as leasehold;

mod schema;
pub use schema::{Schema, SchemaNameError};

mod name;
pub use name::NameError;

mod migrate;
pub use migrate::{MigrateError, MigrationSql, MigrationStatus, Migrations, PROGRAM, migrate};

mod job;
pub use job::{Backoff, Job};
pub use leasehold_derive::Job;

mod enqueue;
pub use enqueue::{EnqueueError, EnqueueOptions, Enqueued, KEY_RETENTION, MAX_PAYLOAD_BYTES, MAX_PAYLOAD_DEPTH};

mod wake;

#[allow(missing_docs, reason = "for the runtime and the project's own tests")]
mod claim;

mod lease;
pub use lease::{Fence, LeaseGuard, LeaseWatch, Receipt, Refusal};

mod handler;
pub use handler::{Handler, JobError, Outcome};

mod registry;
pub use registry::RegistryError;

mod commit;

mod settle;

mod events;
pub use events::{Counts, Hooks, JobInfo};

mod worker;
pub use worker::{Progress, Running, ShutdownReport, StartError, Summary, Worker};

pub mod inspect;

pub mod testing;

mod sql;

#[allow(
    missing_docs,
    clippy::missing_errors_doc,
    reason = "most of the seam is sealed and hidden; what is public has its documentation"
)]
mod backend;
pub use backend::{AsBackend, Backend, Isolation, ServerError};

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
