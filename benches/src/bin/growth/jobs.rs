//! The job that is worked off, and those that only lie there.

use leasehold::{Backend, Handler, Job, LeaseGuard, Outcome, Worker};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(kind = "noop")]
pub(crate) struct Noop {
    filler: String,
}

impl Noop {
    pub(crate) fn many(count: usize) -> Vec<Self> {
        let filler = "x".repeat(200);
        vec![Self { filler }; count]
    }
}

/// Behind a limit.
#[derive(Debug, Serialize, Deserialize, Job)]
#[job(kind = "held", concurrency(by = "filler", max = 1))]
pub(crate) struct HeldUp {
    filler: String,
}

#[derive(Debug, Serialize, Deserialize, Job)]
#[job(kind = "paused")]
pub(crate) struct Paused {
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
pub(crate) fn worker<C: Backend>(url: &str, threads: usize) -> Worker<C, ()> {
    Worker::new(url, ())
        .threads(threads)
        .register::<Noop>()
        .register::<HeldUp>()
        .register::<Paused>()
}
