//! Stopping on SIGINT and SIGTERM: gently at the first, at once at the second.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

use super::{Running, ShutdownReport, Worker};
use crate::backend::Backend;

/// Ends the watching thread when dropped.
pub(super) struct Watch(Handle);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}

/// Watches for signals: the first stops the claiming, the second ends the wait for running handlers.
pub(super) fn watch<C: Backend, A: Send + Sync + 'static>(running: &Running<C, A>) -> std::io::Result<Watch> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let handle = signals.handle();
    let (shared, at_once) = (Arc::clone(&running.shared), Arc::clone(&running.at_once));
    std::thread::Builder::new()
        .name("leasehold-signals".to_owned())
        .spawn(move || {
            for _ in signals.forever() {
                if shared.stop.is_stopping() {
                    log::warn!("second signal: stopping at once");
                    at_once.store(true, Ordering::Release);
                } else {
                    log::info!("signal: claiming nothing more, waiting for running handlers");
                    shared.stop.stop();
                    shared.wake();
                }
            }
        })?;
    Ok(Watch(handle))
}

impl<C: Backend, A: Send + Sync + 'static> Worker<C, A> {
    /// Makes [`Worker::run_until_empty`] end on SIGINT and SIGTERM: at the first it waits for running handlers, at the
    /// second it fences them and puts their jobs back.
    #[must_use]
    pub fn stop_on_signals(mut self) -> Self {
        self.signals = true;
        self
    }
}

impl<C: Backend, A: Send + Sync + 'static> Running<C, A> {
    /// Waits for SIGINT or SIGTERM, and then stops as [`Running::shutdown`] with this `patience` does; a second signal ends
    /// the patience. It is what the `main` of a service ends with.
    ///
    /// Signals are watched from this call on; before it, they end the process as they do without it.
    ///
    /// # Errors
    ///
    /// When signals cannot be watched. The worker is stopped then, without patience.
    ///
    /// ```no_run
    /// # include!("../doctest_setup.rs");
    /// use std::time::Duration;
    /// use leasehold::Worker;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let worker = Worker::<SqliteConnection, _>::new("app.db", ()).register::<Greet>();
    /// let report = worker.start()?.run_until_signalled(Duration::from_secs(30))?;
    /// println!("{} were put back", report.released + report.abandoned);
    /// # Ok(())
    /// # }
    /// ```
    pub fn run_until_signalled(mut self, patience: Duration) -> std::io::Result<ShutdownReport> {
        let _watch = watch(&self)?;
        // Nothing is ever sent: it closes at the stop.
        let _ = self.shared.stop.stopped().recv();
        Ok(self.stop(patience))
    }
}
