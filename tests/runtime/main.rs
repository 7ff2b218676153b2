//! What a worker's threads do, on both backends.

#![cfg(any(feature = "sqlite", feature = "postgres"))]
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod ahead;
mod batch;
mod cancel;
mod events;
mod expiry;
mod follow_up;
mod health;
mod heartbeat;
mod identity;
mod kinds;
mod limits;
mod log_lines;
mod pause;
mod pool;
mod queues;
mod relay;
mod relay_http;
mod retention;
mod retries;
mod schedules;
mod selected;
mod selected_lists;
mod selected_odd;
mod shutdown;
mod signals;
#[cfg(feature = "sqlite")]
mod slow_commit;
mod start;
mod sweep;
mod threads;
mod timeout;
mod versions;
mod wait;
mod wake_up;
