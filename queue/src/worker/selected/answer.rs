//! What became of each thing that was asked for.

use std::fmt;
use std::time::SystemTime;

use diesel::result::Error;

use super::{Asked, ClaimedJob, Selection};
use crate::backend::{Backend, SelectedAs};
use crate::inspect::{State, time};

/// The answer for one of those that were asked for.
#[non_exhaustive]
pub struct Selected<C: Backend> {
    /// What was asked for.
    pub asked: Asked,
    /// The job's id; `None` when nothing is known of such a job.
    pub id: Option<i64>,
    /// What it is.
    pub answer: Answer<C>,
}

/// What a claim found a chosen job to be.
#[non_exhaustive]
pub enum Answer<C: Backend> {
    /// It is this process's now.
    Claimed(ClaimedJob<C>),
    /// Somebody else had its row locked at this moment, or has just got it. Ask again: it may be free or running then.
    Busy,
    /// A worker holds its lease.
    Running {
        /// The generation of that lease.
        generation: i64,
        /// The worker's id, as the table of workers has it.
        worker: String,
        /// When the lease ends if it is not renewed, by the database's clock.
        lease_until: SystemTime,
    },
    /// Its run time is still to come.
    NotDue {
        /// When it comes due.
        run_at: SystemTime,
    },
    /// Something keeps it that is not time.
    Blocked {
        /// What.
        by: BlockedBy,
    },
    /// Everything, its queue or its kind is paused.
    Paused,
    /// This worker has no handler for its kind, or for a payload of its version. Also for a job that was begun more often
    /// than can be counted.
    NotServed {
        /// Its kind.
        kind: String,
        /// Its payload's version.
        version: u32,
    },
    /// It is too old to begin, and about to be discarded.
    Expired,
    /// It has ended, completed or discarded. A discarded one can be [requeued](crate::manage::requeue).
    Finished {
        /// `Completed` or `Discarded`.
        state: State,
        /// When it ended.
        finished_at: SystemTime,
    },
    /// It was cancelled. It can be [requeued](crate::manage::requeue).
    Cancelled {
        /// When it was.
        finished_at: SystemTime,
    },
    /// There is no such job: never, not any more, or not under this key.
    Missing,
}

/// What keeps a job that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockedBy {
    /// A limit of its kind: there is no room, or it is the turn of another one.
    Limit,
    /// Jobs that have to end first.
    Jobs,
}

/// Why nothing was claimed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// More than [`Selection::MOST`] distinct things were asked for.
    #[error(
        "{asked} jobs were asked for at once, more than {}: ask for them in several calls",
        Selection::MOST
    )]
    TooMany {
        /// How many.
        asked: usize,
    },
    /// The kind's jobs have no unique key to be found by.
    #[error("jobs of the kind `{kind}` have no unique key to be found by: give it `unique(…)`, or choose by id")]
    NoUniqueKey {
        /// The kind.
        kind: &'static str,
    },
    /// The worker stops, and claims nothing more.
    #[error("the worker is stopping, and claims nothing more")]
    Stopping,
    /// Called inside the commit of a lease on SQLite, which keeps every other writer waiting, this claim among them.
    #[error("a claim inside the commit of a lease would wait for that commit, and the commit for it: claim before it")]
    InCommit,
    /// The database could not be reached. Should it have claimed something all the same, that is given back as soon as it
    /// answers again, or at the latest when the lease ends.
    #[error("the database is away")]
    Away,
    /// The database refused the statement; nothing was claimed.
    #[error("the claim was refused: {0}")]
    Database(#[source] Error),
}

impl<C: Backend> Answer<C> {
    /// The job, if it was claimed.
    #[must_use]
    pub fn claimed(self) -> Option<ClaimedJob<C>> {
        match self {
            Self::Claimed(job) => Some(job),
            _ => None,
        }
    }

    /// Whether it was claimed.
    #[must_use]
    pub fn is_claimed(&self) -> bool {
        matches!(self, Self::Claimed(_))
    }

    /// `None` for one that was claimed.
    pub(super) fn of_unclaimed(found: SelectedAs) -> Option<Self> {
        Some(match found {
            SelectedAs::Claimed(_) => return None,
            SelectedAs::Busy => Self::Busy,
            SelectedAs::Running {
                generation,
                worker,
                lease_until_ms,
            } => Self::Running {
                generation,
                worker,
                lease_until: time(lease_until_ms),
            },
            SelectedAs::NotDue { run_at_ms } => Self::NotDue {
                run_at: time(run_at_ms),
            },
            SelectedAs::ByLimit { .. } => Self::Blocked { by: BlockedBy::Limit },
            SelectedAs::ByJobs => Self::Blocked { by: BlockedBy::Jobs },
            SelectedAs::Paused => Self::Paused,
            SelectedAs::NotServed { kind, version } => Self::NotServed {
                kind,
                version: version.unsigned_abs(),
            },
            SelectedAs::Expired => Self::Expired,
            SelectedAs::Ended { state, finished_at_ms } => match State::parse(&state) {
                State::Cancelled => Self::Cancelled {
                    finished_at: time(finished_at_ms),
                },
                state => Self::Finished {
                    state,
                    finished_at: time(finished_at_ms),
                },
            },
            SelectedAs::Missing => Self::Missing,
        })
    }
}

impl<C: Backend> fmt::Display for Answer<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claimed(_) => f.write_str("claimed"),
            Self::Busy => f.write_str("busy"),
            Self::Running { .. } => f.write_str("running"),
            Self::NotDue { .. } => f.write_str("not due"),
            Self::Blocked { by: BlockedBy::Limit } => f.write_str("blocked by a limit"),
            Self::Blocked { by: BlockedBy::Jobs } => f.write_str("blocked by other jobs"),
            Self::Paused => f.write_str("paused"),
            Self::NotServed { kind, version } => write!(f, "not served: {kind}, version {version}"),
            Self::Expired => f.write_str("expired"),
            Self::Finished { state, .. } => write!(f, "{state}"),
            Self::Cancelled { .. } => f.write_str("cancelled"),
            Self::Missing => f.write_str("missing"),
        }
    }
}

impl<C: Backend> fmt::Debug for Answer<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claimed(job) => f.debug_tuple("Claimed").field(job).finish(),
            Self::Running {
                generation,
                worker,
                lease_until,
            } => f
                .debug_struct("Running")
                .field("generation", generation)
                .field("worker", worker)
                .field("lease_until", lease_until)
                .finish(),
            Self::NotDue { run_at } => f.debug_struct("NotDue").field("run_at", run_at).finish(),
            Self::Finished { finished_at, .. } | Self::Cancelled { finished_at } => {
                write!(f, "{self} at {finished_at:?}")
            }
            other => write!(f, "{other}"),
        }
    }
}

impl<C: Backend> fmt::Debug for Selected<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Selected")
            .field("asked", &self.asked)
            .field("id", &self.id)
            .field("answer", &self.answer)
            .finish()
    }
}
