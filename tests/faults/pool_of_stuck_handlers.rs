use std::time::Duration;

use crossbeam_channel::bounded;
use leasehold::{Handler, Job, LeaseGuard, Outcome, Worker};
use leasehold_tests::postgres::database;
use serde::{Deserialize, Serialize};

use crate::probe::*;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "hangs", timeout = "200ms", backoff = "fixed(1h)")]
struct Hangs;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "writes")]
struct Writes;

type App = crossbeam_channel::Receiver<()>;

impl<C: Backend> Handler<C, App> for Hangs {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, app: &App) -> Outcome<'j> {
        lease.commit(|_| {
            let _ = app.recv();
            Ok(())
        })
    }
}

impl<C: Backend> Handler<C, App> for Writes {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, _: &App) -> Outcome<'j> {
        lease.commit(|_| Ok(()))
    }
}

/// The threads that replace stuck ones must not wait for the connections that those hold.
#[test]
fn handlers_stuck_in_their_commits_do_not_keep_the_connections_from_the_others() {
    let db = database();
    let mut conn = migrated(&db);
    let (hold, held) = bounded::<()>(0);
    let worker = Worker::<diesel::PgConnection, App>::new(db.url(), held)
        .threads(2)
        .register::<Hangs>()
        .register::<Writes>();
    for _ in 0..2 {
        Hangs.enqueue(&mut conn).unwrap();
    }
    let running = worker.start().unwrap();
    eventually(SOON, "both are stuck", || running.stuck_handlers() == 2);
    Writes.enqueue(&mut conn).unwrap();
    wait_completed(&running, 1);
    // Timed out in this process, they are fenced once that is in the database.
    eventually(SOON, "both are fenced", || running.counts().retried == 2);
    drop(hold);
    eventually(SOON, "they return", || running.stuck_handlers() == 0);
    assert_eq!(running.counts().completed, 1);
    running.shutdown(Duration::from_secs(5));
}
