//! What one run is.

use std::time::Duration;

use clap::{Parser, ValueEnum};

/// One run of torture.
#[derive(Debug, Clone, Parser)]
pub struct Settings {
    /// The database.
    #[arg(long, value_enum, default_value = "sqlite")]
    pub database: Kind,
    /// How long faults happen, in seconds.
    #[arg(long, default_value_t = 60)]
    pub seconds: u64,
    /// Decides which faults happen, and when; printed, and random unless it is given.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Worker processes.
    #[arg(long, default_value_t = 10)]
    pub workers: usize,
    /// The server crashes, too (PostgreSQL).
    #[arg(long)]
    pub crashes: bool,
    /// The server's clock jumps: an hour ahead each time, and a second back (PostgreSQL, with libfaketime installed).
    #[arg(long)]
    pub clock: bool,
    /// Commits are acknowledged before they are durable (PostgreSQL, `synchronous_commit = off`).
    #[arg(long)]
    pub lazy_commits: bool,
    /// The claim does not make itself durable: what the fence has to bear then (PostgreSQL, with `--lazy-commits`).
    #[arg(long, requires = "lazy_commits")]
    pub lazy_claims: bool,
}

/// A kind of database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// A file.
    Sqlite,
    /// A server of its own.
    Postgres,
}

impl Settings {
    /// Faults for `seconds`, and nothing special.
    #[must_use]
    pub fn new(database: Kind, seconds: u64) -> Self {
        Self {
            database,
            seconds,
            seed: None,
            workers: 10,
            crashes: false,
            clock: false,
            lazy_commits: false,
            lazy_claims: false,
        }
    }

    pub(crate) fn time(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    /// Whether what was acknowledged is there after a crash.
    pub(crate) fn is_durable(&self) -> bool {
        !self.lazy_commits
    }
}
