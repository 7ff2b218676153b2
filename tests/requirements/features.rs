//! What a queue needs beside its fence.

use std::sync::LazyLock;
use std::time::Duration;

use crossbeam_channel::Sender;
use leasehold::inspect::{self, State};
use leasehold::manage::{self, Cancel};
use leasehold::{Backend, EnqueueOptions, Handler, Job, JobError, LeaseGuard, Outcome, Schema, Worker};
use leasehold_tests::jobs::job;
use leasehold_tests::{TestDb, conformance};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use serde::{Deserialize, Serialize};

use crate::jobs::SOON;

/// The process has one recorder, so each test has a queue of its own.
static RECORDED: LazyLock<PrometheusHandle> = LazyLock::new(|| PrometheusBuilder::new().install_recorder().unwrap());

/// What is counted under this name for a queue.
fn counted(name: &str, queue: &str) -> Option<String> {
    let text = RECORDED.render();
    let label = format!("queue=\"{queue}\"");
    let mut lines = text
        .lines()
        .filter(|line| line.starts_with(&format!("{name}{{")) && line.contains(&label));
    Some(lines.next()?.rsplit(' ').next()?.to_owned())
}

const BACKOFF: Duration = Duration::from_millis(500);

/// Succeeds at this attempt.
#[derive(Serialize, Deserialize, Job)]
#[job(kind = "persistent", max_attempts = 5, backoff = "fixed(500ms)")]
struct Persistent {
    succeeds_at: u32,
}

impl<C: Backend> Handler<C, Sender<(i64, u32)>> for Persistent {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, ran: &Sender<(i64, u32)>) -> Outcome<'j> {
        ran.send((lease.job_id(), lease.attempt())).unwrap();
        if lease.attempt() < self.succeeds_at {
            return Err(JobError::retry("not yet"));
        }
        lease.finish()
    }
}

conformance! {
    fn s0_30_run_times_failure_counts_backoffs_cancels_and_metrics_are_there(db: &mut Db) {
        LazyLock::force(&RECORDED);
        let mut conn = db.connect();
        leasehold::migrate(&mut conn).unwrap();
        let (queue, schema) = (format!("features-{}", Db::BACKEND), Schema::default());
        let now = EnqueueOptions::new().queue(&queue);
        let delay = Duration::from_millis(500);
        let later = now.clone().delay(delay);
        let [late, failing, unwanted] = [(1, &later), (3, &now), (1, &now)]
            .map(|(succeeds_at, options)| Persistent { succeeds_at }.enqueue_with(&mut conn, options).unwrap().id());
        assert!(manage::cancel(&mut conn, &schema, unwanted, Cancel::Soft, "ops", "not wanted").unwrap());

        let (ran, runs) = crossbeam_channel::unbounded();
        let worker = Worker::<Connection, _>::new(db.url(), ran).queues([&queue]).register::<Persistent>();
        let running = worker.start().unwrap();
        let mut runs: Vec<_> = (0..4).map(|_| runs.recv_timeout(SOON).unwrap()).collect();
        running.shutdown(SOON);
        runs.sort_unstable();
        assert_eq!(runs, [(late, 1), (failing, 1), (failing, 2), (failing, 3)]);

        // Half of a time, for two readings of a clock in one statement may lie apart.
        let record = job(&mut conn, late);
        assert!(record.run_at > record.created_at + delay / 2 && record.finished_at.unwrap() >= record.run_at, "{record:?}");

        let (record, errors) = (job(&mut conn, failing), inspect::errors(&mut conn, &schema, failing).unwrap());
        assert_eq!((record.state, record.attempt), (State::Completed, 3));
        assert_eq!(errors.iter().map(|error| error.attempt).collect::<Vec<_>>(), [1, 2]);
        let next = [errors[1].at, record.finished_at.unwrap()];
        assert!(errors.iter().zip(next).all(|(error, next)| next > error.at + BACKOFF / 2), "{errors:?}, {record:?}");

        let record = job(&mut conn, unwanted);
        assert_eq!((record.state, record.attempt, record.reason.as_deref()), (State::Cancelled, 0, Some("not wanted")));

        let names = ["enqueued", "claimed", "completed", "retried"];
        let counts = names.map(|name| counted(&format!("leasehold_{name}_total"), &queue).unwrap_or_default());
        assert_eq!(counts, ["3", "4", "2", "2"]);
    }
}
