//! Many measured times, and what is told of them.

use std::time::Duration;

/// Measured times.
#[derive(Debug, Clone, Default)]
pub struct Samples(Vec<Duration>);

impl Samples {
    /// One more.
    pub fn add(&mut self, time: Duration) {
        self.0.push(time);
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// In milliseconds, the time below which the given share of them lies (`0.5` for the median); zero without any.
    #[must_use]
    pub fn ms(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a place in a list"
        )]
        let place = ((sorted.len() as f64 * share).ceil() as usize).saturating_sub(1);
        sorted
            .get(place.min(sorted.len().saturating_sub(1)))
            .map_or(0.0, |time| time.as_secs_f64() * 1e3)
    }

    /// The longest, in milliseconds.
    #[must_use]
    pub fn max_ms(&self) -> f64 {
        self.ms(1.0)
    }
}

impl Extend<Duration> for Samples {
    fn extend<T: IntoIterator<Item = Duration>>(&mut self, times: T) {
        self.0.extend(times);
    }
}

impl FromIterator<Duration> for Samples {
    fn from_iter<T: IntoIterator<Item = Duration>>(times: T) -> Self {
        Self(times.into_iter().collect())
    }
}
