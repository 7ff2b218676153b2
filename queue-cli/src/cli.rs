//! What can be said on the command line.

use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use jiff::SignedDuration;
use leasehold::inspect::{Filter, State};

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  nothing there to be done or shown, or findings of `doctor` that are more than advice
  2  a wrong command line or address
  3  refused: the job's state, another holder of its key, a missing confirmation
  4  the database cannot be reached, or it refused
  5  the answer could not be written";

/// Looks at the jobs of a leasehold database and changes them.
#[derive(Debug, Parser)]
#[command(name = "leasehold", version, after_help = EXIT_CODES, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// `postgres://user@host/database`, or the path of an SQLite file
    #[arg(
        long,
        short = 'd',
        global = true,
        env = "LEASEHOLD_DATABASE_URL",
        hide_env_values = true,
        value_name = "URL"
    )]
    pub(crate) database: Option<String>,
    /// The schema of the tables on PostgreSQL, their prefix on SQLite
    #[arg(long, global = true, default_value = "leasehold", value_name = "NAME")]
    pub(crate) schema: String,
    /// JSON instead of a table
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(flatten)]
    OnDatabase(OnDatabase),
    /// Prints the SQL that makes least-privilege roles on PostgreSQL
    #[cfg(feature = "postgres")]
    Roles(Roles),
    /// Prints completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Prints the manual page
    Man,
}

#[derive(Debug, Subcommand)]
pub(crate) enum OnDatabase {
    /// Makes, removes or prints the tables
    #[command(subcommand)]
    Migrate(Migrate),
    /// Jobs by queue and state
    Stats,
    /// Jobs, one a line
    List(List),
    /// One job: attempts, errors, steps, progress
    Show(Show),
    /// Enqueues a job of a kind that a live worker serves
    Enqueue(Enqueue),
    /// Puts discarded or cancelled jobs back to ready
    #[command(visible_alias = "retry")]
    Requeue(Requeue),
    /// Cancels jobs that have not ended
    Cancel(Cancel),
    /// Discards jobs that have not ended; the commit of their handlers is refused
    Discard(Discard),
    /// Changes a ready job
    Edit(Edit),
    /// Lets no worker claim the jobs of a queue, of a kind, or any
    Pause(Pause),
    /// Ends a pause
    Resume(Paused),
    /// Pauses that hold
    Pauses,
    /// Cron schedules
    #[command(subcommand)]
    Schedules(Schedules),
    /// One batch, with the counts of its jobs
    Batch {
        /// Its id
        id: i64,
    },
    /// Removes jobs that have ended
    Purge(Purge),
    /// Says what is wrong with the database, and what to do
    Doctor,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Migrate {
    /// Applies what is pending; makes an SQLite file that is not there
    Up,
    /// Reverts the last migration, and what is in its tables
    Down {
        #[command(flatten)]
        sure: Sure,
    },
    /// Which migrations are applied, and which are pending
    Status,
    /// Prints the SQL of all migrations
    Sql,
}

/// Which jobs are meant. Every option that is given must hold.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// In this state
    #[arg(long)]
    state: Option<StateName>,
    /// Of this queue
    #[arg(long)]
    queue: Option<String>,
    /// Of this kind
    #[arg(long)]
    kind: Option<String>,
    /// Of this batch
    #[arg(long, value_name = "ID")]
    batch: Option<i64>,
    /// Ended, or enqueued if they have not ended, at least so long ago: `90s`, `2h 30m`, `7d`
    #[arg(long, value_name = "AGE", value_parser = duration)]
    older_than: Option<Duration>,
    /// With this text in the reason of their end or in an attempt's error
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
}

impl Which {
    pub(crate) fn is_all(&self) -> bool {
        self.state.is_none()
            && self.queue.is_none()
            && self.kind.is_none()
            && self.batch.is_none()
            && self.older_than.is_none()
            && self.error.is_none()
    }

    pub(crate) fn state(&self) -> Option<State> {
        self.state.map(Into::into)
    }

