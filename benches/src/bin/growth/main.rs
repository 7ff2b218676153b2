//! How the cost of a job grows: with what lies in the tables, and with time.
//!
//! `growth [--seconds N] [--runs N] [--largest N] [--minutes N] [--minutes-of-reference N] [--only TEXT]`

mod fill;
mod jobs;
mod load;
mod reference;
mod sizes;
mod time;

use std::time::Duration;

use fill::Full;
use leasehold_benches::statements;
use leasehold_benches::work::Answer;

/// Threads of the library's worker.
const THREADS: usize = 8;
/// Clients of the reference.
const CLIENTS: usize = 4;

#[derive(Debug, Clone)]
struct Options {
    seconds: f64,
    runs: usize,
    largest: usize,
    minutes: f64,
    minutes_of_reference: f64,
    only: Option<String>,
}

impl Options {
    fn read() -> Answer<Self> {
        let mut options = Self {
            seconds: 4.0,
            runs: 3,
            largest: 1_000_000,
            minutes: 3.0,
            minutes_of_reference: 0.0,
            only: None,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
            match name.as_str() {
                "--seconds" => options.seconds = value.parse()?,
                "--runs" => options.runs = value.parse()?,
                "--largest" => options.largest = value.parse()?,
                "--minutes" => options.minutes = value.parse()?,
                "--minutes-of-reference" => options.minutes_of_reference = value.parse()?,
                "--only" => options.only = Some(value),
                _ => return Err(format!("unknown option {name}").into()),
            }
        }
        Ok(options)
    }

    fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.contains(only.as_str()))
    }

    /// The first is the one that the others are compared with.
    fn cases(&self) -> Vec<Full> {
        let ready = [10_000, 100_000, 1_000_000, 10_000_000].map(Full::Ready);
        let others = [
            Full::Finished(1_000_000.min(self.largest)),
            Full::Scheduled(100_000.min(self.largest)),
            Full::Blocked(100_000.min(self.largest)),
            Full::BlockedKeys(100_000.min(self.largest)),
            Full::Paused(100_000.min(self.largest)),
        ];
        let wanted = |full: &Full| full.backlog() <= self.largest && self.wants(&full.name());
        let mut cases = vec![Full::Ready(1000)];
        cases.extend(ready.into_iter().chain(others).filter(wanted));
        cases
    }

    /// Of a series over time.
    fn interval(&self) -> Duration {
        Duration::from_secs_f64((self.minutes * 60.0 / 6.0).clamp(0.1, 10.0))
    }
}

fn main() -> Answer {
    env_logger::init();
    let options = Options::read()?;
    statements::record()?;
    if options.cases().len() > 1 {
        sizes::run(&options)?;
    }
    if options.minutes > 0.0 {
        time::run(&options)?;
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "a bench prints its figures")]
fn tell(line: &str) {
    println!("{line}");
}
