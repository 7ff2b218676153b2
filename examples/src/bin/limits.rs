//! Limits over all threads and machines: so many at a time for each tenant, and one after the other for each account.

#![expect(clippy::print_stdout, reason = "the example's output")]

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use diesel::SqliteConnection;
use leasehold::{Handler, Job, JobError, LeaseGuard, Outcome, Worker};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "sync", concurrency(by = "tenant", max = 2))]
struct Sync {
    tenant: String,
    page: u32,
}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "book", serial(by = "account"), backoff = "fixed(10ms)")]
struct Book {
    account: u32,
    entry: String,
}

/// What the handlers see.
#[derive(Default)]
struct Seen {
    /// For each tenant how many run, the most that ever ran, and how many are done.
    tenants: BTreeMap<String, (u32, u32, u32)>,
    entries: BTreeMap<u32, Vec<String>>,
}

type App = Arc<Mutex<Seen>>;

impl Handler<SqliteConnection, App> for Sync {
    fn run<'j>(self, lease: LeaseGuard<'j, SqliteConnection>, app: &App) -> Outcome<'j> {
        let change = |by: fn(&mut (u32, u32, u32))| {
            let mut seen = app.lock().unwrap_or_else(PoisonError::into_inner);
            by(seen.tenants.entry(self.tenant.clone()).or_default());
        };
        change(|(running, most, _)| {
            *running += 1;
            *most = (*most).max(*running);
        });
        std::thread::sleep(Duration::from_millis(u64::from(self.page % 5)));
        change(|(running, _, done)| {
            *running -= 1;
            *done += 1;
        });
        lease.finish()
    }
}

impl Handler<SqliteConnection, App> for Book {
    fn run<'j>(self, lease: LeaseGuard<'j, SqliteConnection>, app: &App) -> Outcome<'j> {
        // It fails once, and keeps its turn all the same.
        if self.entry == "pay" && lease.attempt() == 1 {
            return Err(JobError::retry("the bank does not answer"));
        }
        let mut seen = app.lock().unwrap_or_else(PoisonError::into_inner);
        seen.entries.entry(self.account).or_default().push(self.entry);
        drop(seen);
        lease.finish()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (_folder, url, mut conn) = leasehold_examples::temporary_database()?;
    for page in 1..=20 {
        for tenant in ["acme", "zenith"] {
            let tenant = tenant.to_owned();
            Sync { tenant, page }.enqueue(&mut conn)?;
        }
    }
    for entry in ["open", "pay", "close"] {
        for account in [1, 2] {
            let entry = entry.to_owned();
            Book { account, entry }.enqueue(&mut conn)?;
        }
    }
    let app = App::default();
    let worker = Worker::<SqliteConnection, _>::new(&url, Arc::clone(&app)).threads(8);
    worker.register::<Sync>().register::<Book>().run_until_empty()?;

    let seen = app.lock().unwrap_or_else(PoisonError::into_inner);
    for (tenant, (_, most, done)) in &seen.tenants {
        let held = if *most <= 2 {
            "never more than two at a time"
        } else {
            "too many at a time"
        };
        println!("{tenant}: {done} done, {held}");
    }
    for (account, entries) in &seen.entries {
        println!("account {account}: {}", entries.join(", "));
    }
    Ok(())
}
