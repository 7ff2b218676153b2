use diesel::{PgConnection, SqliteConnection};
use leasehold::{Handler, Job, LeaseGuard, Outcome, Worker};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "greet")]
struct Greet;

impl Handler<SqliteConnection> for Greet {
    fn run<'j>(self, lease: LeaseGuard<'j, SqliteConnection>, _: &()) -> Outcome<'j> {
        lease.finish()
    }
}

fn main() {
    let _ = Worker::<PgConnection, _>::new("postgres:///jobs", ()).register::<Greet>();
}
