use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a condition is looked at: short beside everything that a test waits for.
const INTERVAL: Duration = Duration::from_millis(5);

/// Waits until `condition` holds, for what gives no event to wait for.
///
/// Panics at the caller's line when it does not hold within `deadline`; `what` names it: "the job is completed".
#[track_caller]
pub fn eventually(deadline: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    let mut looks = 0_u32;
    loop {
        looks += 1;
        if condition() {
            return;
        }
        let waited = begin.elapsed();
        assert!(
            waited < deadline,
            "expected within {deadline:?}, and it never came: {what} (looked {looks} times in {waited:?})"
        );
        std::thread::sleep(INTERVAL);
    }
}

/// How long a race of many threads goes on: `LEASEHOLD_RACE_SECONDS`, 2 unless it is set.
pub fn race_time() -> Duration {
    let seconds = std::env::var("LEASEHOLD_RACE_SECONDS").map_or(2, |text| {
        text.parse().expect("LEASEHOLD_RACE_SECONDS is a number of seconds")
    });
    Duration::from_secs(seconds)
}

/// Says that it is over when it goes, be it by a failed assertion: a scope waits for threads that are not told.
#[derive(Debug)]
pub struct Over<'a>(pub &'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
