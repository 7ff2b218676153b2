//! The throw-away PostgreSQL of `./test`: the one place that finds, initialises, starts and removes it.
//!
//! ```text
//! leasehold-test-postgres find [--postgres MAJOR]                  prints the directory of the server's binaries
//! leasehold-test-postgres run [--postgres MAJOR] -- COMMAND…       runs a command beside a server, and stops the server
//! ```

#![expect(clippy::print_stdout, reason = "the answer of `find` goes to standard output")]

use std::process::{Command, ExitCode};

use leasehold_test_postgres::{BINARIES_VARIABLE, Cluster, URL_VARIABLE, find};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match answer(&arguments) {
        Ok(code) => code,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn answer(arguments: &[String]) -> Result<ExitCode, String> {
    let usage = || "usage: leasehold-test-postgres (find | run) [--postgres MAJOR] [-- COMMAND…]".to_owned();
    let (verb, rest) = arguments.split_first().ok_or_else(usage)?;
    let (major, rest) = match rest {
        [option, major, rest @ ..] if option == "--postgres" => (Some(major.parse().map_err(|_| usage())?), rest),
        rest => (None, rest),
    };
    match (verb.as_str(), rest) {
        ("find", []) => {
            println!("{}", find(major)?.directory.display());
            Ok(ExitCode::SUCCESS)
        }
        ("run", [dashes, program, arguments @ ..]) if dashes == "--" => run(major, program, arguments),
        _ => Err(usage()),
    }
}

/// Runs the command beside a cluster; beside the server that the environment names, if it does.
fn run(major: Option<u32>, program: &str, arguments: &[String]) -> Result<ExitCode, String> {
    let binaries = find(major)?;
    let mut command = Command::new(program);
    command.args(arguments).env(BINARIES_VARIABLE, &binaries.directory);
    let cluster = std::env::var_os(URL_VARIABLE)
        .is_none()
        .then(|| Cluster::start(&binaries, &[]));
    if let Some(cluster) = &cluster {
        eprintln!("PostgreSQL {} from {}", binaries.major, binaries.directory.display());
        command
            .env(URL_VARIABLE, cluster.url())
            .env(BINARIES_VARIABLE, cluster.binaries());
    }
    let status = command.status().map_err(|error| format!("{program}: {error}"))?;
    Ok(status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .map_or(ExitCode::FAILURE, ExitCode::from))
}
