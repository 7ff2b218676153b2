//! A workflow: jobs that wait for others and read their results.

#![expect(clippy::print_stdout, reason = "the example's output")]

use std::error::Error;

use diesel::prelude::*;
use leasehold::inspect;
use leasehold::{Handler, Job, JobError, LeaseGuard, Outcome, Schema, Worker, Workflow};
use serde::{Deserialize, Serialize};

/// Gives back how many guests a list has.
#[derive(Serialize, Deserialize, Job)]
#[job(kind = "read-list")]
struct ReadList {
    guests: Vec<String>,
}

impl Handler<SqliteConnection> for ReadList {
    fn run<'j>(self, lease: LeaseGuard<'j, SqliteConnection>, _: &()) -> Outcome<'j> {
        if self.guests.is_empty() {
            return Err(JobError::discard("the list is empty"));
        }
        lease.finish_result(&self.guests.len())
    }
}

/// Adds up what it waited for.
#[derive(Serialize, Deserialize, Job)]
#[job(kind = "order-meals")]
struct OrderMeals;

impl Handler<SqliteConnection> for OrderMeals {
    fn run<'j>(self, mut lease: LeaseGuard<'j, SqliteConnection>, _: &()) -> Outcome<'j> {
        let guests: Vec<Option<u32>> = lease.results_of("list")?;
        let meals: u32 = guests.into_iter().flatten().sum();
        println!("{meals} meals");
        lease.finish_result(&meals)
    }
}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "say")]
struct Say {
    text: String,
}

impl Handler<SqliteConnection> for Say {
    fn run<'j>(self, lease: LeaseGuard<'j, SqliteConnection>, _: &()) -> Outcome<'j> {
        println!("{}", self.text);
        lease.finish()
    }
}

fn list(guests: &[&str]) -> ReadList {
    let guests = guests.iter().map(|&guest| guest.to_owned()).collect();
    ReadList { guests }
}

fn say(text: &str) -> Say {
    Say { text: text.to_owned() }
}

/// Runs until no job is left.
fn work(url: &str) -> Result<(), Box<dyn Error>> {
    let worker = Worker::<SqliteConnection, _>::new(url, ());
    let counts = worker
        .register::<ReadList>()
        .register::<OrderMeals>()
        .register::<Say>()
        .run_until_empty()?
        .counts;
    println!(
        "{} completed, {} discarded, {} cancelled",
        counts.completed, counts.discarded, counts.cancelled
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let (_folder, url, mut conn) = leasehold_examples::temporary_database()?;

    let party = Workflow::new();
    let friends = party.add(&list(&["Ada", "Grace", "Edsger"])).named("list");
    let family = party.add(&list(&["Mum", "Dad"])).named("list");
    let meals = party.add(&OrderMeals).after_all([friends, family]);
    party.add(&say("dinner is ready")).after(meals);
    party.enqueue(&mut conn)?;
    work(&url)?;

    let meeting = Workflow::new();
    let nobody = meeting.add(&list(&[])).named("list");
    let coffee = meeting.add(&say("coffee for all")).after(nobody);
    meeting.add(&say("the room is free again")).after(coffee).run_anyway();
    let jobs = meeting.enqueue(&mut conn)?;
    work(&url)?;

    let coffee = inspect::job(&mut conn, &Schema::default(), jobs.id_of(coffee))?.ok_or("it is kept")?;
    println!("coffee: {}, {}", coffee.state, coffee.reason.unwrap_or_default());
    Ok(())
}
