//! Leasehold and other queues on PostgreSQL, measured in one run. See README.md.

mod child;
mod database;
mod options;
mod order;
mod report;
mod rounds;
mod stats;
mod systems;

use std::process::ExitCode;

use crate::child::Outcome;
use crate::database::Server;
use crate::options::{Options, USAGE};

fn main() -> ExitCode {
    match answer() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn answer() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [verb, order] if verb == "child" => {
            let answer = child::run(&serde_json::from_str(order)?)?;
            println!("{}", serde_json::to_string(&answer)?);
            // Nothing is stopped in order: some of the workers cannot be.
            std::process::exit(0);
        }
        [help] if help == "--help" => {
            println!("{USAGE}");
            Ok(())
        }
        arguments => {
            let options = Options::parse(arguments)?;
            let mut server = Server::connect()?;
            let results = rounds::run(&mut server, &options)?;
            report::write(&results, &options)
        }
    }
}
