//! Jobs that note when they begin, and a backlog of quick ones that never ends.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leasehold::{Backend, EnqueueOptions, Handler, Job, JobError, LeaseGuard, Outcome};
use leasehold_tests::jobs::SOON;
use serde::{Deserialize, Serialize};

/// What handlers tell: the leases that began on each job, and whether it is done.
#[derive(Debug, Clone, Default)]
pub(super) struct Book(Arc<Mutex<HashMap<i64, Leases>>>);

/// Their generations, and whether the last of them was to the end.
type Leases = (Vec<i64>, bool);

impl Book {
    fn begins(&self, n: i64, generation: i64) {
        self.0.lock().unwrap().entry(n).or_default().0.push(generation);
    }

    fn ends(&self, n: i64) {
        self.0.lock().unwrap().entry(n).or_default().1 = true;
    }

    /// The leases that began on this job.
    pub(super) fn begun(&self, n: i64) -> Vec<i64> {
        self.0
            .lock()
            .unwrap()
            .get(&n)
            .map(|(begun, _)| begun.clone())
            .unwrap_or_default()
    }

    fn is_done(&self, n: i64) -> bool {
        self.0.lock().unwrap().get(&n).is_some_and(|(_, done)| *done)
    }
}

/// How the first lease of a job ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum First {
    Finishes,
    Fails,
    Snoozes,
}

/// A job that must not starve; with a negative number one of the backlog.
#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(kind = "one", max_attempts = 1000, backoff = "fixed(5ms)")]
pub(super) struct One {
    pub(super) n: i64,
    pub(super) first: First,
    pub(super) takes: Duration,
}

/// The same of another kind.
#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(kind = "other", max_attempts = 1000, backoff = "fixed(5ms)")]
pub(super) struct Other {
    pub(super) one: One,
}

impl<C: Backend> Handler<C, Book> for One {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, book: &Book) -> Outcome<'j> {
        if self.n >= 0 {
            book.begins(self.n, lease.generation());
        }
        std::thread::sleep(self.takes);
        match self.first {
            First::Fails if lease.generation() == 1 => Err(JobError::retry("the first attempt fails")),
            First::Snoozes if lease.generation() == 1 => lease.snooze(Duration::from_millis(5)),
            _ => {
                book.ends(self.n);
                lease.finish()
            }
        }
    }
}

impl<C: Backend> Handler<C, Book> for Other {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, book: &Book) -> Outcome<'j> {
        self.one.run(lease, book)
    }
}

/// Keeps a backlog that is older than everything else, of both kinds and in both queues, until it is `over`.
pub(super) fn feed<C: Backend>(conn: &mut C, takes: Duration, over: &AtomicBool) {
    let ready = leasehold::inspect::Filter::new().state(leasehold::inspect::State::Ready);
    let quick = One {
        n: -1,
        first: First::Finishes,
        takes,
    };
    let ones = vec![quick.clone(); 100];
    let others = vec![Other { one: quick }; 100];
    while !over.load(Ordering::Acquire) {
        let schema = leasehold::Schema::default();
        let some = leasehold::inspect::list(conn, &schema, &ready, 0, 400).unwrap();
        if some.len() < 400 {
            for queue in ["default", "b"] {
                let options = EnqueueOptions::new().queue(queue);
                One::enqueue_all(&ones, conn, &options).unwrap();
                Other::enqueue_all(&others, conn, &options).unwrap();
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until all of them are done while the backlog goes on.
pub(super) fn all_are_done(book: &Book, numbers: &[i64]) -> Result<(), String> {
    let until = Instant::now() + SOON;
    loop {
        let left: Vec<i64> = numbers.iter().copied().filter(|n| !book.is_done(*n)).collect();
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() >= until {
            return Err(format!("not done within {SOON:?}: {left:?}"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
