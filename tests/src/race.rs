use std::time::Duration;

/// How long a test of a race goes on: two seconds, or as many as `LEASEHOLD_RACE_SECONDS` says.
pub fn race_time() -> Duration {
    let seconds = std::env::var("LEASEHOLD_RACE_SECONDS").ok();
    let seconds = seconds.map(|text| text.parse().expect("LEASEHOLD_RACE_SECONDS is a whole number"));
    Duration::from_secs(seconds.unwrap_or(2))
}
