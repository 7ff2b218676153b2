//! What every bench is told.

use std::env;

use clap::{Parser, ValueEnum};

/// The server of the tests: a role that may create databases.
pub const URL_VARIABLE: &str = "LEASEHOLD_TEST_DATABASE_URL";

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Extent {
    /// A few settings, to see that everything runs.
    Brief,
    /// What the bar asks for.
    Bars,
    /// Everything.
    Full,
}

/// The command line of a bench.
#[derive(Debug, Clone, Parser)]
pub struct Options {
    /// How much is measured.
    #[arg(long, value_enum, default_value = "full")]
    pub extent: Extent,
    /// How long a measurement takes, about.
    #[arg(long, default_value_t = 2.0)]
    pub seconds: f64,
    /// How often each is repeated; ours and the reference take turns.
    #[arg(long, default_value_t = 3)]
    pub runs: usize,
    /// One backend alone: `postgres` or `sqlite`.
    #[arg(long)]
    pub backend: Option<String>,
    /// Only what has this in its name.
    #[arg(long)]
    pub only: Option<String>,
}

impl Options {
    /// Whether this backend is to be measured. PostgreSQL is left out, and that is said, where no server is named.
    #[must_use]
    pub fn wants(&self, backend: &str) -> bool {
        let wanted = self.backend.as_deref().is_none_or(|only| only == backend);
        if wanted && backend == "postgres" && postgres_url().is_none() {
            eprintln!(
                "PostgreSQL is left out: name a server in {URL_VARIABLE}, or start one for the bench by \
                 `leasehold-test-postgres run -- COMMAND`, see CONTRIBUTING.md"
            );
            return false;
        }
        wanted
    }
}

/// The server that the environment names.
#[must_use]
pub fn postgres_url() -> Option<String> {
    env::var(URL_VARIABLE).ok()
}
