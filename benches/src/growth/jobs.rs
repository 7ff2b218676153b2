//! The job that is worked off, and those that only lie there.

use leasehold::{Backend, Handler, Job, LeaseGuard, Outcome, Worker};
use serde::{Deserialize, Serialize};

use crate::Answer;
use crate::raw::Plain;

#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(kind = "noop")]
pub(super) struct Noop {
    filler: String,
}

impl Noop {
    pub(super) fn many(count: usize) -> Vec<Self> {
        let filler = "x".repeat(200);
        vec![Self { filler }; count]
    }
}

/// Behind a limit.
#[derive(Debug, Serialize, Deserialize, Job)]
#[job(kind = "held", concurrency(by = "filler", max = 1))]
pub(super) struct HeldUp {
    filler: String,
}

#[derive(Debug, Serialize, Deserialize, Job)]
#[job(kind = "paused")]
pub(super) struct Paused {
    filler: String,
}

macro_rules! finishes {
    ($($job:ty),+) => {$(
        impl<C: Backend> Handler<C> for $job {
            fn run<'j>(self, lease: LeaseGuard<'j, C>, (): &()) -> Outcome<'j> {
                lease.finish()
            }
        }
    )+};
}
finishes!(Noop, HeldUp, Paused);

/// A worker for all of them.
pub(super) fn worker<C: Backend>(url: &str, threads: usize) -> Worker<C, ()> {
    Worker::new(url, ())
        .threads(threads)
        .register::<Noop>()
        .register::<HeldUp>()
        .register::<Paused>()
}

/// What an enqueue of the first one writes, for the reference.
pub(super) fn plain() -> Answer<Plain> {
    let job = Noop::many(1);
    Ok(Plain {
        queue: Noop::QUEUE,
        kind: Noop::KIND,
        version: i32::try_from(Noop::VERSION)?,
        payload: serde_json::to_string(&job[0])?,
        max_attempts: i32::try_from(Noop::MAX_ATTEMPTS)?,
        lease_ms: i64::try_from(Noop::LEASE.as_millis())?,
    })
}
