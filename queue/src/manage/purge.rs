//! Purge: finished jobs are removed after their time.

use std::time::Duration;

use diesel::result::QueryResult;

use crate::backend::{AsBackend, ManageStatements, PurgeCursor, Purged};
use crate::inspect::State;
use crate::migrate::Migrate;
use crate::schema::Schema;
use crate::settle::millis;

/// Rows in one transaction.
pub(crate) const CHUNK: i64 = 1000;

/// Longer than any worker looks for what became of its COMMIT.
const LEAST: Duration = Duration::from_secs(3600);

const DAY: Duration = Duration::from_secs(24 * 3600);

/// How long finished jobs are kept; workers remove them afterwards, a thousand in a statement.
///
/// By default completed and cancelled jobs are kept for a week, and discarded ones for 90 days. An hour is the least: a
/// worker whose answer from the database was lost looks for the job there. What consumers have accepted is remembered for
/// 30 days, and what people did by hand for 90.
///
/// ```
/// use std::time::Duration;
/// use leasehold::manage::Retention;
///
/// let retention = Retention::default().completed(Duration::from_secs(3600)).keep_discarded();
/// # let _ = retention;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    completed: Option<Duration>,
    cancelled: Option<Duration>,
    discarded: Option<Duration>,
    inbox: Option<Duration>,
    actions: Option<Duration>,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            completed: Some(7 * DAY),
            cancelled: Some(7 * DAY),
            discarded: Some(90 * DAY),
            inbox: Some(30 * DAY),
            actions: Some(90 * DAY),
        }
    }
}

impl Retention {
    /// Nothing is removed.
    #[must_use]
    pub fn keep_all() -> Self {
        Self {
            completed: None,
            cancelled: None,
            discarded: None,
            inbox: None,
            actions: None,
        }
    }

    /// Remembers for so long which events an [inbox](crate::inbox) has accepted, an hour at the least. Choose it longer than an
    /// event can be on its way: the attempts that it has, with the waits between them, and the time until somebody
    /// [redelivers](crate::outbox::redeliver) a dead one.
    #[must_use]
    pub fn inbox(mut self, keep: Duration) -> Self {
        self.inbox = Some(keep);
        self
    }

    /// Keeps completed jobs for so long after their end.
    #[must_use]
    pub fn completed(mut self, keep: Duration) -> Self {
        self.completed = Some(keep);
        self
    }

    /// Keeps cancelled jobs for so long after their end.
    #[must_use]
    pub fn cancelled(mut self, keep: Duration) -> Self {
        self.cancelled = Some(keep);
        self
    }

    /// Keeps discarded jobs for so long after their end.
    #[must_use]
    pub fn discarded(mut self, keep: Duration) -> Self {
        self.discarded = Some(keep);
        self
    }

    /// Keeps discarded jobs until somebody purges or requeues them.
    #[must_use]
    pub fn keep_discarded(mut self) -> Self {
        self.discarded = None;
        self
    }

    /// Keeps the record of what people did by hand for so long.
    #[must_use]
    pub fn actions(mut self, keep: Duration) -> Self {
        self.actions = Some(keep);
        self
    }

    /// Keeps the record of what people did by hand for ever.
    #[must_use]
    pub fn keep_actions(mut self) -> Self {
        self.actions = None;
        self
    }

    /// How long jobs that ended in each state are kept; `None` is for ever.
    pub(crate) fn limits(&self) -> [(State, Option<Duration>); 3] {
        [
            (State::Completed, self.completed),
            (State::Cancelled, self.cancelled),
            (State::Discarded, self.discarded),
        ]
        .map(|(state, keep)| (state, keep.map(|keep| keep.max(LEAST))))
    }

    pub(crate) fn inbox_limit(&self) -> Option<Duration> {
        self.inbox.map(|keep| keep.max(LEAST))
    }

    pub(crate) fn actions_limit(&self) -> Option<Duration> {
        self.actions
    }
}

/// Where the next look begins; `None` after the last one.
pub(crate) fn next(purged: &Purged) -> Option<PurgeCursor> {
    let (finished_at, id) = (purged.finished_at?, purged.id?);
    Some(PurgeCursor { finished_at, id })
}

/// Removes all jobs that ended in `state` at least `older_than` ago, with all that was kept of them; returns how many.
///
/// Keep an hour at least: a worker whose COMMIT answer was lost looks here for its job, and would be told that it is missing.
/// `Ready` and `Running` remove nothing.
///
/// Those that an unfinished batch counts, or for which another job waits, stay until they are not needed.
///
/// # Errors
///
/// The database's; what was removed before stays removed, unless the caller's transaction is open.
pub fn purge(conn: &mut impl AsBackend, schema: &Schema, state: State, older_than: Duration) -> QueryResult<u64> {
    conn.as_backend().patiently(|conn| {
        let (mut purged, mut after) = (0, Some(PurgeCursor::START));
        while let Some(cursor) = after {
            let rows = conn.purge(schema, state.as_str(), millis(older_than), cursor, CHUNK)?;
            purged += rows.purged.unsigned_abs();
            after = next(&rows);
        }
        Ok(purged)
    })?
}
