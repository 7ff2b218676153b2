//! What can be said of what is to be looked at.

use clap::Args;
use leasehold::inspect::Place;

use super::Which;

#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) which: Which,
    /// The one that was enqueued with this idempotency key
    #[arg(
        long,
        value_name = "KEY",
        conflicts_with_all = ["unique_key", "state", "queue", "kind", "batch", "older_than", "error", "from"]
    )]
    pub(crate) idempotency_key: Option<String>,
    /// The one of `--kind` that took this unique key last; with `--queue` if each queue has its own keys
    #[arg(
        long,
        value_name = "KEY",
        requires = "kind",
        conflicts_with_all = ["state", "batch", "older_than", "error", "from"]
    )]
    pub(crate) unique_key: Option<String>,
    /// Where to look on: what the page before said
    #[arg(long, value_name = "PLACE")]
    pub(crate) from: Option<Place>,
    /// The most jobs
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The job's id
    pub(crate) id: i64,
    /// Shows the payload, and the results of steps, which may hold secrets
    #[arg(long)]
    pub(crate) payload: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Actions {
    /// To this job
    #[arg(long, value_name = "ID")]
    pub(crate) job: Option<i64>,
    /// By this person, letter for letter
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
    #[command(flatten)]
    pub(crate) newest: Newest,
}

#[derive(Debug, Args)]
pub(crate) struct Batches {
    #[command(flatten)]
    pub(crate) newest: Newest,
}

/// A page of what has ids, from the newest on.
#[derive(Debug, Args)]
pub(crate) struct Newest {
    /// Only ids below this one: the last id of the page before
    #[arg(long, value_name = "ID")]
    pub(crate) before: Option<i64>,
    /// The most of them
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
}

impl Newest {
    /// What is said behind a page of so many, whose last one has the id `last`.
    pub(crate) fn further(&self, shown: usize, last: Option<i64>) -> String {
        match last.filter(|_| shown == self.limit as usize) {
            Some(last) => format!("\nThere may be more: --before {last}"),
            None => String::new(),
        }
    }
}
