//! The list of all metrics, for dashboards, alert rules and descriptions.

/// What a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetricType {
    /// Only grows, from the start of the process.
    Counter,
    /// A value of the moment.
    Gauge,
    /// How often which values were.
    Histogram,
}

/// A metric that this library records with the feature `metrics`.
///
/// ```
/// let names: Vec<&str> = leasehold::metrics::METRICS.iter().map(|metric| metric.name).collect();
/// assert!(names.contains(&"leasehold_durability_losses_total"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub metric_type: MetricType,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it counts; times are in seconds.
    pub help: &'static str,
}

const JOB: &[&str] = &["queue", "kind"];
const QUEUE: &[&str] = &["queue"];
const TOPIC: &[&str] = &["topic"];

const fn metric(
    metric_type: MetricType,
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric {
        name,
        metric_type,
        labels,
        help,
    }
}

use MetricType::{Counter, Gauge, Histogram};

/// Every metric, as the table of the [module](crate::metrics) has it.
pub const METRICS: &[Metric] = &[
    metric(
        Counter,
        "leasehold_enqueued_total",
        JOB,
        "jobs written, those of a transaction that rolls back included",
    ),
    metric(Counter, "leasehold_claimed_total", JOB, "jobs claimed"),
    metric(Counter, "leasehold_completed_total", JOB, "completions in the database"),
    metric(
        Counter,
        "leasehold_failed_total",
        &["queue", "kind", "cause"],
        "failed attempts, with cause: error, panic, timeout or lease expired",
    ),
    metric(
        Counter,
        "leasehold_retried_total",
        JOB,
        "failed attempts that are followed by another",
    ),
    metric(Counter, "leasehold_snoozed_total", JOB, "jobs put off by their handler"),
    metric(Counter, "leasehold_discarded_total", JOB, "jobs discarded"),
    metric(
        Counter,
        "leasehold_cancelled_total",
        JOB,
        "jobs cancelled by their handler or after a request",
    ),
    metric(
        Counter,
        "leasehold_released_total",
        JOB,
        "jobs given back before their handler began, or because the database was away",
    ),
    metric(
        Counter,
        "leasehold_lost_total",
        JOB,
        "writes refused, because the job was not this process's any more",
    ),
    metric(
        Counter,
        "leasehold_durability_losses_total",
        JOB,
        "those of them that prove a commit which the database forgot",
    ),
    metric(
        Counter,
        "leasehold_emitted_total",
        TOPIC,
        "outbox events written, those of a transaction that rolls back included",
    ),
    metric(Counter, "leasehold_delivered_total", TOPIC, "events delivered"),
    metric(
        Counter,
        "leasehold_delivery_failed_total",
        TOPIC,
        "deliveries that failed and are followed by another",
    ),
    metric(
        Counter,
        "leasehold_dead_total",
        TOPIC,
        "events that are not delivered any more",
    ),
    metric(Histogram, "leasehold_delivery_seconds", TOPIC, "a delivery's run"),
    metric(
        Histogram,
        "leasehold_wait_seconds",
        JOB,
        "from a job's run time to its claim",
    ),
    metric(Histogram, "leasehold_run_seconds", JOB, "a handler's run"),
    metric(
        Gauge,
        "leasehold_queue_depth",
        QUEUE,
        "jobs that are due, every ten seconds; at most 10,000 of each queue are counted",
    ),
    metric(
        Gauge,
        "leasehold_oldest_ready_seconds",
        QUEUE,
        "how long the oldest of those counted, and of the first of each kind, has been due",
    ),
];

/// Describes every metric to the recorder, and shows what is counted at zero from the start: what appears with its first event
/// only has, for a rate, never grown.
#[cfg(feature = "metrics")]
pub(crate) fn begin<'a>(jobs: impl Iterator<Item = (&'a str, &'a str)>, topics: impl Iterator<Item = &'a str>) {
    for metric in METRICS {
        match metric.metric_type {
            Counter => ::metrics::describe_counter!(metric.name, metric.help),
            Gauge => ::metrics::describe_gauge!(metric.name, metric.help),
            Histogram => ::metrics::describe_histogram!(metric.name, ::metrics::Unit::Seconds, metric.help),
        }
    }
    for (queue, kind) in jobs {
        for cause in ["error", "panic", "timeout", "lease expired"] {
            let labels = [("queue", queue), ("kind", kind), ("cause", cause)];
            show("leasehold_failed_total", Counter, &labels);
        }
        let labels = [("queue", queue), ("kind", kind)];
        METRICS
            .iter()
            .filter(|metric| metric.labels == JOB)
            .for_each(|metric| show(metric.name, metric.metric_type, &labels));
    }
    for topic in topics {
        METRICS
            .iter()
            .filter(|metric| metric.labels == TOPIC)
            .for_each(|metric| show(metric.name, metric.metric_type, &[("topic", topic)]));
    }
}

#[cfg(feature = "metrics")]
fn show(name: &'static str, metric_type: MetricType, labels: &[(&'static str, &str)]) {
    let labels: Vec<::metrics::Label> = labels
        .iter()
        .map(|(label, value)| ::metrics::Label::new(*label, (*value).to_owned()))
        .collect();
    match metric_type {
        Counter => ::metrics::counter!(name, labels).increment(0),
        // Depths are looked at in a moment.
        Gauge => {}
        Histogram => drop(::metrics::histogram!(name, labels)),
    }
}
