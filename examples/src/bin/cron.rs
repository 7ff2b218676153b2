//! Schedules: in the code, at run time, and what becomes of the times at which nothing ran.

#![expect(clippy::print_stdout, reason = "the example's output")]

use std::error::Error;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use diesel::prelude::*;
use leasehold::schedule::{self, Missed, Schedule};
use leasehold::{Handler, Job, LeaseGuard, Outcome, Schema, Worker};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Default, Job)]
#[job(kind = "clean-up", schedule(cron = "30 2 * * *", zone = "Europe/Berlin"))]
struct CleanUp {}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "tick")]
struct Tick {}

/// Where ticks are told.
type App = Sender<&'static str>;

impl Handler<SqliteConnection, App> for CleanUp {
    fn run<'j>(self, lease: LeaseGuard<'j, SqliteConnection>, _: &App) -> Outcome<'j> {
        lease.finish()
    }
}

impl Handler<SqliteConnection, App> for Tick {
    fn run<'j>(self, lease: LeaseGuard<'j, SqliteConnection>, app: &App) -> Outcome<'j> {
        if lease.fire_at().is_some() {
            app.send("tick")?;
        }
        lease.finish()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (_folder, url, mut conn) = leasehold_examples::temporary_database()?;
    let (app, ran) = channel();
    let worker = || {
        Worker::<SqliteConnection, _>::new(&url, app.clone())
            .register::<CleanUp>()
            .register::<Tick>()
    };

    // A start writes what the code says. Two starts write it once.
    drop(worker().start()?);
    drop(worker().start()?);
    let schema = Schema::default();
    for schedule in schedule::list(&mut conn, &schema)? {
        println!(
            "{}: {} in {}, revision {}",
            schedule.name, schedule.cron, schedule.zone, schedule.revision
        );
    }

    // No such day: refused at once, and nothing is written.
    let never = Schedule::new("never", "0 0 30 2 *").job(&Tick {});
    if let Err(error) = schedule::put(&mut conn, &schema, &never) {
        println!("{error}");
    }

    // From any program, at any time.
    let every_second = Schedule::new("every second", "* * * * * *").missed(Missed::RunAll { at_most: 5 });
    schedule::put(&mut conn, &schema, &every_second.job(&Tick {}))?;

    // As if nothing had run for a minute: the last five are made up for, and the schedule goes on.
    diesel::sql_query("UPDATE leasehold_schedules SET next_at = next_at - 60000 WHERE name = 'every second'")
        .execute(&mut conn)?;
    let running = worker().start()?;
    for _ in 0..7 {
        println!("{}", ran.recv_timeout(Duration::from_secs(60))?);
    }
    running.shutdown(Duration::from_secs(10));
    Ok(())
}
