//! Imports CSV files exactly once, with as many processes as you like at the same time.
//!
//! - `main`: the command line, and the order of things
//! - `find`: which files are meant
//! - `enqueue`: a job for each that is missing
//! - `job`: what a job does
//! - `read`, `quotes`: from bytes to rows
//! - `tables`, `database`, `backends`: the tables, on both backends
//! - `progress`, `report`: what the user sees

#![cfg_attr(
    not(any(feature = "sqlite", feature = "postgres")),
    allow(unused, unreachable_code, reason = "no backend to run on")
)]
#![expect(clippy::print_stdout, reason = "the report goes to standard output")]

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use leasehold::{Handler, Worker};

#[macro_use]
mod backends;
mod database;
mod enqueue;
mod find;
mod job;
mod progress;
mod quotes;
mod read;
mod report;
mod tables;

use database::Kind;
use find::Found;
use job::ImportFile;
use report::Report;
use tables::Tables;

/// Imports CSV files exactly once, with as many processes as you like at the same time.
#[derive(Debug, Parser)]
#[command(
    name = "import",
    after_help = "Ends with 0, with 1 if something was not imported, with 2 if used wrongly, with 130 after a signal."
)]
struct Arguments {
    /// Where the rows go: a SQLite file, or postgres://… for several machines
    #[arg(long, value_name = "URL", default_value = "import.db")]
    database: String,
    /// How many files are imported at the same time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,
    /// CSV files, or folders with *.csv files in them
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
}

fn main() -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("warn")).init();
    let arguments = Arguments::parse();
    let kind = Kind::of(&arguments.database).unwrap_or_else(|why| wrong_usage(why));
    let found = find::files(&arguments.paths).unwrap_or_else(|why| wrong_usage(why));
    let imported: Result<ExitCode, Box<dyn Error>> = match kind {
        #[cfg(feature = "sqlite")]
        Kind::Sqlite => import::<diesel::SqliteConnection>(&arguments, found),
        #[cfg(feature = "postgres")]
        Kind::Postgres => import::<diesel::PgConnection>(&arguments, found),
        #[cfg(not(all(feature = "sqlite", feature = "postgres")))]
        missing => wrong_usage(missing.is_not_built_in()),
    };
    imported.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

fn wrong_usage(why: String) -> ! {
    Arguments::command().error(ErrorKind::ValueValidation, why).exit()
}

fn import<C: Tables>(arguments: &Arguments, found: Vec<Found>) -> Result<ExitCode, Box<dyn Error>>
where
    ImportFile: Handler<C>,
{
    let mut conn = database::open::<C>(&arguments.database)?;
    let given = enqueue::enqueue(&mut conn, found)?;
    let summary = Worker::<C, _>::new(&arguments.database, ())
        .threads(usize::from(arguments.workers))
        .register::<ImportFile>()
        .stop_on_signals()
        .progress_bar()
        .on_progress(progress::plain_lines())
        .run_until_empty()?;
    let report = Report::of(&mut conn, given)?;
    println!("{report}");
    Ok(match summary.interrupted {
        true => summary.exit_code(),
        false if report.is_success() => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}
