use std::sync::Mutex;

use diesel::SqliteConnection;
use leasehold::{Handler, Job, LeaseGuard, Outcome, Receipt};
use serde::{Deserialize, Serialize};

static STASH: Mutex<Option<Receipt<'static>>> = Mutex::new(None);

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "greet")]
struct Greet;

impl Handler<SqliteConnection> for Greet {
    fn run<'j>(self, lease: LeaseGuard<'j, SqliteConnection>, _: &()) -> Outcome<'j> {
        let receipt = lease.finish()?;
        let mut stash = STASH.lock().unwrap();
        Ok(stash.replace(receipt).unwrap())
    }
}

fn main() {}
