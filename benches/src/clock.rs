//! Clocks that processes of one machine have in common.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds on the machine's monotonic clock, the same in every process.
#[must_use]
pub fn now_ns() -> u64 {
    read(ClockId::Monotonic)
}

/// How much processor time this process has used, all threads together.
#[must_use]
pub fn cpu_time() -> Duration {
    Duration::from_nanos(read(ClockId::ProcessCPUTime))
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    seconds.unwrap_or_default() * 1_000_000_000 + nanos.unwrap_or_default()
}
