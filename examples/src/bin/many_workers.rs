//! Several processes work on one database: each job is done once, whoever gets it.

#![expect(clippy::print_stdout, reason = "the example's output")]

use std::error::Error;
use std::process::{Child, Command, id};

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use leasehold::{EnqueueOptions, Handler, Job, LeaseGuard, Outcome, Worker};
use serde::{Deserialize, Serialize};

const JOBS: i32 = 200;
const PROCESSES: usize = 3;

diesel::table! {
    /// What was done. Nothing in it would stop a job from being done twice.
    done (number, process) {
        /// The job's number.
        number -> Integer,
        /// The process that did it.
        process -> BigInt,
    }
}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "count")]
struct Count {
    number: i32,
}

impl Handler<SqliteConnection> for Count {
    fn run<'j>(self, lease: LeaseGuard<'j, SqliteConnection>, _: &()) -> Outcome<'j> {
        lease.commit(|tx| {
            let row = (done::number.eq(self.number), done::process.eq(i64::from(id())));
            diesel::insert_into(done::table).values(row).execute(tx)?;
            Ok(())
        })
    }
}

fn work(url: String) -> Result<(), Box<dyn Error>> {
    let summary = Worker::<SqliteConnection, _>::new(url, ())
        .threads(2)
        .register::<Count>()
        .run_until_empty()?;
    if summary.is_success() {
        Ok(())
    } else {
        Err("a job failed".into())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    // The program starts itself again with the database's URL, once for each worker process.
    if let Some(url) = std::env::args().nth(1) {
        return work(url);
    }
    let (_folder, url, mut conn) = leasehold_examples::temporary_database()?;
    conn.batch_execute("CREATE TABLE done (number INTEGER NOT NULL, process BIGINT NOT NULL)")?;
    let jobs: Vec<Count> = (1..=JOBS).map(|number| Count { number }).collect();
    Count::enqueue_all(&jobs, &mut conn, &EnqueueOptions::new())?;

    let program = std::env::current_exe()?;
    let start = |_| Command::new(&program).arg(&url).spawn();
    let workers: Vec<Child> = (0..PROCESSES).map(start).collect::<Result<_, _>>()?;
    for mut worker in workers {
        let status = worker.wait()?;
        println!("a worker process ended with {}", status.code().unwrap_or(-1));
    }

    let mut numbers: Vec<i32> = done::table.select(done::number).order(done::number).load(&mut conn)?;
    println!("{JOBS} jobs, {} rows", numbers.len());
    numbers.dedup();
    println!("{} jobs have a row", numbers.len());
    Ok(())
}
