//! What a queue needs beside its fence.

use std::sync::LazyLock;
use std::time::Duration;

use leasehold::inspect::{self, State};
use leasehold::manage::{self, Cancel};
use leasehold::{EnqueueOptions, Job, Schema, Worker};
use leasehold_tests::jobs::{Step, Then, app, job, prepare};
use leasehold_tests::{TestDb, conformance};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

/// The process has one recorder, so this test has queues of its own.
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

conformance! {
    fn s0_30_run_times_failure_counts_backoffs_cancels_and_metrics_are_there(db: &mut Db) {
        LazyLock::force(&RECORDED);
        let mut conn = prepare(db);
        let (queue, schema) = (format!("features-{}", Db::BACKEND), Schema::default());
        let now = EnqueueOptions::new().queue(&queue);
        let delay = Duration::from_millis(500);
        let later = now.clone().delay(delay);
        let [late, failing, unwanted] = [(1, Then::Commit, &later), (2, Then::FailUntil(3), &now), (3, Then::Commit, &now)]
            .map(|(n, then, options)| Step::now(n, then).enqueue_with(&mut conn, options).unwrap().id());
        assert!(manage::cancel(&mut conn, &schema, unwanted, Cancel::Soft, "not wanted").unwrap());

        let (app, remote) = app();
        let worker = Worker::<Connection, _>::new(db.url(), app).queues([&queue]).register::<Step>();
        let running = worker.start().unwrap();
        // The one that is late, and three attempts of the one that fails.
        let mut ended: Vec<_> = (0..4).map(|_| remote.ended()).map(|step| (step.n, step.result.is_ok())).collect();
        running.shutdown(crate::jobs::SOON);
        ended.sort_unstable();
        assert_eq!(ended, [(1, true), (2, false), (2, false), (2, true)]);

        let record = job(&mut conn, late);
        assert!(record.run_at >= record.created_at + delay && record.finished_at.unwrap() >= record.run_at, "{record:?}");

        let (record, errors) = (job(&mut conn, failing), inspect::errors(&mut conn, &schema, failing).unwrap());
        assert_eq!((record.state, record.attempt), (State::Completed, 3));
        assert_eq!(errors.iter().map(|error| error.attempt).collect::<Vec<_>>(), [1, 2]);
        // The backoff of the kind is 20 ms; times are kept in milliseconds.
        let backoff = Duration::from_millis(19);
        let began_again = [errors[1].at, record.finished_at.unwrap()];
        assert!(errors.iter().zip(began_again).all(|(error, again)| again >= error.at + backoff), "{errors:?}, {record:?}");

        let record = job(&mut conn, unwanted);
        assert_eq!((record.state, record.attempt, record.reason.as_deref()), (State::Cancelled, 0, Some("not wanted")));
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 2);

        let names = ["enqueued", "claimed", "completed", "retried"];
        let counts = names.map(|name| counted(&format!("leasehold_{name}_total"), &queue).unwrap_or_default());
        assert_eq!(counts, ["3", "4", "2", "2"]);
    }
}
