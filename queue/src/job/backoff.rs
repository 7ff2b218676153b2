//! How long a failed job waits.

use std::fmt;
use std::panic::catch_unwind;
use std::time::Duration;

use crate::panics::drop_contained;

/// How long a failed job waits before its next attempt, by the number of attempts so far.
///
/// ```
/// use std::time::Duration;
/// use leasehold::Backoff;
///
/// let backoff = Backoff::exponential(Duration::from_secs(1), Duration::from_secs(3600));
/// assert_eq!(backoff.after(1), Duration::from_secs(1));
/// assert_eq!(backoff.after(4), Duration::from_secs(8));
/// assert_eq!(backoff.after(u32::MAX), Duration::from_secs(3600));
/// ```
#[derive(Clone, Copy)]
pub struct Backoff {
    shape: Shape,
    /// By how many hundredths a wait may be shorter.
    jitter: u8,
}

#[derive(Clone, Copy)]
enum Shape {
    Fixed(Duration),
    Linear { step: Duration, max: Duration },
    Exponential { first: Duration, max: Duration },
    List(&'static [Duration]),
    Function(fn(u32) -> Duration),
}

/// What a function that panics, or a list of nothing, stands for.
const FALLBACK: Duration = Duration::from_secs(60);

impl Backoff {
    /// Always the same: `backoff = "fixed(30s)"`.
    #[must_use]
    pub const fn fixed(wait: Duration) -> Self {
        Self::of(Shape::Fixed(wait))
    }

    /// `step` after the first attempt and longer by `step` after each further one, up to `max`:
    /// `backoff = "linear(10s..5m)"`.
    #[must_use]
    pub const fn linear(step: Duration, max: Duration) -> Self {
        Self::of(Shape::Linear { step, max })
    }

    /// `first` after the first attempt and twice as long after each further one, up to `max`:
    /// `backoff = "exponential(1s..1h)"`.
    #[must_use]
    pub const fn exponential(first: Duration, max: Duration) -> Self {
        Self::of(Shape::Exponential { first, max })
    }

    /// One wait for each attempt; the last one for all that follow: `backoff = "list(1s, 10s, 1m)"`.
    #[must_use]
    pub const fn list(waits: &'static [Duration]) -> Self {
        Self::of(Shape::List(waits))
    }

    /// What a function says; it is given the attempt, the first being 1: `backoff = my_function`. One that panics stands
    /// for a minute.
    ///
    /// ```
    /// use std::time::Duration;
    /// use leasehold::Job;
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Serialize, Deserialize, Job)]
    /// #[job(kind = "poll", backoff = by_squares)]
    /// struct Poll;
    ///
    /// fn by_squares(attempt: u32) -> Duration {
    ///     Duration::from_secs(u64::from(attempt).pow(2))
    /// }
    ///
    /// assert_eq!(Poll::BACKOFF.after(5), Duration::from_secs(25));
    /// ```
    #[must_use]
    pub const fn function(wait: fn(attempt: u32) -> Duration) -> Self {
        Self::of(Shape::Function(wait))
    }

    /// Makes each wait shorter at random, by `percent` hundredths at the most (100 and more: by all of it), so that jobs
    /// which failed together do not come back together: `backoff = "exponential(1s..1h, jitter 20%)"`.
    #[must_use]
    pub const fn jitter(mut self, percent: u8) -> Self {
        self.jitter = if percent > 100 { 100 } else { percent };
        self
    }

    const fn of(shape: Shape) -> Self {
        Self { shape, jitter: 0 }
    }

    /// The longest wait after the given attempt, which is the wait where there is no jitter; the first attempt is 1. Never
    /// overflows.
    #[must_use]
    pub fn after(&self, attempt: u32) -> Duration {
        let before = attempt.saturating_sub(1);
        match self.shape {
            Shape::Fixed(wait) => wait,
            Shape::Linear { step, max } => step.saturating_mul(attempt.max(1)).min(max),
            Shape::Exponential { first, max } => doubled(first, before).min(max),
            Shape::List(waits) => {
                let index = usize::try_from(before).unwrap_or(usize::MAX);
                *waits.get(index).or(waits.last()).unwrap_or(&FALLBACK)
            }
            Shape::Function(wait) => catch_unwind(|| wait(attempt.max(1))).unwrap_or_else(|panic| {
                log::error!("the function of a backoff panicked at attempt {attempt}; it waits {FALLBACK:?}");
                drop_contained(panic);
                FALLBACK
            }),
        }
    }

    /// One wait after the given attempt, at random where there is jitter.
    pub(crate) fn draw(&self, attempt: u32) -> Duration {
        let longest = self.after(attempt);
        if self.jitter == 0 {
            return longest;
        }
        let part = fastrand::f64() * f64::from(self.jitter) / 100.0;
        // A product of floats may round up to more than it began with.
        let less = Duration::try_from_secs_f64(longest.as_secs_f64() * part).unwrap_or(longest);
        longest.saturating_sub(less)
    }
}

fn doubled(first: Duration, times: u32) -> Duration {
    // The longest duration has 94 bits of nanoseconds, so a bit shifted out of 128 is more than it can be.
    let nanos = 1_u128
        .checked_shl(times)
        .and_then(|factor| first.as_nanos().checked_mul(factor));
    match nanos {
        _ if first.is_zero() => Duration::ZERO,
        Some(nanos) if nanos < Duration::MAX.as_nanos() => from_nanos(nanos),
        _ => Duration::MAX,
    }
}

