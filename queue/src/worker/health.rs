//! Whether a worker lives and can work, for whoever restarts it or sends it work.
//!
//! Each thread of the runtime notes when it begins something that may take long (a statement, a hook, the wait for a connection
//! that it shares) and when that is over. So asking costs nothing and waits for nothing, least of all for the database.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

mod ask;
mod signs;
pub(crate) use signs::{Doing, during};
pub(super) use signs::{Signs, answered, attach};

/// From when on a worker is not healthy.
///
/// ```
/// use std::time::Duration;
/// use leasehold::HealthLimits;
///
/// let strict = HealthLimits::default().database(Duration::from_secs(3));
/// # let _ = strict;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthLimits {
    thread: Duration,
    database: Duration,
    stuck_handlers: Option<usize>,
}

impl Default for HealthLimits {
    fn default() -> Self {
        Self {
            thread: Duration::from_secs(300),
            database: Duration::from_secs(10),
            stuck_handlers: None,
        }
    }
}

impl HealthLimits {
    /// A thread of the runtime has been at one thing for so long; five minutes by default. No statement of ours takes that long,
    /// so a hook, or something worse, has stopped it.
    #[must_use]
    pub fn thread(mut self, time: Duration) -> Self {
        self.thread = time;
        self
    }

    /// The database has been away, or silent, for so long; ten seconds by default.
    #[must_use]
    pub fn database(mut self, time: Duration) -> Self {
        self.database = time;
        self
    }

    /// So many handlers run on after their timeout; by default as many as there are threads, for then no further thread replaces
    /// them.
    #[must_use]
    pub fn stuck_handlers(mut self, handlers: usize) -> Self {
        self.stuck_handlers = Some(handlers);
        self
    }
}

/// Something that is wrong with a running worker. Its text says what.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The worker stops, or has stopped.
    Stopping,
    /// A thread of the runtime has panicked.
    ThreadDied {
        /// Its name.
        thread: String,
    },
    /// A thread of the runtime has been at one thing for too long.
    ThreadStuck {
        /// Its name.
        thread: String,
        /// For how long.
        since: Duration,
    },
    /// Handlers run on after their timeout, and keep so many threads that none more is replaced.
    HandlersStuck {
        /// How many.
        handlers: usize,
        /// From how many on it is too many.
        limit: usize,
    },
    /// The database does not take connections, or ends them.
    DatabaseAway {
        /// Since when.
        since: Duration,
    },
    /// The database has not answered a statement.
    DatabaseSilent {
        /// For how long.
        since: Duration,
    },
    /// Leases that this process holds were not renewed for two thirds of their time.
    LeasesNotRenewed {
        /// How many.
        leases: usize,
    },
}

impl Problem {
    /// A word for it that stays the same, for programs to go by: `database_away`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Stopping => "stopping",
            Self::ThreadDied { .. } => "thread_died",
            Self::ThreadStuck { .. } => "thread_stuck",
            Self::HandlersStuck { .. } => "handlers_stuck",
            Self::DatabaseAway { .. } => "database_away",
            Self::DatabaseSilent { .. } => "database_silent",
            Self::LeasesNotRenewed { .. } => "leases_not_renewed",
        }
    }

    /// Whether nothing but a new process mends it.
    #[must_use]
    pub fn needs_a_restart(&self) -> bool {
        matches!(
            self,
            Self::ThreadDied { .. } | Self::ThreadStuck { .. } | Self::HandlersStuck { .. }
        )
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopping => f.write_str("the worker stops"),
            Self::ThreadDied { thread } => write!(f, "the thread {thread} has panicked"),
            Self::ThreadStuck { thread, since } => {
                write!(f, "the thread {thread} has been at one thing for {} s", since.as_secs())
            }
            Self::HandlersStuck { handlers, limit } => {
                write!(
                    f,
                    "{handlers} handlers run on after their timeout, and {limit} are too many"
                )
            }
            Self::DatabaseAway { since } => write!(f, "the database has been away for {} s", since.as_secs()),
            Self::DatabaseSilent { since } => write!(f, "the database has not answered for {} s", since.as_secs()),
            Self::LeasesNotRenewed { leases } => write!(f, "{leases} leases were not renewed in time"),
        }
    }
}

/// How a worker is; see [`Running::health`](crate::Running::health).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    problems: Vec<Problem>,
}

impl Health {
    pub(super) fn of_nobody() -> Self {
        Self {
            problems: vec![Problem::Stopping],
        }
    }

    /// Whether the process can be left to itself: it may wait for something, but what is wrong can pass. If not, restart it.
    #[must_use]
    pub fn is_live(&self) -> bool {
        !self.problems.iter().any(Problem::needs_a_restart)
    }

    /// Whether it works: nothing is wrong.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.problems.is_empty()
    }

    /// What is wrong.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

/// `ready`, or what is wrong, a line for each.
impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_ready() {
            return f.write_str("ready");
        }
        for (index, problem) in self.problems.iter().enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            write!(f, "{end}{problem}")?;
        }
        Ok(())
    }
}

/// Asks a worker how it is, from anywhere and after its end, too; see [`Running::probe`](crate::Running::probe).
#[derive(Clone)]
pub struct Probe(Arc<dyn Fn(&HealthLimits) -> Health + Send + Sync>);

impl Probe {
    pub(super) fn new(ask: impl Fn(&HealthLimits) -> Health + Send + Sync + 'static) -> Self {
        Self(Arc::new(ask))
    }

    /// As [`Running::health`](crate::Running::health).
    #[must_use]
    pub fn health(&self) -> Health {
        self.health_by(&HealthLimits::default())
    }

    /// As [`Probe::health`], with other limits.
    #[must_use]
    pub fn health_by(&self, limits: &HealthLimits) -> Health {
        (self.0)(limits)
    }
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Probe").field(&self.health()).finish()
    }
}
