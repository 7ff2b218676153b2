//! Rates, quantiles and medians.

use std::time::Duration;

#[allow(clippy::cast_precision_loss, reason = "a count of jobs")]
pub(crate) fn rate(jobs: usize, time: Duration) -> f64 {
    jobs as f64 / time.as_secs_f64()
}

/// The value below or at which this part of the values is; `None` of none.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a place in a short list"
)]
pub(crate) fn quantile(values: &mut [f64], part: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let place = (values.len() as f64 * part).ceil() as usize;
    values.get(place.saturating_sub(1)).copied()
}

/// The middle value, or the mean of the two in the middle; `None` of none.
pub(crate) fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values {
        [] => None,
        odd if odd.len() % 2 == 1 => Some(odd[middle]),
        even => Some(f64::midpoint(even[middle - 1], even[middle])),
    }
}
