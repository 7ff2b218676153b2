//! Jobs per second: enqueued, finished without a write, and committed with one insert.
//!
//! `throughput URL [JOBS] [THREADS]`; a URL that begins with `postgres` or `host=` is PostgreSQL, any other a SQLite file.
//! The database must be an empty one.

use std::error::Error;
use std::time::Instant;

use diesel::prelude::*;
use leasehold::{Backend, EnqueueOptions, Handler, Job, LeaseGuard, Outcome, Worker};
use serde::{Deserialize, Serialize};

#[allow(missing_docs, reason = "a table of the bench")]
mod schema {
    diesel::table! { bench_rows (id) { id -> BigInt, job -> BigInt } }
}
use schema::bench_rows;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "finish")]
struct Finish {
    filler: String,
}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "commit")]
struct Commit {
    filler: String,
}

impl<C: Backend> Handler<C> for Finish {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, (): &()) -> Outcome<'j> {
        lease.finish()
    }
}

macro_rules! commit_handler {
    ($C:ty) => {
        impl Handler<$C> for Commit {
            fn run<'j>(self, lease: LeaseGuard<'j, $C>, (): &()) -> Outcome<'j> {
                let job = lease.job_id();
                lease.commit(|tx| {
                    diesel::insert_into(bench_rows::table)
                        .values(bench_rows::job.eq(job))
                        .execute(tx)?;
                    Ok(())
                })
            }
        }
    };
}
#[cfg(feature = "postgres")]
commit_handler!(PgConnection);
#[cfg(feature = "sqlite")]
commit_handler!(SqliteConnection);

type Answer = Result<(), Box<dyn Error>>;

fn measure<C>(url: &str, table: &str, jobs: usize, threads: usize) -> Answer
where
    C: Backend,
    Commit: Handler<C>,
{
    let mut conn = C::establish(url)?;
    conn.batch_execute(table)?;
    leasehold::migrate(&mut conn)?;
    let filler = || "x".repeat(200);
    let few = jobs / 4;
    let finish: Vec<Finish> = (0..jobs).map(|_| Finish { filler: filler() }).collect();
    let commit: Vec<Commit> = (0..few).map(|_| Commit { filler: filler() }).collect();
    let options = EnqueueOptions::new();
    let worker = || Worker::<C, ()>::new(url, ()).threads(threads);

    rate("enqueue one by one", few, || {
        commit
            .iter()
            .try_for_each(|job| job.enqueue(&mut conn).map(drop))
            .map_err(Into::into)
    })?;
    rate("commit, one insert", few, || run(worker().register::<Commit>()))?;
    rate("enqueue in bulk", jobs, || {
        Finish::enqueue_all(&finish, &mut conn, &options)?;
        Ok(())
    })?;
    rate("finish", jobs, || run(worker().register::<Finish>()))?;
    Finish::enqueue_all(&finish, &mut conn, &options)?;
    rate("finish, prefetch 50", jobs, || {
        run(worker().fixed_batch(50).register::<Finish>())
    })?;
    Finish::enqueue_all(&finish[..few], &mut conn, &options)?;
    rate("finish, unbatched", few, || {
        run(worker().unbatched().register::<Finish>())
    })
}

fn run<C: Backend>(worker: Worker<C, ()>) -> Answer {
    let summary = worker.run_until_empty()?;
    if summary.is_success() {
        Ok(())
    } else {
        Err(format!("{summary:?}").into())
    }
}

#[expect(clippy::print_stdout, reason = "a bench prints its figures")]
fn rate(what: &str, jobs: usize, work: impl FnOnce() -> Answer) -> Answer {
    let started = Instant::now();
    work()?;
    let seconds = started.elapsed().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a count of jobs")]
    let rate = jobs as f64 / seconds;
    println!("{what:<20} {jobs:>8} jobs {seconds:>8.2} s {rate:>10.0}/s");
    Ok(())
}

fn main() -> Answer {
    env_logger::init();
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("usage: throughput URL [JOBS] [THREADS]")?;
    let jobs = arguments.next().map_or(Ok(20_000), |jobs| jobs.parse())?;
    let threads = arguments.next().map_or(Ok(8), |threads| threads.parse())?;
    if url.starts_with("postgres") || url.starts_with("host=") {
        #[cfg(feature = "postgres")]
        return measure::<PgConnection>(
            &url,
            "CREATE TABLE bench_rows (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, job bigint NOT NULL)",
            jobs,
            threads,
        );
        #[cfg(not(feature = "postgres"))]
        return Err("built without PostgreSQL: add `--features postgres`".into());
    }
    #[cfg(feature = "sqlite")]
    return measure::<SqliteConnection>(
        &url,
        "CREATE TABLE bench_rows (id INTEGER PRIMARY KEY, job INTEGER NOT NULL)",
        jobs,
        threads,
    );
    #[cfg(not(feature = "sqlite"))]
    Err("built without SQLite: add `--features sqlite`".into())
}
