//! What happens to jobs, as numbers: feature `metrics`, on the [`metrics`](https://docs.rs/metrics) facade.
//!
//! Install any recorder of that crate; without one nothing is counted. Labels are `queue` and `kind`, and those named here.
//!
//! | Name | Type | Counts |
//! | --- | --- | --- |
//! | `leasehold_enqueued_total` | counter | jobs written, those of a transaction that rolls back included |
//! | `leasehold_claimed_total` | counter | jobs claimed |
//! | `leasehold_completed_total` | counter | completions in the database |
//! | `leasehold_failed_total` | counter | failed attempts, with `cause`: error, panic, timeout or lease expired |
//! | `leasehold_retried_total` | counter | failed attempts that are followed by another |
//! | `leasehold_snoozed_total` | counter | jobs put off by their handler |
//! | `leasehold_discarded_total` | counter | jobs discarded |
//! | `leasehold_cancelled_total` | counter | jobs cancelled by their handler or after a request |
//! | `leasehold_released_total` | counter | jobs given back before their handler began, or because the database was away |
//! | `leasehold_lost_total` | counter | writes refused, because the job was not this process's any more |
//! | `leasehold_durability_losses_total` | counter | those of them that prove a commit which the database forgot |
//! | `leasehold_emitted_total` | counter, `topic` alone | outbox events written, those of a transaction that rolls back included |
//! | `leasehold_delivered_total` | counter, `topic` alone | events delivered |
//! | `leasehold_delivery_failed_total` | counter, `topic` alone | deliveries that failed and are followed by another |
//! | `leasehold_dead_total` | counter, `topic` alone | events that are not delivered any more |
//! | `leasehold_delivery_seconds` | histogram, `topic` alone | a delivery's run |
//! | `leasehold_wait_seconds` | histogram | from a job's run time to its claim |
//! | `leasehold_run_seconds` | histogram | a handler's run |
//! | `leasehold_queue_depth` | gauge, `queue` alone | jobs that are due, every ten seconds; at most 10,000 of each queue are counted |
//! | `leasehold_oldest_ready_seconds` | gauge, `queue` alone | how long the oldest of those counted, and of the first of each kind, has been due |
//!
//! A process's depth gauges show the queues that it serves, all processes' jobs in them. What a worker serves is there from its
//! start, at zero. [`METRICS`] is this list for programs.

#![cfg_attr(
    not(feature = "metrics"),
    allow(unused_variables, reason = "without the feature nothing is counted")
)]

use std::time::Duration;

use crate::events::JobInfo;

mod list;
#[cfg(feature = "metrics")]
pub(crate) use list::begin;
pub use list::{METRICS, Metric, MetricType};

/// How many jobs are counted for the depth of a queue.
#[cfg(feature = "metrics")]
pub(crate) const DEPTH_LIMIT: i64 = 10_000;

/// One event of a job.
pub(crate) fn count(name: &'static str, job: &JobInfo<'_>) {
    #[cfg(feature = "metrics")]
    ::metrics::counter!(name, "queue" => job.queue.to_owned(), "kind" => job.kind.to_owned()).increment(1);
}

pub(crate) fn enqueued(queue: &str, kind: &str) {
    #[cfg(feature = "metrics")]
    ::metrics::counter!("leasehold_enqueued_total", "queue" => queue.to_owned(), "kind" => kind.to_owned())
        .increment(1);
}

pub(crate) fn failed(job: &JobInfo<'_>, cause: &'static str) {
    #[cfg(feature = "metrics")]
    ::metrics::counter!(
        "leasehold_failed_total", "queue" => job.queue.to_owned(), "kind" => job.kind.to_owned(), "cause" => cause
    )
    .increment(1);
}

/// One event of the outbox.
pub(crate) fn count_event(name: &'static str, topic: &str) {
    #[cfg(feature = "metrics")]
    ::metrics::counter!(name, "topic" => topic.to_owned()).increment(1);
}

/// A delivery has returned, well or not.
pub(crate) fn delivery(topic: &str, took: Duration) {
    #[cfg(feature = "metrics")]
    ::metrics::histogram!("leasehold_delivery_seconds", "topic" => topic.to_owned()).record(took);
}

/// A time in the life of a job.
pub(crate) fn record(name: &'static str, job: &JobInfo<'_>, time: Duration) {
    #[cfg(feature = "metrics")]
    ::metrics::histogram!(name, "queue" => job.queue.to_owned(), "kind" => job.kind.to_owned()).record(time);
}

#[cfg(feature = "metrics")]
pub(crate) fn depth(row: &crate::backend::DepthRow) {
    // Counts of at most some ten thousand; a gauge is an f64.
    let ready = u32::try_from(row.ready).unwrap_or(u32::MAX);
    let oldest = Duration::from_millis(u64::try_from(row.oldest_ms).unwrap_or_default());
    ::metrics::gauge!("leasehold_queue_depth", "queue" => row.queue.clone()).set(ready);
    ::metrics::gauge!("leasehold_oldest_ready_seconds", "queue" => row.queue.clone()).set(oldest.as_secs_f64());
}
