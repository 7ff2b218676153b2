//! What is shown, read at one time. Each read is bounded, however many jobs there are.

use std::time::{Duration, Instant};

use leasehold::AsBackend;
use leasehold::inspect::{self, Count, FailureRecord, Held, Latency, QueueRecord, Rate, RunningRecord};

use crate::database::Session;
use crate::failure::Failure;

/// Running jobs and failures that are shown: more than a screen has lines.
const ROWS: u32 = 200;
/// Seconds that the rates are shown for, and those that a number is the mean of.
const SECONDS: u32 = 60;
const MEAN_OF: usize = 10;

pub(super) struct Look {
    pub(super) at: Instant,
    pub(super) queues: Vec<QueueRecord>,
    pub(super) running: Vec<RunningRecord>,
    pub(super) failures: Vec<FailureRecord>,
    /// Of each second that is over, the oldest first.
    rates: Vec<Rate>,
}

/// Jobs that ended in one way.
pub(super) struct Ended {
    pub(super) by_second: Vec<u64>,
    /// A second, over the last ten.
    pub(super) rate: f64,
    /// Whether some seconds had more than were counted.
    pub(super) more: bool,
}

impl Look {
    pub(super) fn take<C: AsBackend>(session: &mut Session<'_, C>) -> Result<Self, Failure> {
        let (conn, schema) = (&mut *session.conn, &session.schema);
        let queues = inspect::queues(conn, schema)?;
        let mut rates = inspect::rates(conn, schema, Duration::from_secs(1), SECONDS + 1)?;
        rates.pop();
        let failures = inspect::failures(conn, schema, ROWS)?;
        let running = inspect::running(conn, schema, &Held::new(), 0, ROWS)?;
        Ok(Self {
            // Leases count down from when they were read.
            at: Instant::now(),
            queues,
            running,
            failures,
            rates,
        })
    }

    pub(super) fn ended(&self, figure: impl Fn(&Rate) -> Count) -> Ended {
        let counts: Vec<Count> = self.rates.iter().map(figure).collect();
        let last = &counts[counts.len().saturating_sub(MEAN_OF)..];
        let sum: u64 = last.iter().map(|count| count.rows).sum();
        #[expect(clippy::cast_precision_loss, reason = "it is shown with one digit")]
        let rate = sum as f64 / last.len().max(1) as f64;
        Ended {
            by_second: counts.iter().map(|count| count.rows).collect(),
            rate,
            more: last.iter().any(|count| count.more),
        }
    }

    /// Of the last second in which a job completed.
    pub(super) fn latency(&self) -> Option<Latency> {
        self.rates.iter().rev().find_map(|rate| rate.latency)
    }

    /// What is left of the lease now.
    pub(super) fn left(&self, job: &RunningRecord) -> Option<Duration> {
        let left = job.left?.checked_sub(self.at.elapsed())?;
        Some(left).filter(|left| !left.is_zero())
    }
}
