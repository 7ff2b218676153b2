//! What jobs that wait for a limit cost those that do not: jobs per second with nothing blocked, with 100,000 jobs blocked
//! behind one key, and with 10,000 keys that have a blocked job each.
//!
//! `limits URL [JOBS] [THREADS]`; a URL that begins with `postgres` or `host=` is PostgreSQL, any other a SQLite file.
//! The database must be an empty one.

use std::error::Error;
use std::time::{Duration, Instant};

use diesel::prelude::*;
use leasehold::{Backend, EnqueueOptions, Handler, Job, LeaseGuard, Outcome, Worker};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "free")]
struct Free {
    filler: String,
}

/// In a queue that nobody serves, so one of each tenant holds the place for ever.
#[derive(Serialize, Deserialize, Job)]
#[job(kind = "held", queue = "nowhere", concurrency(by = "tenant", max = 1))]
struct HeldUp {
    tenant: usize,
}

impl<C: Backend> Handler<C> for Free {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, (): &()) -> Outcome<'j> {
        lease.finish()
    }
}

impl<C: Backend> Handler<C> for HeldUp {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, (): &()) -> Outcome<'j> {
        lease.finish()
    }
}

type Answer = Result<(), Box<dyn Error>>;

fn measure<C: Backend>(url: &str, jobs: usize, threads: usize) -> Answer {
    let mut conn = C::establish(url)?;
    leasehold::migrate(&mut conn)?;
    let options = EnqueueOptions::new();
    let free: Vec<Free> = (0..jobs)
        .map(|_| Free {
            filler: "x".repeat(200),
        })
        .collect();
    let rate = |what: &str, conn: &mut C| -> Answer {
        Free::enqueue_all(&free, conn, &options)?;
        let worker = Worker::<C, ()>::new(url, ())
            .threads(threads)
            .queues(["default"])
            .patience(Duration::ZERO);
        let started = Instant::now();
        let summary = worker.register::<Free>().register::<HeldUp>().run_until_empty()?;
        tell(what, summary.counts.completed, started.elapsed().as_secs_f64());
        Ok(())
    };
    rate("nothing blocked", &mut conn)?;
    let one: Vec<HeldUp> = (0..100_000).map(|_| HeldUp { tenant: 0 }).collect();
    HeldUp::enqueue_all(&one, &mut conn, &options)?;
    rate("100,000 behind one key", &mut conn)?;
    let many: Vec<HeldUp> = (0..20_000).map(|n| HeldUp { tenant: 1 + n % 10_000 }).collect();
    HeldUp::enqueue_all(&many, &mut conn, &options)?;
    rate("10,000 keys more, admitted", &mut conn)?;
    rate("10,000 keys more, blocked", &mut conn)
}

#[expect(clippy::print_stdout, reason = "a bench prints its figures")]
fn tell(what: &str, jobs: u64, seconds: f64) {
    #[expect(clippy::cast_precision_loss, reason = "a count of jobs")]
    let rate = jobs as f64 / seconds;
    println!("{what:<28} {jobs:>8} jobs {seconds:>8.2} s {rate:>10.0}/s");
}

fn main() -> Answer {
    env_logger::init();
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("usage: blocked URL [JOBS] [THREADS]")?;
    let jobs = arguments.next().map_or(Ok(20_000), |jobs| jobs.parse())?;
    let threads = arguments.next().map_or(Ok(8), |threads| threads.parse())?;
    if url.starts_with("postgres") || url.starts_with("host=") {
        #[cfg(feature = "postgres")]
        return measure::<PgConnection>(&url, jobs, threads);
        #[cfg(not(feature = "postgres"))]
        return Err("built without PostgreSQL: add `--features postgres`".into());
    }
    #[cfg(feature = "sqlite")]
    return measure::<SqliteConnection>(&url, jobs, threads);
    #[cfg(not(feature = "sqlite"))]
    Err("built without SQLite: add `--features sqlite`".into())
}
