//! How long a job that is enqueued waits for its handler to begin: idle, under half load, for one process and many, each
//! beside bare statements in the same run; and what a worker costs that has nothing to do.
//!
//! `latency [--seconds N] [--runs N] [--processes 1,2,4,8] [--database postgres|sqlite]`

mod measure;
mod team;
mod worker;

use std::time::Duration;

use leasehold_benches::work::Answer;

/// What was asked for.
#[derive(Debug, Clone)]
struct Options {
    /// Of each measurement.
    seconds: f64,
    runs: usize,
    processes: Vec<usize>,
    idle_seconds: f64,
    postgres: bool,
    sqlite: bool,
}

impl Options {
    fn read(arguments: &[String]) -> Answer<Self> {
        let mut options = Self {
            seconds: 5.0,
            runs: 5,
            processes: vec![1, 2, 4, 8],
            idle_seconds: 10.0,
            postgres: true,
            sqlite: true,
        };
        let mut arguments = arguments.iter();
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
            match name.as_str() {
                "--seconds" => options.seconds = value.parse()?,
                "--runs" => options.runs = value.parse()?,
                "--idle-seconds" => options.idle_seconds = value.parse()?,
                "--processes" => {
                    options.processes = value.split(',').map(str::parse).collect::<Result<_, _>>()?;
                }
                "--database" => {
                    options.postgres = value == "postgres";
                    options.sqlite = value == "sqlite";
                }
                _ => return Err(format!("unknown option {name}").into()),
            }
        }
        Ok(options)
    }

    fn time(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }
}

fn main() -> Answer {
    env_logger::init();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "worker") {
        return worker::main(&arguments[1..]);
    }
    let options = Options::read(&arguments)?;
    #[cfg(feature = "postgres")]
    if options.postgres {
        measure::postgres(&options)?;
    }
    #[cfg(feature = "sqlite")]
    if options.sqlite {
        measure::sqlite(&options)?;
    }
    Ok(())
}
