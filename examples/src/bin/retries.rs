//! What becomes of a job whose handler fails: attempts, the wait between them, and the errors that are kept.

#![expect(clippy::print_stdout, reason = "the example's output")]

use std::error::Error;
use std::time::Duration;

use diesel::SqliteConnection;
use leasehold::{Handler, Hooks, Job, JobError, JobInfo, LeaseGuard, Outcome, Schema, Worker, inspect};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "fetch", max_attempts = 4, backoff = "exponential(10ms..1s)")]
struct Fetch {
    page: String,
    /// The attempt at which the server answers.
    answers_at: u32,
}

impl Handler<SqliteConnection> for Fetch {
    fn run<'j>(self, lease: LeaseGuard<'j, SqliteConnection>, _: &()) -> Outcome<'j> {
        if self.page.is_empty() {
            return Err(JobError::discard("no page: another attempt would not help"));
        }
        if lease.attempt() < self.answers_at {
            return Err(JobError::retry(format!("no answer for {}", self.page)));
        }
        lease.finish()
    }
}

/// Tells what happens as it happens.
struct Tell;

impl Hooks for Tell {
    fn retried(&self, job: &JobInfo<'_>, error: &str, after: Duration) {
        println!("  attempt {}: {error}; the next one in {after:?}", job.attempt);
    }

    fn completed(&self, job: &JobInfo<'_>) {
        println!("  attempt {}: completed", job.attempt);
    }

    fn discarded(&self, job: &JobInfo<'_>, reason: &str) {
        println!("  attempt {}: {reason}; discarded", job.attempt);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (_folder, url, mut conn) = leasehold_examples::temporary_database()?;
    for (page, answers_at) in [("/slow", 3), ("/gone", 99), ("", 1)] {
        println!("page {page:?}");
        let id = Fetch {
            page: page.to_owned(),
            answers_at,
        }
        .enqueue(&mut conn)?
        .id();
        Worker::<SqliteConnection, _>::new(&url, ())
            .register::<Fetch>()
            .hooks(Tell)
            .run_until_empty()?;

        let schema = Schema::default();
        let state = inspect::job(&mut conn, &schema, id)?.map(|job| job.state.as_str());
        let kept = inspect::errors(&mut conn, &schema, id)?;
        println!("  it is {}; errors kept: {}", state.unwrap_or("gone"), kept.len());
    }
    Ok(())
}
