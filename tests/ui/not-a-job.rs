use diesel::SqliteConnection;
use leasehold::{Handler, Job, LeaseGuard, Outcome};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Greet;

impl Handler<SqliteConnection> for Greet {
    fn run<'j>(self, lease: LeaseGuard<'j, SqliteConnection>, _: &()) -> Outcome<'j> {
        lease.finish()
    }
}

fn enqueue(_: &impl Job) {}

fn main() {
    enqueue(&Greet);
}
