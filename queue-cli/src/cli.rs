//! What can be said on the command line.

use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use jiff::SignedDuration;

mod by;
pub(crate) use by::By;

mod look;
pub(crate) use look::{Actions, Batches, List, Show};

mod change;
pub(crate) use change::{Cancel, Discard, Edit, Enqueue, Pause, Paused, Purge, Requeue, Resume};

#[cfg(feature = "serve")]
mod serve;
#[cfg(feature = "serve")]
pub(crate) use serve::Serve;

mod which;
pub(crate) use which::{Chosen, FinishedState, Sure, Which};

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
    /// Jobs by queue and state, counted up to a bound: `5000+`
    Stats(Stats),
    /// Jobs, one a line, the newest first
    List(List),
    /// One job: attempts, errors, steps, progress, and who did what to it
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
    Resume(Resume),
    /// Pauses that hold
    Pauses,
    /// Cron schedules
    #[command(subcommand)]
    Schedules(Schedules),
    /// Who did what by hand, the newest first
    Actions(Actions),
    /// Batches, the newest first
    Batches(Batches),
    /// One batch, with the counts of its jobs
    Batch {
        /// Its id
        id: i64,
        /// Counts every job, which takes longer the more there are
        #[arg(long)]
        exact: bool,
    },
    /// Removes jobs that have ended
    Purge(Purge),
    /// Says what is wrong with the database, and what to do
    Doctor,
    /// A live view: queues, rates, running jobs with their leases, failures; keys to pause, cancel and requeue
    Top(Top),
    /// Shows all of it on a web page: to this machine only, unless there is a token
    #[cfg(feature = "serve")]
    Serve(Serve),
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

#[derive(Debug, Args)]
pub(crate) struct Stats {
    /// Counts every job, which takes longer the more there are
    #[arg(long)]
    pub(crate) exact: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Top {
    /// How often it looks
    #[arg(long, default_value = "2s", value_name = "TIME", value_parser = interval)]
    pub(crate) interval: Duration,
    #[command(flatten)]
    pub(crate) by: By,
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
        #[command(flatten)]
        by: By,
    },
    /// Fires again
    Resume {
        /// Its name
        name: String,
        #[command(flatten)]
        by: By,
    },
    /// Removes it; one that a program defines comes back when the program starts
    Remove {
        /// Its name
        name: String,
        #[command(flatten)]
        by: By,
        #[command(flatten)]
        sure: Sure,
    },
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

/// Not so often that looking is all that the database does.
fn interval(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        short if short < Duration::from_millis(100) => Err("it must be 100ms or longer".to_owned()),
        interval => Ok(interval),
    }
}
