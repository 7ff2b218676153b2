//! The numbers of the feature `metrics`, as a recorder sees them.

#![cfg(any(feature = "sqlite", feature = "postgres"))]
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod files;

use std::sync::LazyLock;
use std::time::Duration;

use leasehold::metrics::{METRICS, MetricType};
use leasehold::outbox::{self, DeliverError, Delivery, Event, Relay};
use leasehold::{Backoff, EnqueueOptions, Job, Schema, Worker};
use leasehold_tests::jobs::{SOON, Step, Then, app, claim_and_die, prepare};
use leasehold_tests::{TestDb, conformance, eventually};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

/// The process has one recorder, so each test has a queue of its own.
static RECORDED: LazyLock<PrometheusHandle> = LazyLock::new(|| PrometheusBuilder::new().install_recorder().unwrap());

/// The value of the line that begins with `name` and has all of `labels`; 0 when there is none.
fn value(name: &str, labels: &[&str]) -> f64 {
    let text = RECORDED.render();
    let line = text
        .lines()
        .find(|line| line.starts_with(&format!("{name}{{")) && labels.iter().all(|label| line.contains(label)));
    line.map_or(0.0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
}

conformance!(
    fn each_event_of_a_job_is_counted_under_its_queue_and_kind(db: &mut Db) {
        LazyLock::force(&RECORDED);
        let mut conn = prepare(db);
        let queue = format!("counted-{}", Db::BACKEND);
        let options = EnqueueOptions::new().queue(&queue);
        let hows = [
            Then::Commit,
            Then::Finish,
            Then::FailUntil(2),
            Then::PanicUntil(2),
            Then::Snooze,
            Then::Discard,
            Then::Cancel,
        ];
        for (n, then) in (1..).zip(hows) {
            Step::now(n, then).enqueue_with(&mut conn, &options).unwrap();
        }
        let (app, _remote) = app();
        let worker = Worker::<Connection, _>::new(db.url(), app).queues([&queue]);
        worker.register::<Step>().run_until_empty().unwrap();
        let label = format!("queue=\"{queue}\"");
        let labels = [label.as_str(), "kind=\"step\""];
        for (name, expected) in [
            ("leasehold_enqueued_total", 7.0),
            ("leasehold_claimed_total", 10.0),
            ("leasehold_completed_total", 5.0),
            ("leasehold_retried_total", 2.0),
            ("leasehold_snoozed_total", 1.0),
            ("leasehold_discarded_total", 1.0),
            ("leasehold_cancelled_total", 1.0),
            ("leasehold_lost_total", 0.0),
            ("leasehold_wait_seconds_count", 10.0),
            ("leasehold_run_seconds_count", 10.0),
        ] {
            assert_eq!(value(name, &labels), expected, "{name}\n{}", RECORDED.render());
        }
        for (cause, expected) in [("error", 2.0), ("panic", 1.0), ("timeout", 0.0)] {
            let cause = format!("cause=\"{cause}\"");
            assert_eq!(value("leasehold_failed_total", &[&label, &cause]), expected, "{cause}");
        }
    }
);

conformance!(
    fn a_lost_job_and_a_swept_one_are_counted(db: &mut Db) {
        LazyLock::force(&RECORDED);
        let mut conn = prepare(db);
        // The queue of the kind: no other test in this file uses it.
        Step::waiting(1).enqueue(&mut conn).unwrap();
        claim_and_die::<Step, _>(&mut conn, true);
        db.set_time("leasehold.jobs", "lease_until", -1, "state = 'running'");
        let before = value("leasehold_lost_total", &["queue=\"default\""]);
        let failed = ["queue=\"default\"", "cause=\"lease expired\""];
        let failed_before = value("leasehold_failed_total", &failed);
        let (app, remote) = app();
        let running = Worker::<Connection, _>::new(db.url(), app)
            .sweep_interval(Duration::from_millis(20))
            .register::<Step>()
            .start()
            .unwrap();
        let handler = remote.begun();
        db.set_time("leasehold.jobs", "lease_until", -1, "state = 'running'");
        eventually(SOON, "both are swept", || {
            value("leasehold_failed_total", &failed) >= failed_before + 2.0
        });
        handler.go();
        eventually(SOON, "the loss is counted", || {
            value("leasehold_lost_total", &["queue=\"default\""]) > before
        });
        drop(running);
    }
);

conformance!(
    fn the_depth_of_a_queue_and_its_oldest_job_are_shown(db: &mut Db) {
        LazyLock::force(&RECORDED);
        let mut conn = prepare(db);
        let queue = format!("deep-{}", Db::BACKEND);
        let options = EnqueueOptions::new().queue(&queue);
        let steps: Vec<Step> = (1..=3).map(Step::waiting).collect();
        Step::enqueue_all(&steps, &mut conn, &options).unwrap();
        Step::waiting(4)
            .enqueue_with(&mut conn, &options.clone().delay(SOON))
            .unwrap();
        db.set_time("leasehold.jobs", "run_at", -3_600_000, "id <= 3");
        let (app, remote) = app();
        let running = Worker::<Connection, _>::new(db.url(), app)
            .queues([&queue])
            .threads(1)
            .register::<Step>()
            .start()
            .unwrap();
        let _handler = remote.begun();
        let label = format!("queue=\"{queue}\"");
        let seen = |name: &str| value(name, &[&label]);
        // Looked at each ten seconds, the first time at the start.
        eventually(SOON, "the depth is shown", || {
            [2.0, 3.0].contains(&seen("leasehold_queue_depth"))
        });
        assert!(seen("leasehold_oldest_ready_seconds") >= 3600.0);
        drop(running);
    }
);

conformance!(
    fn each_delivery_of_an_event_is_counted_under_its_topic(db: &mut Db) {
        LazyLock::force(&RECORDED);
        let mut conn = prepare(db);
        let topic = format!("counted-{}", Db::BACKEND);
        let events = [1, 2, 3].map(|n| Event::new(&topic, &n));
        outbox::emit_all(&mut conn, &Schema::default(), &events).unwrap();
        let deliver = |delivery: &Delivery<'_>| match (delivery.payload::<i32>()?, delivery.attempt()) {
            (2, 1) => Err(DeliverError::retry("not now")),
            (3, _) => Err(DeliverError::dead("never")),
            _ => Ok(()),
        };
        let relay = Relay::new(deliver).backoff(Backoff::fixed(Duration::from_millis(10)));
        let worker = Worker::<Connection, _>::new(db.url(), ());
        worker.relay_with(&topic, relay).run_until_empty().unwrap();
        let label = format!("topic=\"{topic}\"");
        for (name, expected) in [
            ("leasehold_emitted_total", 3.0),
            ("leasehold_delivered_total", 2.0),
            ("leasehold_delivery_failed_total", 1.0),
            ("leasehold_dead_total", 1.0),
            ("leasehold_delivery_seconds_count", 4.0),
        ] {
            assert_eq!(value(name, &[&label]), expected, "{name}\n{}", RECORDED.render());
        }
    }
);

