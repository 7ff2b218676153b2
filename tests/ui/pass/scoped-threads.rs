use std::thread;

use diesel::SqliteConnection;
use leasehold::{Handler, Job, JobError, LeaseGuard, Outcome};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "greet")]
struct Greet;

impl Handler<SqliteConnection> for Greet {
    fn run<'j>(self, lease: LeaseGuard<'j, SqliteConnection>, _: &()) -> Outcome<'j> {
        let watch = lease.watch();
        thread::spawn(move || watch.is_lost() || watch.is_cancel_requested());
        thread::scope(|scope| {
            let watch = lease.watch();
            scope.spawn(move || watch.remaining());
            scope.spawn(move || lease.finish()).join().unwrap_or_else(|_| Err(JobError::retry("it panicked")))
        })
    }
}

fn main() {}