fn from_nanos(nanos: u128) -> Duration {
    const IN_A_SECOND: u128 = 1_000_000_000;
    let seconds = u64::try_from(nanos / IN_A_SECOND).unwrap_or(u64::MAX);
    let rest = u32::try_from(nanos % IN_A_SECOND).unwrap_or_default();
    Duration::new(seconds, rest)
}

impl fmt::Debug for Backoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shape {
            Shape::Fixed(wait) => write!(f, "fixed({wait:?}"),
            Shape::Linear { step, max } => write!(f, "linear({step:?}..{max:?}"),
            Shape::Exponential { first, max } => write!(f, "exponential({first:?}..{max:?}"),
            Shape::List(waits) => write!(f, "list({waits:?}"),
            Shape::Function(_) => write!(f, "function(…"),
        }?;
        match self.jitter {
            0 => f.write_str(")"),
            percent => write!(f, ", jitter {percent}%)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const HOUR: Duration = Duration::from_secs(3600);
    const ATTEMPTS: [u32; 12] = [0, 1, 2, 3, 31, 32, 33, 64, 65, 129, i32::MAX as u32, u32::MAX];

    fn seconds(backoff: &Backoff, attempts: impl IntoIterator<Item = u32>) -> Vec<u64> {
        let waits = attempts.into_iter().map(|attempt| backoff.after(attempt).as_secs());
        waits.collect()
    }

    #[test]
    fn each_shape_grows_as_it_says_and_stops_at_its_cap() {
        let fixed = Backoff::fixed(30 * SECOND);
        let linear = Backoff::linear(10 * SECOND, 25 * SECOND);
        let exponential = Backoff::exponential(SECOND, HOUR);
        const LIST: &[Duration] = &[SECOND, Duration::from_secs(10), Duration::from_secs(60)];
        assert_eq!(seconds(&fixed, [1, 2, 9, u32::MAX]), [30, 30, 30, 30]);
        assert_eq!(seconds(&linear, [1, 2, 3, u32::MAX]), [10, 20, 25, 25]);
        assert_eq!(
            seconds(&exponential, [1, 2, 3, 12, 13, u32::MAX]),
            [1, 2, 4, 2048, 3600, 3600]
        );
        assert_eq!(
            seconds(&Backoff::list(LIST), [0, 1, 2, 3, 4, u32::MAX]),
            [1, 1, 10, 60, 60, 60]
        );
        assert_eq!(Backoff::list(&[]).after(3), FALLBACK);
        let function = Backoff::function(|attempt| Duration::from_secs(u64::from(attempt) * 7));
        assert_eq!(seconds(&function, [0, 1, 2, 10]), [7, 7, 14, 70]);
    }

    #[test]
    fn no_attempt_and_no_duration_overflows() {
        let durations = [Duration::ZERO, Duration::from_nanos(1), SECOND, HOUR, Duration::MAX];
        for attempt in ATTEMPTS {
            for first in durations {
                for max in durations {
                    for backoff in [Backoff::linear(first, max), Backoff::exponential(first, max)] {
                        assert!(backoff.after(attempt) <= max, "{backoff:?} {attempt}");
                        assert!(backoff.jitter(100).draw(attempt) <= max, "{backoff:?} {attempt}");
                    }
                }
            }
            assert_eq!(Backoff::fixed(Duration::MAX).after(attempt), Duration::MAX);
            assert!(Backoff::function(|_| Duration::MAX).jitter(50).draw(attempt) >= Duration::MAX / 4);
        }
        let nanosecond = Backoff::exponential(Duration::from_nanos(1), Duration::MAX);
        assert_eq!(nanosecond.after(u32::MAX), Duration::MAX);
        assert_eq!(nanosecond.after(34), Duration::from_nanos(1 << 33));
        assert_eq!(
            Backoff::exponential(Duration::ZERO, HOUR).after(u32::MAX),
            Duration::ZERO
        );
    }

    #[test]
    fn jitter_makes_a_wait_shorter_and_by_no_more_than_it_says() {
        let capped = Backoff::exponential(SECOND, HOUR).jitter(20);
        let all = Backoff::fixed(HOUR).jitter(255);
        let (mut shortest, mut longest) = (HOUR, Duration::ZERO);
        for _ in 0..10_000 {
            let wait = capped.draw(u32::MAX);
            assert!(wait <= HOUR && wait >= HOUR.mul_f64(0.7999), "{wait:?}");
            (shortest, longest) = (shortest.min(wait), longest.max(wait));
            assert!(all.draw(1) <= HOUR);
            assert_eq!(Backoff::fixed(Duration::ZERO).jitter(50).draw(1), Duration::ZERO);
        }
        assert!(
            shortest < HOUR.mul_f64(0.85) && longest > HOUR.mul_f64(0.95),
            "{shortest:?} {longest:?}"
        );
        assert_eq!(capped.after(u32::MAX), HOUR);
        assert_eq!(Backoff::fixed(HOUR).draw(1), HOUR);
    }

    #[test]
    fn a_function_that_panics_stands_for_a_minute() {
        let panics = Backoff::function(|_| panic!("not thought of"));
        assert_eq!(panics.after(1), FALLBACK);
    }

    #[test]
    fn it_shows_as_it_is_written() {
        let backoff = Backoff::exponential(SECOND, HOUR).jitter(20);
        assert_eq!(format!("{backoff:?}"), "exponential(1s..3600s, jitter 20%)");
        assert_eq!(format!("{:?}", Backoff::fixed(SECOND)), "fixed(1s)");
    }
}