conformance!(
    fn every_metric_is_there_when_a_worker_has_started(db: &mut Db) {
        LazyLock::force(&RECORDED);
        prepare(db);
        let (queue, topic) = (format!("names-{}", Db::BACKEND), format!("names-{}", Db::BACKEND));
        let (app, _remote) = app();
        let worker = Worker::<Connection, _>::new(db.url(), app).queues([&queue]);
        let running = worker
            .register::<Step>()
            .relay(&topic, |_: &Delivery<'_>| Ok(()))
            .start()
            .unwrap();
        let text = RECORDED.render();
        let labels = [format!("queue=\"{queue}\""), format!("topic=\"{topic}\"")];
        for metric in METRICS.iter().filter(|metric| metric.metric_type != MetricType::Gauge) {
            let line = text
                .lines()
                .find(|line| line.starts_with(metric.name) && labels.iter().any(|label| line.contains(label)));
            let line = line.unwrap_or_else(|| panic!("{} is not in\n{text}", metric.name));
            assert!(line.ends_with(" 0"), "{line}");
            assert!(
                metric.labels.iter().all(|label| line.contains(&format!("{label}=\""))),
                "{line}"
            );
            assert!(
                text.contains(&format!("# HELP {} {}", metric.name, metric.help)),
                "{text}"
            );
        }
        drop(running);
    }
);
