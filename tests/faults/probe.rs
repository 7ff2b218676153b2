//! A job whose handler a test gives as a closure, and a worker that runs it.

use std::time::Duration;

pub(crate) use leasehold::__private::*;
use leasehold::{Handler, Job, LeaseGuard, Outcome, Running, Worker};
pub(crate) use leasehold_tests::{TestDb, conformance, eventually};
use serde::{Deserialize, Serialize};

/// Long enough for a slow machine, short beside every timeout that a fault would run into.
pub(crate) const SOON: Duration = Duration::from_secs(12);

#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(kind = "probe", backoff = "fixed(10ms)", max_attempts = 3)]
pub(crate) struct Probe {
    pub(crate) text: String,
}

pub(crate) fn probe(text: &str) -> Probe {
    Probe { text: text.to_owned() }
}

impl<C: Backend, F> Handler<C, F> for Probe
where
    F: for<'j> Fn(Probe, LeaseGuard<'j, C>) -> Outcome<'j>,
{
    fn run<'j>(self, lease: LeaseGuard<'j, C>, app: &F) -> Outcome<'j> {
        app(self, lease)
    }
}

/// The queue's tables, and a connection.
pub(crate) fn migrated<D: TestDb>(db: &D) -> D::Connection {
    let mut conn = db.connect();
    leasehold::migrate(&mut conn).unwrap();
    conn
}

/// A worker that runs probes through `handler`, on one thread unless more are asked for.
pub(crate) fn worker<D: TestDb, F>(db: &D, handler: F) -> Worker<D::Connection, F>
where
    F: for<'j> Fn(Probe, LeaseGuard<'j, D::Connection>) -> Outcome<'j> + Send + Sync + 'static,
{
    worker_at(db.url(), handler)
}

pub(crate) fn worker_at<C: Backend, F>(url: String, handler: F) -> Worker<C, F>
where
    F: for<'j> Fn(Probe, LeaseGuard<'j, C>) -> Outcome<'j> + Send + Sync + 'static,
{
    Worker::new(url, handler)
        .threads(1)
        .poll_interval(Duration::from_millis(20))
        .sweep_interval(Duration::from_millis(20))
        .register::<Probe>()
}

/// Waits until so many jobs have been completed here.
#[track_caller]
pub(crate) fn wait_completed<C: Backend, A: Send + Sync + 'static>(running: &Running<C, A>, jobs: u64) {
    eventually(SOON, "the jobs are completed", || running.counts().completed >= jobs);
}

/// State and, once it ended, reason of a job, wherever it is.
#[track_caller]
pub(crate) fn standing<D: TestDb>(db: &mut D, id: i64) -> String {
    let text = format!(
        "SELECT state FROM leasehold.jobs WHERE id = {id} \
         UNION ALL SELECT state || coalesce(': ' || reason, '') FROM leasehold.finished_jobs WHERE id = {id}"
    );
    db.text(&text).unwrap()
}
