//! The command line of leasehold.
//!
//! [`cli`] has the words that can be said, [`database`] opens what `--database` names, [`commands`] has a file for each
//! command and [`top`] the live view, [`output`] says the answer to people or programs, and [`failure`] has the exit codes.

#![cfg_attr(
    not(any(feature = "sqlite", feature = "postgres")),
    expect(dead_code, reason = "without a backend there is no database to run a command on")
)]

use std::process::ExitCode;

use clap::Parser;

mod cli;
mod commands;
mod database;
mod failure;
mod output;
mod top;

fn main() -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("error")).init();
    let cli = cli::Cli::parse();
    match commands::run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.tell(),
    }
}
