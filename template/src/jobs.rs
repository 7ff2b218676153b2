//! What is to be done later: a type for each kind of job, and how it is done.

use diesel::prelude::*;
use leasehold::{Handler, Job, JobError, LeaseGuard, Outcome};
use serde::{Deserialize, Serialize};

use crate::Conn;

diesel::table! {
    greetings (id) {
        id -> Integer,
        text -> Text,
    }
}

/// Writes a greeting. What is in it is stored with the job, as JSON.
#[derive(Debug, Serialize, Deserialize, Job)]
#[job(kind = "greet", max_attempts = 5, backoff = "exponential(1s..1h)")]
pub(crate) struct Greet {
    pub(crate) name: String,
}

impl Handler<Conn> for Greet {
    fn run<'j>(self, lease: LeaseGuard<'j, Conn>, _: &()) -> Outcome<'j> {
        if self.name.trim().is_empty() {
            // Another try would not help: the job is kept, with this text. What fails by `?` is tried again.
            return Err(JobError::discard("nobody to greet"));
        }
        let text = format!("Hello, {}!", self.name);
        // The row and the end of the job are one transaction: both are committed, or neither.
        lease.commit(|tx| {
            diesel::insert_into(greetings::table)
                .values(greetings::text.eq(&text))
                .execute(tx)?;
            log::info!("{text}");
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use leasehold::testing::Runner;

    use super::*;

    #[test]
    fn a_greeting_is_written_once() -> Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let mut conn = crate::connect(&folder.path().join("test.db").display().to_string())?;
        let name = "you".to_owned();
        Greet { name }.enqueue(&mut conn)?;
        let counts = Runner::new(()).register::<Greet>().drain(&mut conn)?;
        assert_eq!(counts.completed, 1);
        let texts: Vec<String> = greetings::table.select(greetings::text).load(&mut conn)?;
        assert_eq!(texts, ["Hello, you!"]);
        Ok(())
    }
}
