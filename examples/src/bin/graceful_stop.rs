//! Stopping: what has not begun is released, and what does not end in time is abandoned: its late commit is refused.

#![expect(clippy::print_stdout, reason = "the example's output")]

use std::error::Error;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use diesel::SqliteConnection;
use leasehold::{Handler, Hooks, Job, JobInfo, LeaseGuard, Outcome, Schema, Worker, inspect};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "task")]
enum Task {
    /// Ends once the stop has begun.
    Short,
    /// Ends long after it.
    Long,
}

struct App {
    begun: Sender<()>,
    stopping: Receiver<()>,
    late: Sender<String>,
}

impl Handler<SqliteConnection, App> for Task {
    fn run<'j>(self, lease: LeaseGuard<'j, SqliteConnection>, app: &App) -> Outcome<'j> {
        let _ = app.begun.send(());
        let Task::Long = self else {
            let _ = app.stopping.recv();
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

/// What has not begun is given back first: then the stop is under way.
struct OnRelease(Sender<()>);

impl Hooks for OnRelease {
    fn released(&self, _: &JobInfo<'_>) {
        let _ = self.0.try_send(());
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (_folder, url, mut conn) = leasehold_examples::temporary_database()?;
    for task in [Task::Short, Task::Long, Task::Short, Task::Short] {
        task.enqueue(&mut conn)?;
    }
    let ((begun, begins), (stop, stopping), (late, lates)) = (unbounded(), bounded(1), unbounded());
    let worker = Worker::<SqliteConnection, _>::new(url, App { begun, stopping, late })
        .threads(2)
        .fixed_batch(4)
        .hooks(OnRelease(stop))
        .register::<Task>()
        .start()?;
    // Two run; the others are claimed ahead.
    begins.iter().take(2).for_each(drop);

    let report = worker.shutdown(Duration::from_secs(1));
    println!("{report:?}");
    println!("the late commit: {}", lates.recv()?);
    for count in inspect::counts(&mut conn, &Schema::default())? {
        println!("jobs {}: {}", count.state, count.jobs);
    }
    Ok(())
}
