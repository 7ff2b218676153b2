//! Recorded steps: the first attempt charges and fails before its mail; the second does not charge again.

#![expect(clippy::print_stdout, reason = "the example's output")]

use std::error::Error;

use diesel::SqliteConnection;
use leasehold::{Handler, Job, JobError, LeaseGuard, Outcome, Schema, Worker, inspect};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "order", max_attempts = 3, backoff = "fixed(10ms)")]
struct Order {
    cents: u64,
    to: String,
}

/// The bank, which would know a repeated request by its key.
fn charge(cents: u64, key: &str) -> Result<String, JobError> {
    println!("  the bank charges {cents} cents, key {key}");
    Ok("ch_1".to_owned())
}

/// The mail server, which is away at first.
fn send(to: &str, text: &str, key: &str, attempt: u32) -> Result<(), JobError> {
    if attempt == 1 {
        println!("  the mail server does not answer");
        return Err(JobError::retry("the mail server does not answer"));
    }
    println!("  mail to {to}, key {key}: {text}");
    Ok(())
}

impl Handler<SqliteConnection> for Order {
    fn run<'j>(self, mut lease: LeaseGuard<'j, SqliteConnection>, _: &()) -> Outcome<'j> {
        let attempt = lease.attempt();
        println!("attempt {attempt}, recorded: {:?}", lease.recorded_steps()?);
        let receipt = lease.step("charge", |key| charge(self.cents, key))?;
        let text = format!("paid, receipt {receipt}");
        lease.step("mail", |key| send(&self.to, &text, key, attempt))?;
        lease.finish()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (_folder, url, mut conn) = leasehold_examples::temporary_database()?;
    let order = Order {
        cents: 1000,
        to: "ada@example.org".to_owned(),
    };
    let options = leasehold::EnqueueOptions::new().idempotency_key("order 7");
    let id = order.enqueue_with(&mut conn, &options)?.id();
    Worker::<SqliteConnection, _>::new(&url, ())
        .register::<Order>()
        .run_until_empty()?;
    for step in inspect::steps(&mut conn, &Schema::default(), id)? {
        println!("{}: {}", step.name, step.result);
    }
    Ok(())
}
