use diesel::SqliteConnection;
use leasehold::{Handler, Job, LeaseGuard, Outcome, Worker};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "greet")]
struct Greet;

struct App;

impl Handler<SqliteConnection, App> for Greet {
    fn run<'j>(self, lease: LeaseGuard<'j, SqliteConnection>, _: &App) -> Outcome<'j> {
        lease.finish()
    }
}

fn main() {
    let _ = Worker::<SqliteConnection, _>::new("jobs.db", ()).register::<Greet>();
}
