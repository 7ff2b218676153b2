use diesel::SqliteConnection;
use leasehold::{Handler, Job, LeaseGuard, Outcome};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "greet")]
struct Greet;

impl Handler<SqliteConnection> for Greet {
    fn run<'j>(self, lease: LeaseGuard<'j, SqliteConnection>, _: &()) -> Outcome<'j> {
        let another = lease.clone();
        lease.commit(|_| Ok(()))?;
        another.finish()
    }
}

fn main() {}
