use diesel::SqliteConnection;
use leasehold::{Handler, Job, JobError, LeaseGuard, Outcome};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "greet")]
struct Greet;

impl Handler<SqliteConnection> for Greet {
    fn run<'j>(self, mut lease: LeaseGuard<'j, SqliteConnection>, _: &()) -> Outcome<'j> {
        let _conn = lease.read(|conn| Ok::<_, JobError>(conn))?;
        let mut kept = None;
        let receipt = lease.commit(|tx| {
            kept = Some(tx);
            Ok(())
        });
        drop(kept);
        receipt
    }
}

fn main() {}
