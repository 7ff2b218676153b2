//! PostgreSQL for tests: a server by URL or from local binaries, and a database for each test.

pub use leasehold_test_postgres::{
    BINARIES_VARIABLE, Binaries, Cluster, URL_VARIABLE, cluster, cluster_with, cluster_with_clock, find,
};

#[cfg(feature = "postgres")]
mod standby;
#[cfg(feature = "postgres")]
pub use standby::Standby;

#[cfg(feature = "postgres")]
mod server;

#[cfg(feature = "postgres")]
mod database;
#[cfg(feature = "postgres")]
pub use database::{Database, database};

#[cfg(feature = "postgres")]
mod full;
#[cfg(feature = "postgres")]
mod reads;
#[cfg(feature = "postgres")]
pub use reads::Reads;

/// `worker`: the tests connect as a login that is producer and worker, see `Migrations::roles_sql`; the server must trust it.
#[cfg(feature = "postgres")]
pub const ROLE_VARIABLE: &str = "LEASEHOLD_TEST_ROLE";
