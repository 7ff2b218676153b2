//! One worker process.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use leasehold::Worker;

use crate::jobs::{Effects, Hit, Idle, Poison};
use crate::log::Log;

/// Runs jobs until it is killed, or its input ends.
pub fn main(url: &str, path: &Path) -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("off")).init();
    // Handlers panic on purpose.
    std::panic::set_hook(Box::new(|_| {}));
    let log = match Log::open(path) {
        Ok(log) => log,
        Err(error) => {
            eprintln!("{}: {error}", path.display());
            return ExitCode::from(2);
        }
    };
    match url.starts_with("postgres") {
        #[cfg(feature = "postgres")]
        true => run::<diesel::PgConnection>(url, &log),
        #[cfg(feature = "sqlite")]
        false => run::<diesel::SqliteConnection>(url, &log),
        #[allow(unreachable_patterns, reason = "with both backends there are no others")]
        _ => ExitCode::from(2),
    }
}

fn run<C: Effects>(url: &str, log: &Log) -> ExitCode {
    let worker = || {
        Worker::<C, Log>::new(url, log.clone())
            .threads(2)
            .poll_interval(Duration::from_millis(200))
            .sweep_interval(Duration::from_millis(200))
            .register::<Hit>()
            .register::<Idle>()
            .register::<Poison>()
    };
    // The server may be down at this moment.
    let running = loop {
        match worker().start() {
            Ok(running) => break running,
            Err(error) => {
                log::warn!("not started: {error}");
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    };
    // Its parent keeps the other end open for as long as it lives.
    let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
    running.shutdown(Duration::from_secs(10));
    ExitCode::SUCCESS
}
