//! Waking idle claimers, and heartbeats that have something to see, inside this process.
//!
//! SQLite tells nobody that rows came. An enqueue outside a transaction wakes the process's claimers at once. One inside a
//! caller's transaction is visible only after the caller's commit, of which we are not told; it makes them look often
//! for a moment instead. Claimers of other processes see the change by `PRAGMA data_version`.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, TrySendError};

/// How long claimers look often after an enqueue whose commit is still to come.
const EXPECT_FOR: Duration = Duration::from_millis(200);

#[derive(Default)]
struct Local {
    claimers: Vec<Sender<()>>,
    heartbeats: Vec<Sender<()>>,
    expected_until: Option<Instant>,
}

static LOCAL: Mutex<Local> = Mutex::new(Local {
    claimers: Vec::new(),
    heartbeats: Vec::new(),
    expected_until: None,
});

fn local() -> std::sync::MutexGuard<'static, Local> {
    LOCAL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds the channels of a worker's claimer and heartbeat, of capacity one. Those of a worker that is gone are dropped at
/// the next wake.
pub(crate) fn register(claimer: Sender<()>, heartbeat: Sender<()>) {
    let mut local = local();
    local.claimers.push(claimer);
    local.heartbeats.push(heartbeat);
}

/// Something was enqueued and committed.
pub(crate) fn wake_local() {
    local().claimers.retain(is_told);
}

/// Running jobs were cancelled, or asked to stop.
pub(crate) fn beat_local() {
    local().heartbeats.retain(is_told);
}

/// Full means that it is about to look anyway.
fn is_told(channel: &Sender<()>) -> bool {
    !matches!(channel.try_send(()), Err(TrySendError::Disconnected(())))
}

/// Something was enqueued and its commit is to come.
pub(crate) fn expect_local() {
    local().expected_until = Some(Instant::now() + EXPECT_FOR);
    wake_local();
}

/// Whether a commit is to be expected any moment.
#[cfg(feature = "sqlite")]
pub(crate) fn is_expected() -> bool {
    local().expected_until.is_some_and(|until| Instant::now() < until)
}
