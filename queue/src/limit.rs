//! Limits that many jobs share, over all processes.
//!
//! A job of a kind with a limit is enqueued *blocked*, outside of the claim's index, and is *admitted* when there is room
//! for it ([`admit`](crate::admit)). How much room there is follows from the rows: of the jobs with one key at most so many
//! are admitted (ready or running) at a time. There is no counter that could be wrong, and no holder that could be
//! leaked: the job of a dead worker is itself what holds the place, until it is swept, and then it waits for room like the
//! others.

use std::time::Duration;

use crate::backend::{KindLimit, Rate};

/// How many jobs of a kind may run, over all processes. The derive writes it from `concurrency(…)`, `rate(…)` and
/// `serial(…)`.
///
/// ```
/// use std::time::Duration;
/// use leasehold::{Job, Limit};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, Job)]
/// #[job(kind = "sync", concurrency(by = "tenant", max = 2), rate(by = "tenant", max = 100, per = "1m"))]
/// struct Sync {
///     tenant: u64,
///     page: u32,
/// }
///
/// assert_eq!(Sync::LIMIT, Limit::none().concurrency(2).rate(100, Duration::from_secs(60)));
/// // One key for each tenant, whatever the page.
/// assert_eq!(Sync { tenant: 7, page: 1 }.limit_key(), Sync { tenant: 7, page: 2 }.limit_key());
/// assert_ne!(Sync { tenant: 7, page: 1 }.limit_key(), Sync { tenant: 8, page: 1 }.limit_key());
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limit {
    concurrency: Option<u32>,
    rate: Option<(u32, Duration)>,
    serial: bool,
}

impl Limit {
    /// As many as the workers can run.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            concurrency: None,
            rate: None,
            serial: false,
        }
    }

    /// At most `max` at a time with one key; at least one.
    #[must_use]
    pub const fn concurrency(mut self, max: u32) -> Self {
        self.concurrency = Some(if max == 0 { 1 } else { max });
        self
    }

    /// At most `max` begun within any time of the length `per`, with one key; at least one, and a millisecond.
    #[must_use]
    pub const fn rate(mut self, max: u32, per: Duration) -> Self {
        let millisecond = Duration::from_millis(1);
        let per = if per.as_millis() == 0 { millisecond } else { per };
        self.rate = Some((if max == 0 { 1 } else { max }, per));
        self
    }

    /// One at a time with one key, in the order of enqueue.
    #[must_use]
    pub const fn serial(mut self) -> Self {
        self.serial = true;
        self
    }

    pub(crate) fn is_none(&self) -> bool {
        *self == Self::none()
    }

    /// A job's place among those that wait for the same limit.
    pub(crate) fn rank(&self, priority: i16) -> i16 {
        if self.serial || self.is_none() { 0 } else { priority }
    }

    /// As the statements take it.
    pub(crate) fn of_kind(&self, kind: &str) -> KindLimit {
        KindLimit {
            kind: kind.to_owned(),
            max: if self.serial {
                Some(1)
            } else {
                self.concurrency.map(i64::from)
            },
            serial: self.serial,
            rate: self.rate.map(|(max, per)| Rate {
                max: max.into(),
                per_ms: crate::settle::millis(per),
            }),
        }
    }
}
