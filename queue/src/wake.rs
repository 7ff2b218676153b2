//! Waking idle claimers inside this process.
//!
//! SQLite tells nobody that rows came. An enqueue outside a transaction wakes the process's claimers at once. One inside a
//! caller's transaction is visible only after the caller's commit, of which we are not told; it makes them look often
//! for a moment instead. Claimers of other processes see the change by `PRAGMA data_version`.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;

/// How long claimers look often after an enqueue whose commit is still to come.
const EXPECT_FOR: Duration = Duration::from_millis(200);

#[derive(Default)]
struct Local {
    claimers: Vec<Sender<()>>,
    expected_until: Option<Instant>,
}

static LOCAL: Mutex<Local> = Mutex::new(Local {
    claimers: Vec::new(),
    expected_until: None,
});

fn local() -> std::sync::MutexGuard<'static, Local> {
    LOCAL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a claimer's channel, of capacity one. A claimer that is gone is dropped at the next wake.
pub(crate) fn register(claimer: Sender<()>) {
    local().claimers.push(claimer);
}

/// Something was enqueued and committed.
pub(crate) fn wake_local() {
    // Full means that it is about to look anyway.
    local().claimers.retain(|claimer| {
        !matches!(
            claimer.try_send(()),
            Err(crossbeam_channel::TrySendError::Disconnected(()))
        )
    });
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
