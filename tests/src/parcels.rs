//! What two programs of different releases have in common that run one kind of job: `src/bin/parcel_1.rs` and
//! `src/bin/parcel_2.rs`.

use std::io::BufRead;
use std::process::ExitCode;
use std::time::Duration;

use leasehold::{Backend, Handler, Job, JobError, LeaseGuard, Outcome, Worker};

/// Runs one of the programs.
///
/// ```text
/// leasehold-test-parcel-1 serve URL      runs jobs, and enqueues what it is told to, until its input ends
/// leasehold-test-parcel-1 enqueue URL    only enqueues
/// ```
///
/// It enqueues parcel `N` when it reads the line `N`, and then prints `enqueued N`.
#[macro_export]
macro_rules! parcel_program {
    ($Parcel:ty, $new:expr) => {
        fn main() -> std::process::ExitCode {
            let arguments: Vec<String> = std::env::args().skip(1).collect();
            let [mode, url] = arguments.as_slice() else {
                return std::process::ExitCode::from(2);
            };
            match url.starts_with("postgres") {
                #[cfg(feature = "postgres")]
                true => $crate::parcels::run::<$Parcel, diesel::PgConnection>(mode, url, $new),
                #[cfg(feature = "sqlite")]
                false => $crate::parcels::run::<$Parcel, diesel::SqliteConnection>(mode, url, $new),
                #[allow(unreachable_patterns, reason = "with both backends there are no others")]
                _ => std::process::ExitCode::from(2),
            }
        }
    };
}

/// See [`parcel_program!`].
#[expect(clippy::print_stdout, reason = "the answer to whoever started it")]
pub fn run<P: Job + Handler<C>, C: Backend>(mode: &str, url: &str, new: fn(i64) -> P) -> ExitCode {
    let worker = Worker::<C, ()>::new(url, ())
        .threads(2)
        .poll_interval(Duration::from_millis(100))
        .register::<P>();
    let running = (mode == "serve").then(|| worker.start().expect("the worker starts"));
    let mut conn = leasehold::__private::Connect::connect(url, &leasehold::__private::ConnectionSettings::default());
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let conn: &mut C = conn.as_mut().expect("a connection");
        let n = line.parse().expect("a number");
        assert!(new(n).enqueue(conn).expect("an enqueue").is_new());
        println!("enqueued {n}");
    }
    if let Some(running) = running {
        running.shutdown(Duration::from_secs(60));
    }
    ExitCode::SUCCESS
}

/// Delivers a parcel: notes it with the program that did and the town that it found in the payload.
///
/// # Errors
///
/// As [`LeaseGuard::commit`].
pub fn deliver<'j, C: Backend>(lease: LeaseGuard<'j, C>, n: i64, program: u32, town: &str) -> Outcome<'j> {
    let note = format!("INSERT INTO parcels (n, program, town) VALUES ({n}, {program}, '{town}')");
    lease.commit(|tx| tx.batch_execute(&note).map_err(JobError::from))
}
