//! PostgreSQL for tests: a server by URL or from local binaries, and a database for each test.

mod find;
pub use find::{Binaries, find};

mod cluster;
pub use cluster::{Cluster, cluster, cluster_with, cluster_with_clock};
#[cfg(feature = "postgres")]
mod standby;

#[cfg(feature = "postgres")]
mod server;

#[cfg(feature = "postgres")]
mod database;
#[cfg(feature = "postgres")]
pub use database::{Database, database};

/// Names the server for tests, by URL: databases are created there. Without it, each test program starts a cluster.
pub const URL_VARIABLE: &str = "LEASEHOLD_TEST_DATABASE_URL";
/// Names the directory of the server's binaries, before all other places.
pub const BINARIES_VARIABLE: &str = "LEASEHOLD_TEST_POSTGRES_BIN";
/// `worker`: the tests connect as a login that is producer and worker, see `Migrations::roles_sql`; the server must trust it.
#[cfg(feature = "postgres")]
pub const ROLE_VARIABLE: &str = "LEASEHOLD_TEST_ROLE";
