use diesel::SqliteConnection;
use leasehold::{Handler, Job, JobError, LeaseGuard, Outcome};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "greet")]
struct Greet;

impl Handler<SqliteConnection> for Greet {
    fn run<'j>(self, lease: LeaseGuard<'j, SqliteConnection>, _: &()) -> Outcome<'j> {
        std::thread::spawn(move || drop(lease.finish()));
        Err(JobError::retry("it runs on"))
    }
}

fn main() {}
