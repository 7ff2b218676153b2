//! Asking a worker.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::signs::Facts;
use super::{Health, HealthLimits, Probe};
use crate::Running;
use crate::backend::Backend;
use crate::lease::Held;
use crate::worker::Shared;
use crate::worker::heartbeat::is_renewed;

impl<C: Backend, A: Send + Sync + 'static> Running<C, A> {
    /// How it is at the moment, by the default [`HealthLimits`]: whether it lives and whether it can work, and why not. It waits
    /// for nothing and asks nobody, so an HTTP server may answer each request with it: 200 if it
    /// [is live](Health::is_live) or [is ready](Health::is_ready), else 503.
    ///
    /// The database counts as away when no thread of the runtime gets an answer. An idle worker asks at each of its sweeps, so
    /// that is noticed within a [sweep interval](crate::Worker::sweep_interval) and the limit.
    #[must_use]
    pub fn health(&self) -> Health {
        self.health_by(&HealthLimits::default())
    }

    /// As [`Running::health`], with other limits.
    #[must_use]
    pub fn health_by(&self, limits: &HealthLimits) -> Health {
        health_of(&self.shared, limits)
    }

    /// Asks for the health from other threads, during the shutdown and after it, too.
    ///
    /// ```
    /// # include!("../../doctest_setup.rs");
    /// use std::time::Duration;
    /// use leasehold::Worker;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (url, _conn) = doctest_database();
    /// let running = Worker::<SqliteConnection, _>::new(&url, ()).register::<Greet>().start()?;
    /// let probe = running.probe();
    /// let server = std::thread::spawn(move || if probe.health().is_ready() { 200 } else { 503 });
    /// assert_eq!(server.join().unwrap(), 200);
    /// running.shutdown(Duration::from_secs(30));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn probe(&self) -> Probe {
        let shared = Arc::downgrade(&self.shared);
        Probe::new(move |limits| match shared.upgrade() {
            Some(shared) => health_of(&shared, limits),
            None => Health::of_nobody(),
        })
    }
}

fn health_of<C: Backend, A>(shared: &Shared<C, A>, limits: &HealthLimits) -> Health {
    let now = Instant::now();
    let late = |held: &&Arc<Held>| is_renewed(held) && held.remaining(now) < held.lease / 3;
    let facts = Facts {
        stopping: shared.stop.is_stopping(),
        stuck_handlers: shared.stuck.load(Ordering::Acquire),
        threads: shared.threads,
        not_renewed: shared.leases.all().iter().filter(late).count(),
    };
    shared.signs.health(limits, &facts)
}
