//! How many jobs ended when, and how long they took.

use std::time::{Duration, SystemTime};

use diesel::result::QueryResult;

use super::{Count, State, time};
use crate::backend::{AsBackend, Buckets, CheckStatements, FigureStatements};
use crate::schema::Schema;
use crate::settle::millis;

/// Buckets at the most.
const BUCKETS: u32 = 1000;
/// Jobs that are counted of one state in one bucket, at the most and at the least, and of one state in all buckets.
const AT_MOST: i64 = 10_000;
const AT_LEAST: i64 = 100;
const OF_ALL: i64 = 100_000;
/// Jobs of one bucket that are asked how long they took, and of all buckets.
const TOOK_AT_MOST: i64 = 100;
const TOOK_OF_ALL: i64 = 10_000;

/// What ended in one stretch of time.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rate {
    /// When the stretch begins, by the database's clock; it ends where the next one begins.
    pub from: SystemTime,
    /// Jobs that ended well.
    pub completed: Count,
    /// Jobs that ended without success.
    pub discarded: Count,
    /// Jobs that were cancelled.
    pub cancelled: Count,
    /// How long the first 100 of the completed ones took (fewer with more than a hundred buckets); `None` without any.
    pub latency: Option<Latency>,
}

/// How long jobs took from the run time of their last attempt to their end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Latency {
    /// Of how many jobs.
    pub jobs: u64,
    /// The mean.
    pub mean: Duration,
    /// Half of them took no longer.
    pub median: Duration,
    /// 95 of a hundred took no longer.
    pub p95: Duration,
    /// The longest.
    pub longest: Duration,
}

impl Latency {
    fn of(mut took: Vec<u64>) -> Option<Self> {
        took.sort_unstable();
        let jobs = u64::try_from(took.len()).ok().filter(|jobs| *jobs > 0)?;
        let at_least = |share: usize| {
            took.get((took.len() * share).div_ceil(100) - 1)
                .copied()
                .map(Duration::from_millis)
        };
        Some(Self {
            jobs,
            mean: Duration::from_millis(took.iter().sum::<u64>() / jobs),
            median: at_least(50)?,
            p95: at_least(95)?,
            longest: at_least(100)?,
        })
    }
}

/// The finished jobs of the last `buckets` stretches of time, each as long as `bucket`, the oldest first.
///
/// There are 1,000 buckets at the most, of a millisecond at the least. The last one has begun and not ended; all begin at
/// multiples of their length since 1970.
///
/// It takes milliseconds however many jobs there are. Of each state 100,000 jobs are counted in all, evenly over the buckets, and
/// never more than 10,000 in one: of 60 buckets 1,666 in each. Where more ended, the count says so and ends there. So ask for
/// shorter stretches of a busy queue: buckets of a second are exact up to 1,666 jobs a second. Metrics count everything.
///
/// Jobs that were purged or requeued are not counted.
///
/// # Errors
///
/// The database's.
///
/// ```
/// # include!("../doctest_setup.rs");
/// use std::time::Duration;
/// use leasehold::inspect;
/// use leasehold::Schema;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (_url, mut conn) = doctest_database();
/// let hour = inspect::rates(&mut conn, &Schema::default(), Duration::from_secs(60), 60)?;
/// assert_eq!(hour.len(), 60);
/// for minute in hour {
///     println!("{:?}: {} completed, {} discarded", minute.from, minute.completed, minute.discarded);
/// }
/// # Ok(())
/// # }
/// ```
pub fn rates(conn: &mut impl AsBackend, schema: &Schema, bucket: Duration, buckets: u32) -> QueryResult<Vec<Rate>> {
    let conn = conn.as_backend();
    let length_ms = millis(bucket).max(1);
    let count = i64::from(buckets.clamp(1, BUCKETS));
    let newest = conn.clock_ms()?.div_euclid(length_ms);
    let from_ms = (newest - count + 1).saturating_mul(length_ms);
    let buckets = Buckets {
        from_ms,
        length_ms,
        count,
    };
    let empty = |number: i64| Rate {
        from: time(from_ms.saturating_add(number.saturating_mul(length_ms))),
        completed: Count::default(),
        discarded: Count::default(),
        cancelled: Count::default(),
        latency: None,
    };
    let mut rates: Vec<Rate> = (0..count).map(empty).collect();
    let at_most = (OF_ALL / count).clamp(AT_LEAST, AT_MOST);
    for row in conn.finished_counts(schema, buckets, at_most)? {
        let Some(rate) = usize::try_from(row.bucket).ok().and_then(|at| rates.get_mut(at)) else {
            continue;
        };
        let jobs = Count::bounded(row.jobs, at_most);
        match State::parse(&row.state) {
            State::Completed => rate.completed = jobs,
            State::Discarded => rate.discarded = jobs,
            _ => rate.cancelled = jobs,
        }
    }
    let mut took = vec![Vec::new(); rates.len()];
    for row in conn.finished_took(schema, buckets, (TOOK_OF_ALL / count).clamp(1, TOOK_AT_MOST))? {
        if let Some(bucket) = usize::try_from(row.bucket).ok().and_then(|at| took.get_mut(at)) {
            bucket.push(u64::try_from(row.ms).unwrap_or(0));
        }
    }
    for (rate, took) in rates.iter_mut().zip(took) {
        rate.latency = Latency::of(took);
    }
    Ok(rates)
}
