//! PostgreSQL servers for tests: finding the binaries, and throw-away clusters that may be crashed and copied.

#![expect(clippy::missing_panics_doc, reason = "a test that cannot go on ends")]

mod find;
pub use find::{Binaries, find};

mod cluster;
pub use cluster::{Cluster, cluster, cluster_with, cluster_with_clock};

/// Names the server for tests, by URL: databases are created there. Without it, each test program starts a cluster.
pub const URL_VARIABLE: &str = "LEASEHOLD_TEST_DATABASE_URL";
/// Names the directory of the server's binaries, before all other places.
pub const BINARIES_VARIABLE: &str = "LEASEHOLD_TEST_POSTGRES_BIN";
