//! Retention: finished jobs are removed after the time of their state, and inboxes and the record of actions forget, a chunk at a
//! time.

use std::time::{Duration, Instant};

use super::Shared;
use super::control::{Failure, spread};
use super::maintenance::briefly;
use crate::backend::{Backend, PurgeCursor};
use crate::inspect::State;
use crate::manage::{PURGE_CHUNK, next_purge};
use crate::settle::millis;

const EVERY: Duration = Duration::from_secs(10);
/// A backlog takes a fifth of maintenance's time, and no more than this at once: leases are swept by the same thread.
const LONGEST: Duration = Duration::from_secs(2);

/// What this process removes, and how far it has come.
#[derive(Debug)]
pub(super) struct Purges {
    at: Instant,
    /// In the order of [`Retention::limits`](crate::manage::Retention).
    after: [PurgeCursor; 3],
}

impl Purges {
    pub(super) fn new() -> Self {
        Self {
            at: Instant::now(),
            after: [PurgeCursor::START; 3],
        }
    }

    /// What is old, if it is time, a chunk of each state after the other: others get the connection in between. What is left of
    /// a backlog goes on with the next turn of maintenance.
    pub(super) fn run<C: Backend, A: Send + Sync + 'static>(&mut self, shared: &Shared<C, A>) {
        let begun = Instant::now();
        if begun < self.at {
            return;
        }
        let time = (shared.sweep_every / 5).min(LONGEST);
        let mut more = self.purge_chunks(shared);
        while more && begun.elapsed() < time && !shared.stop.is_stopping() {
            more = self.purge_chunks(shared);
        }
        self.at = Instant::now() + if more { Duration::ZERO } else { spread(EVERY) };
    }

    /// One chunk of each; whether there may be more.
    fn purge_chunks<C: Backend, A: Send + Sync + 'static>(&mut self, shared: &Shared<C, A>) -> bool {
        let mut more = false;
        for (after, (state, keep)) in self.after.iter_mut().zip(shared.retention.limits()) {
            if let Some(keep) = keep {
                more |= purge(shared, state, keep, after);
            }
        }
        if let Some(keep) = shared.retention.inbox_limit() {
            let purged = briefly(shared, |conn| {
                conn.purge_inbox(&shared.schema, millis(keep), crate::inbox::CHUNK)
            });
            more |= purged.is_ok_and(|purged| i64::try_from(purged) == Ok(crate::inbox::CHUNK));
        }
        if let Some(keep) = shared.retention.actions_limit() {
            let purged = briefly(shared, |conn| {
                conn.purge_actions(&shared.schema, millis(keep), PURGE_CHUNK)
            });
            more |= purged.is_ok_and(|purged| i64::try_from(purged) == Ok(PURGE_CHUNK));
        }
        more
    }
}

/// One chunk; whether there may be more.
fn purge<C: Backend, A>(shared: &Shared<C, A>, state: State, keep: Duration, after: &mut PurgeCursor) -> bool {
    let from = *after;
    *after = PurgeCursor::START;
    let purged = briefly(shared, |conn| {
        conn.purge(&shared.schema, state.as_str(), millis(keep), from, PURGE_CHUNK)
    });
    match purged {
        Ok(rows) => {
            if rows.purged > 0 {
                log::debug!("purged {} {state} jobs", rows.purged);
            }
            if rows.seen < PURGE_CHUNK {
                return false;
            }
            *after = next_purge(&rows).unwrap_or(PurgeCursor::START);
            true
        }
        Err(Failure::Refused(error)) => {
            log::error!("{state} jobs cannot be purged: {error}");
            false
        }
        Err(Failure::Away) => false,
    }
}
