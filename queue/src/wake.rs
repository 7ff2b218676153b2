//! Waking idle claimers, and heartbeats that have something to see, inside this process.
//!
//! SQLite tells nobody that rows came. An enqueue outside a transaction wakes the process's claimers at once. One inside a
//! caller's transaction is visible only after the caller's commit, of which we are not told; it makes them look often
//! for a moment instead. Claimers of other processes see the change by `PRAGMA data_version`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, TrySendError};

/// How long claimers look often after an enqueue whose commit is still to come.
const EXPECT_FOR: Duration = Duration::from_millis(200);

#[derive(Default)]
struct Local {
    claimers: Vec<Sender<()>>,
    heartbeats: Vec<Sender<()>>,
    relays: Vec<Sender<()>>,
    expected_until: Option<Instant>,
    event_expected_until: Option<Instant>,
}

static LOCAL: Mutex<Local> = Mutex::new(Local {
    claimers: Vec::new(),
    heartbeats: Vec::new(),
    relays: Vec::new(),
    expected_until: None,
    event_expected_until: None,
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

/// Adds the channel of a relay's thread, of capacity one.
pub(crate) fn register_relay(relay: Sender<()>) {
    local().relays.push(relay);
}

/// Something was emitted and committed.
pub(crate) fn wake_relays() {
    local().relays.retain(is_told);
}

/// Something was emitted and its commit is to come.
pub(crate) fn expect_relays() {
    local().event_expected_until = Some(Instant::now() + EXPECT_FOR);
    wake_relays();
}

/// Whether the commit of an event is to be expected any moment.
pub(crate) fn is_event_expected() -> bool {
    local().event_expected_until.is_some_and(|until| Instant::now() < until)
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

/// Who waits in this process for jobs to end; see [`Ended`].
static ENDED: (Mutex<u64>, Condvar) = (Mutex::new(0), Condvar::new());
static WAITERS: AtomicUsize = AtomicUsize::new(0);

/// A job of this process has ended, and that is committed. Costs nothing while nobody waits.
pub(crate) fn ended() {
    if WAITERS.load(Ordering::SeqCst) > 0 {
        *ENDED.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        ENDED.1.notify_all();
    }
}

/// Somebody who waits for a job to end. The numbers are not of one job: look again at each.
pub(crate) struct Ended(());

impl Ended {
    pub(crate) fn listen() -> Self {
        WAITERS.fetch_add(1, Ordering::SeqCst);
        Self(())
    }

    /// Counts up with each end.
    pub(crate) fn number(&self) -> u64 {
        *ENDED.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until more jobs have ended than `seen`, `timeout` at the most.
    pub(crate) fn wait(&self, seen: u64, timeout: Duration) {
        let number = ENDED.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop(ENDED.1.wait_timeout_while(number, timeout, |number| *number == seen));
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        WAITERS.fetch_sub(1, Ordering::SeqCst);
    }
}
