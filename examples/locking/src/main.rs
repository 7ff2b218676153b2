//! What row locks of PostgreSQL do and do not do, shown by sessions that are in each other's way.
//!
//! ```text
//! locking                      plays every demonstration
//! locking NAME…                plays these
//! locking --list               names them
//! locking --database URL …     plays them in a database of their own beside that one, instead of on a throw-away server
//! ```

#![expect(clippy::print_stdout, reason = "the transcripts go to standard output")]

mod answer;
mod database;
mod demonstrations;
mod session;
mod stage;

use std::process::ExitCode;

use clap::Parser;
use clap::builder::PossibleValuesParser;

use database::Server;
use demonstrations::DEMONSTRATIONS;
use stage::{Demonstration, Stage};

type Failure = Box<dyn std::error::Error>;

/// Two-session demonstrations of what row locks of PostgreSQL do and do not do.
///
/// Each has a database of its own, which is dropped at its end.
#[derive(Debug, Parser)]
struct Options {
    /// Which to play; all of them, if none is named.
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(DEMONSTRATIONS.iter().map(|one| one.name)))]
    names: Vec<String>,

    /// Names the demonstrations, and plays none.
    #[arg(long)]
    list: bool,

    /// A server where the role may create databases, as <postgres://user@host/database>, without TLS. Without it, a server is
    /// started and thrown away at the end. `token_reuse` crashes its server, and always starts one of its own.
    #[arg(long, value_name = "URL")]
    database: Option<String>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    if options.list {
        for one in DEMONSTRATIONS {
            println!("{:20} {} ({})", one.name, one.lesson, one.facts);
        }
        return ExitCode::SUCCESS;
    }
    let chosen = |one: &&Demonstration| options.names.is_empty() || options.names.iter().any(|name| name == one.name);
    match play_all(options.database, DEMONSTRATIONS.iter().filter(chosen)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn play_all<'d>(url: Option<String>, chosen: impl Iterator<Item = &'d Demonstration>) -> Result<(), Failure> {
    let server = Server::new(url)?;
    for (number, one) in chosen.enumerate() {
        if number > 0 {
            println!("\n");
        }
        let database = server.create_database()?;
        let mut stage = Stage::new(one, database.url());
        (one.play)(&mut stage).map_err(|failure| format!("{}: {failure}", one.name))?;
    }
    Ok(())
}
