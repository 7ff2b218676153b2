use std::time::Duration;

use leasehold::{Backend, Handler, Isolation, Job, JobError, LeaseGuard, Outcome};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "greet")]
struct Greet {
    way: String,
}

impl<C: Backend, A> Handler<C, A> for Greet {
    fn run<'j>(self, mut lease: LeaseGuard<'j, C>, _: &A) -> Outcome<'j> {
        match self.way.as_str() {
            "commit" => lease.commit(|_| Ok(())),
            "strict" => lease.strict().commit(|_| Ok(())),
            "again" => lease.commit_retrying(Isolation::Serializable, |_| Ok(())),
            "finish" => lease.finish(),
            "snooze" => lease.snooze(Duration::from_secs(5)),
            "cancel" => lease.cancel("not needed"),
            "retry" => Err(JobError::retry("once more")),
            "later" => Err(JobError::retry_after("later", Duration::from_secs(60))),
            "discard" => Err(JobError::discard("for ever")),
            "boxed" => Err(JobError::boxed("any boxed error")),
            "lost" => lease.check().and_then(|()| lease.finish()),
            "read" => {
                lease.read(|_| Ok::<_, JobError>(()))?;
                lease.finish()
            }
            number => {
                // The guard goes with the error, and the runtime settles the job.
                let number: u64 = number.parse()?;
                lease.snooze(Duration::from_secs(number))
            }
        }
    }
}

fn main() {}
