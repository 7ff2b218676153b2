//! Worker processes under every fault at once, from a printed seed, and whether the promise held.
//!
//! ```text
//! torture --database postgres --seconds 60 --crashes
//! ```

#[cfg(any(feature = "sqlite", feature = "postgres"))]
#[expect(clippy::print_stdout, reason = "the report")]
fn main() -> std::process::ExitCode {
    use std::path::Path;
    use std::process::ExitCode;

    use clap::Parser;
    use leasehold_torture::{Settings, run, worker};

    let arguments: Vec<String> = std::env::args().collect();
    if let [_, role, url, log] = arguments.as_slice()
        && role == "worker"
    {
        return worker::main(url, Path::new(log));
    }
    let report = run(&Settings::parse(), Path::new(&arguments[0]));
    println!("{report}");
    if report.violations.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

#[cfg(not(any(feature = "sqlite", feature = "postgres")))]
fn main() {}
