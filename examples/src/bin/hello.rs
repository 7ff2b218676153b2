//! The shortest program: a kind of job, one job of it, and a worker.

#![expect(clippy::print_stdout, reason = "the example's output")]

use std::error::Error;

use diesel::SqliteConnection;
use leasehold::{Handler, Job, LeaseGuard, Outcome, Worker};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "hello")]
struct Hello {
    name: String,
}

impl Handler<SqliteConnection> for Hello {
    fn run<'j>(self, lease: LeaseGuard<'j, SqliteConnection>, _: &()) -> Outcome<'j> {
        println!("Hello, {}!", self.name);
        lease.finish()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (_folder, url, mut conn) = leasehold_examples::temporary_database()?;
    Hello {
        name: "world".to_owned(),
    }
    .enqueue(&mut conn)?;
    let summary = Worker::<SqliteConnection, _>::new(url, ())
        .register::<Hello>()
        .run_until_empty()?;
    println!("{} completed", summary.counts.completed);
    Ok(())
}
