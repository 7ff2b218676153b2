//! Stopping: no further job begins, and what does not end in time is abandoned: its late commit is refused.

#![expect(clippy::print_stdout, reason = "the example's output")]

use std::error::Error;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Sender, unbounded};
use diesel::SqliteConnection;
use leasehold::{Handler, Job, LeaseGuard, Outcome, Schema, Worker, inspect};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "task")]
enum Task {
    /// Ends while the worker stops.
    Short,
    /// Ends long after that.
    Long,
}

struct App {
    begun: Sender<()>,
    late: Sender<String>,
}

impl Handler<SqliteConnection, App> for Task {
    fn run<'j>(self, lease: LeaseGuard<'j, SqliteConnection>, app: &App) -> Outcome<'j> {
        let _ = app.begun.send(());
        let Task::Long = self else {
            thread::sleep(Duration::from_millis(500));
            return lease.commit(|_tx| Ok(()));
        };
        // A handler that looks stops early; this one only looks to be as late as it gets.
        while !lease.is_lost() {
            thread::sleep(Duration::from_millis(5));
        }
        let outcome = lease.commit(|_tx| Ok(()));
        if let Err(refused) = &outcome {
            let _ = app.late.send(refused.to_string());
        }
        outcome
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (_folder, url, mut conn) = leasehold_examples::temporary_database()?;
    for task in [Task::Short, Task::Long, Task::Short, Task::Short] {
        task.enqueue(&mut conn)?;
    }
    let ((begun, begins), (late, lates)) = (unbounded(), unbounded());
    let worker = Worker::<SqliteConnection, _>::new(url, App { begun, late })
        .threads(2)
        .register::<Task>()
        .start()?;
    // Two run; the others wait.
    begins.iter().take(2).for_each(drop);

    let report = worker.shutdown(Duration::from_secs(1));
    println!("{report:?}");
    println!("the late commit: {}", lates.recv()?);
    for count in inspect::counts(&mut conn, &Schema::default())? {
        println!("jobs {}: {}", count.state, count.jobs);
    }
    Ok(())
}
