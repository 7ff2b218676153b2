use diesel::SqliteConnection;
use leasehold::{Handler, Job, LeaseGuard, Outcome};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "greet")]
struct Greet;

impl Handler<SqliteConnection> for Greet {
    fn run(self, lease: LeaseGuard<'static, SqliteConnection>, _: &()) -> Outcome<'static> {
        lease.finish()
    }
}

fn main() {}
