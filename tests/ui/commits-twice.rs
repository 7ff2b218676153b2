use diesel::SqliteConnection;
use leasehold::{Handler, Job, LeaseGuard, Outcome};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "greet")]
struct Greet;

impl Handler<SqliteConnection> for Greet {
    fn run<'j>(self, lease: LeaseGuard<'j, SqliteConnection>, _: &()) -> Outcome<'j> {
        lease.commit(|_| Ok(()))?;
        lease.commit(|_| Ok(()))
    }
}

fn main() {}
