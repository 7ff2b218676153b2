//! One job at a time for what is the same: kept, replaced and moved, or once within a period.

#![expect(clippy::print_stdout, reason = "the example's output")]

use std::error::Error;
use std::time::Duration;

use diesel::SqliteConnection;
use leasehold::{EnqueueError, EnqueueOptions, Enqueued, Handler, Job, LeaseGuard, OnConflict, Outcome, Worker};
use serde::{Deserialize, Serialize};

/// While one waits or runs for an account, no second one is enqueued.
#[derive(Serialize, Deserialize, Job)]
#[job(kind = "invoice", unique(by = "account"))]
struct Invoice {
    account: u32,
}

/// Of many changes of a page in a short time, the last one is indexed, once.
#[derive(Serialize, Deserialize, Job)]
#[job(kind = "index", unique(by = "page", on_conflict = "replace, reschedule"))]
struct Index {
    page: String,
    text: String,
}

/// One an hour, even if it has been sent already.
#[derive(Serialize, Deserialize, Job)]
#[job(kind = "remind", unique(by = "user", within = "1h"))]
struct Remind {
    user: String,
}

impl Handler<SqliteConnection> for Invoice {
    fn run<'j>(self, lease: LeaseGuard<'j, SqliteConnection>, _: &()) -> Outcome<'j> {
        println!("  runs: the invoice of account {}", self.account);
        lease.finish()
    }
}

impl Handler<SqliteConnection> for Index {
    fn run<'j>(self, lease: LeaseGuard<'j, SqliteConnection>, _: &()) -> Outcome<'j> {
        println!("  runs: index {} with {:?}", self.page, self.text);
        lease.finish()
    }
}

impl Handler<SqliteConnection> for Remind {
    fn run<'j>(self, lease: LeaseGuard<'j, SqliteConnection>, _: &()) -> Outcome<'j> {
        println!("  runs: remind {}", self.user);
        lease.finish()
    }
}

fn tell(what: &str, enqueued: Enqueued) {
    match enqueued {
        Enqueued::New { id } => println!("{what}: new job {id}"),
        Enqueued::Existing { id } => println!("{what}: job {id} is there"),
        Enqueued::Updated { id } => println!("{what}: job {id} has it now"),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (_folder, url, mut conn) = leasehold_examples::temporary_database()?;
    let run = || {
        Worker::<SqliteConnection, _>::new(&url, ())
            .threads(1)
            .register::<Invoice>()
            .register::<Index>()
            .register::<Remind>()
            .run_until_empty()
    };

    tell("invoice of account 7", Invoice { account: 7 }.enqueue(&mut conn)?);
    tell("invoice of account 7", Invoice { account: 7 }.enqueue(&mut conn)?);
    tell("invoice of account 8", Invoice { account: 8 }.enqueue(&mut conn)?);
    let reject = EnqueueOptions::new().on_conflict(OnConflict::Reject);
    match (Invoice { account: 8 }).enqueue_with(&mut conn, &reject) {
        Err(EnqueueError::UniqueConflict { id }) => println!("invoice of account 8: refused, for job {id} is there"),
        other => tell("invoice of account 8", other?),
    }
    run()?;
    tell("invoice of account 7", Invoice { account: 7 }.enqueue(&mut conn)?);
    run()?;

    let soon = EnqueueOptions::new().delay(Duration::from_millis(300));
    for text in ["draft", "draft 2", "final"] {
        let index = Index {
            page: "/news".to_owned(),
            text: text.to_owned(),
        };
        tell(
            &format!("index /news with {text:?}"),
            index.enqueue_with(&mut conn, &soon)?,
        );
    }
    run()?;

    let remind = Remind { user: "ada".to_owned() };
    tell("remind ada", remind.enqueue(&mut conn)?);
    run()?;
    tell("remind ada", remind.enqueue(&mut conn)?);
    Ok(())
}
