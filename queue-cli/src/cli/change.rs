//! What can be said of jobs that are to be changed.

use std::time::Duration;

use clap::Args;

use super::{By, Chosen, FinishedState, Sure, duration};

#[derive(Debug, Args)]
pub(crate) struct Enqueue {
    /// The kind
    pub(crate) kind: String,
    /// The payload, as JSON; `-` reads it from the standard input
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    pub(crate) payload: String,
    /// The payload's version
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) version: u32,
    /// The queue
    #[arg(long, default_value = "default")]
    pub(crate) queue: String,
    /// Larger numbers are claimed first
    #[arg(long, default_value_t = 0, allow_hyphen_values = true)]
    pub(crate) priority: i16,
    /// To run so long from now
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) delay: Option<Duration>,
    /// How often it may be begun
    #[arg(long, default_value_t = 20)]
    pub(crate) max_attempts: u32,
    /// A second enqueue with the same key within a week answers with the first job
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// Also if no live worker serves the kind, or not this version
    #[arg(long)]
    pub(crate) force: bool,
    /// Says what would be done, and does nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Discard {
    #[command(flatten)]
    pub(crate) chosen: Chosen,
    /// Why; kept with a job that ends by it
    #[arg(long, default_value = "discarded by hand")]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) by: By,
    #[command(flatten)]
    pub(crate) sure: Sure,
}

#[derive(Debug, Args)]
pub(crate) struct Requeue {
    #[command(flatten)]
    pub(crate) chosen: Chosen,
    #[command(flatten)]
    pub(crate) by: By,
    #[command(flatten)]
    pub(crate) sure: Sure,
}

#[derive(Debug, Args)]
pub(crate) struct Cancel {
    #[command(flatten)]
    pub(crate) chosen: Chosen,
    /// Ends running jobs at once: the commit of their handlers is refused. Without it they are asked to stop
    #[arg(long)]
    pub(crate) hard: bool,
    /// Why; kept with a job that ends by it
    #[arg(long, default_value = "cancelled by hand")]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) by: By,
    #[command(flatten)]
    pub(crate) sure: Sure,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("change").required(true).multiple(true))]
pub(crate) struct Edit {
    /// The job's id
    pub(crate) id: i64,
    /// Its new priority; larger numbers are claimed first
    #[arg(long, group = "change", allow_hyphen_values = true)]
    pub(crate) priority: Option<i16>,
    /// To run so long from now; `0s` is as soon as it can
    #[arg(long, group = "change", value_name = "TIME", value_parser = duration)]
    pub(crate) delay: Option<Duration>,
    /// Its new payload, as JSON; `-` reads it from the standard input. Version and unique key stay as they are
    #[arg(long, group = "change", value_name = "JSON", allow_hyphen_values = true)]
    pub(crate) payload: Option<String>,
    /// Only if it has this generation still; without it, the one that it has now
    #[arg(long)]
    pub(crate) generation: Option<i64>,
    #[command(flatten)]
    pub(crate) by: By,
    /// Says what would be done, and does nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Paused {
    /// The jobs of this queue
    #[arg(long)]
    pub(crate) queue: Option<String>,
    /// The jobs of this kind
    #[arg(long)]
    pub(crate) kind: Option<String>,
    /// Every job
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Pause {
    #[command(flatten)]
    pub(crate) paused: Paused,
    #[command(flatten)]
    pub(crate) by: By,
    /// Why
    #[arg(long, default_value = "")]
    pub(crate) reason: String,
}

#[derive(Debug, Args)]
pub(crate) struct Resume {
    #[command(flatten)]
    pub(crate) paused: Paused,
    #[command(flatten)]
    pub(crate) by: By,
}

#[derive(Debug, Args)]
pub(crate) struct Purge {
    /// Jobs that ended like this
    #[arg(long)]
    pub(crate) state: FinishedState,
    /// At least so long ago; keep an hour, in which a worker may still ask for the fate of its job
    #[arg(long, value_name = "AGE", value_parser = duration)]
    pub(crate) older_than: Duration,
    #[command(flatten)]
    pub(crate) sure: Sure,
}