    pub(crate) fn filter(&self) -> Filter {
        let mut filter = Filter::new();
        if let Some(state) = self.state() {
            filter = filter.state(state);
        }
        if let Some(queue) = &self.queue {
            filter = filter.queue(queue);
        }
        if let Some(kind) = &self.kind {
            filter = filter.kind(kind);
        }
        if let Some(batch) = self.batch {
            filter = filter.batch(batch);
        }
        if let Some(age) = self.older_than {
            filter = filter.older_than(age);
        }
        if let Some(error) = &self.error {
            filter = filter.error(error);
        }
        filter
    }
}

/// One job by its id, or those that the options tell.
#[derive(Debug, Args)]
pub(crate) struct Chosen {
    /// The job's id
    #[arg(conflicts_with_all = ["state", "queue", "kind", "batch", "older_than", "error"])]
    pub(crate) id: Option<i64>,
    #[command(flatten)]
    pub(crate) which: Which,
    /// All jobs that the command is for
    #[arg(long, conflicts_with = "id")]
    pub(crate) all: bool,
}

/// What is done cannot be undone, or concerns many jobs.
#[derive(Debug, Args)]
pub(crate) struct Sure {
    /// Asks for no confirmation
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
    /// Says what would be done, and does nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) which: Which,
    /// Only ids above this one: the last id of the page before
    #[arg(long, default_value_t = 0, value_name = "ID")]
    pub(crate) after: i64,
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
    /// Why; kept with the job
    #[arg(long, default_value = "discarded by hand")]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) sure: Sure,
}

#[derive(Debug, Args)]
pub(crate) struct Requeue {
    #[command(flatten)]
    pub(crate) chosen: Chosen,
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
    /// Why; kept with the job
    #[arg(long, default_value = "cancelled by hand")]
    pub(crate) reason: String,
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
    /// Only if it has this generation still; without it, the one that it has now
    #[arg(long)]
    pub(crate) generation: Option<i64>,
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
    /// Who pauses; `user@host` if it is not given
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
    /// Why
    #[arg(long, default_value = "")]
    pub(crate) reason: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Schedules {
    /// All of them, with the next times
    List {
        /// How many next times of each
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=100))]
        next: u8,
    },
    /// Fires no more until it is resumed
    Pause {
        /// Its name
        name: String,
    },
    /// Fires again
    Resume {
        /// Its name
        name: String,
    },
    /// Removes it; one that a program defines comes back when the program starts
    Remove {
        /// Its name
        name: String,
        #[command(flatten)]
        sure: Sure,
    },
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

#[cfg(feature = "postgres")]
#[derive(Debug, Args)]
pub(crate) struct Roles {
    /// The word before `_producer`, `_worker` and `_reader`
    #[arg(long, default_value = "leasehold")]
    pub(crate) prefix: String,
    /// Lets the reader see payloads and results
    #[arg(long)]
    pub(crate) reader_sees_payloads: bool,
    /// A login of workers behind a pooler in transaction mode; may be given more than once
    #[arg(long, value_name = "LOGIN")]
    pub(crate) pooled_login: Vec<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum StateName {
    Ready,
    Running,
    Completed,
    Discarded,
    Cancelled,
}

impl From<StateName> for State {
    fn from(name: StateName) -> Self {
        match name {
            StateName::Ready => Self::Ready,
            StateName::Running => Self::Running,
            StateName::Completed => Self::Completed,
            StateName::Discarded => Self::Discarded,
            StateName::Cancelled => Self::Cancelled,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum FinishedState {
    Completed,
    Discarded,
    Cancelled,
}

impl From<FinishedState> for State {
    fn from(name: FinishedState) -> Self {
        match name {
            FinishedState::Completed => Self::Completed,
            FinishedState::Discarded => Self::Discarded,
            FinishedState::Cancelled => Self::Cancelled,
        }
    }
}

/// As people write it: `90s`, `2h 30m`, `7d`.
fn duration(text: &str) -> Result<Duration, String> {
    // A day is 24 hours here, which the parser leaves to a calendar.
    let days = text.trim().strip_suffix('d').and_then(|days| days.parse::<u32>().ok());
    if let Some(days) = days {
        return Ok(Duration::from_secs(u64::from(days) * 24 * 3600));
    }
    let parsed: SignedDuration = text.parse().map_err(|error: jiff::Error| error.to_string())?;
    Duration::try_from(parsed).map_err(|_| "it must not be negative".to_owned())
}
