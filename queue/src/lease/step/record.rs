//! The record of a step, when its effect has happened.

use std::fmt::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use diesel::result::{DatabaseErrorKind, Error, QueryResult};

use super::StepError;
use crate::backend::{Backend, NewStep};
use crate::commit::{MAX_STALE_CONNECTIONS, depth, is_conflict, is_dead};
use crate::handler::JobError;
use crate::lease::{Fence, LeaseGuard, Refusal};
use crate::schema::Schema;
use crate::transaction::atomically;

/// How often a database that is there may refuse a record.
const MAX_REFUSALS: u32 = 3;

/// Why one try came to nothing.
enum Failed {
    /// The pool's connection was dead, or in the middle of somebody's transaction.
    Stale(JobError),
    /// The database is away, takes no writes for now, or somebody else has a lock.
    Away(JobError),
    Refused(Error),
}

impl<C: Backend> LeaseGuard<'_, C> {
    /// Records a step; how the row refused it, if it did. A step that is not recorded is called again, so this goes on as
    /// long as the lease does. Writing it twice does no harm.
    pub(super) fn record(&mut self, mut step: NewStep) -> Result<Option<Refusal>, JobError> {
        let (mut stale, mut refused, mut wait) = (0, 0, Duration::from_millis(20));
        loop {
            let why = match self.record_once(&step) {
                Ok(refusal) => return Ok(refusal),
                Err(Failed::Refused(source)) => {
                    refused += 1;
                    if refused >= MAX_REFUSALS || self.slot.permits_savepoint() {
                        let step = step.name;
                        return Err(StepError::Unrecorded { step, source }.into());
                    }
                    // A database whose encoding lacks a character refuses the whole statement.
                    step.result = in_ascii(&step.result);
                    continue;
                }
                Err(Failed::Stale(_)) if stale < MAX_STALE_CONNECTIONS => {
                    stale += 1;
                    continue;
                }
                Err(Failed::Stale(why) | Failed::Away(why)) => why,
            };
            if self.held.remaining(Instant::now()) < wait {
                return Err(JobError::away(format!(
                    "the effect of step `{}` has happened and was not recorded before the lease ended ({why})",
                    step.name
                )));
            }
            log::debug!(
                "step not recorded {} step={:?}: {why}; trying again",
                self.held.info(),
                step.name
            );
            thread::sleep(wait);
            wait = (wait * 2).min(Duration::from_secs(1));
        }
    }

    fn record_once(&mut self, step: &NewStep) -> Result<Option<Refusal>, Failed> {
        let (schema, gate, fence) = (
            self.slot.schema().clone(),
            self.slot.write_gate().clone(),
            self.held.fence,
        );
        let savepoint = self.slot.permits_savepoint();
        let conn = self.slot.connection().map_err(Failed::Away)?;
        let recorded = gate.hold(|| match depth(conn) {
            Ok(0) => record(conn, &schema, &fence, step),
            Ok(_) if savepoint => record(conn, &schema, &fence, step),
            _ => Err(Error::BrokenTransactionManager),
        });
        let recorded = recorded.map_err(|error| match error {
            _ if savepoint => Failed::Refused(error),
            Error::DatabaseError(DatabaseErrorKind::ReadOnlyTransaction, _) => Failed::Away(error.into()),
            _ if is_dead(conn, &error) => Failed::Stale(error.into()),
            _ if passes(&error) => Failed::Away(error.into()),
            _ => Failed::Refused(error),
        });
        self.slot.give_back(recorded.is_err());
        recorded
    }
}

/// In a transaction of our own: in one that somebody left open on a connection of the pool, the record would be undone with
/// it.
fn record<C: Backend>(conn: &mut C, schema: &Schema, fence: &Fence, step: &NewStep) -> QueryResult<Option<Refusal>> {
    atomically(conn, |conn| {
        if conn.record_step(schema, fence, step)? > 0 {
            return Ok(None);
        }
        // Without one the row is ours, and yet another lease recorded the step after we looked.
        let row = conn.ownership(schema, fence.id)?;
        Refusal::of(fence, row.as_ref())
            .map(Some)
            .ok_or_else(|| Error::QueryBuilderError("another lease recorded it".into()))
    })
}

/// Whether the database refused for a moment alone, as with the application's own pool it may do at once. Diesel tells no
/// SQLSTATE, so a lock is known by the text.
fn passes(error: &Error) -> bool {
    let is_lock = |text: &str| text.contains("database is locked") || text.contains("lock timeout");
    is_conflict(error) || matches!(error, Error::DatabaseError(_, info) if is_lock(info.message()))
}

/// The same JSON without a character beyond ASCII: those are in texts, where escapes stand for them.
fn in_ascii(json: &str) -> String {
    json.chars()
        .fold(String::with_capacity(json.len()), |mut ascii, character| {
            match character.is_ascii() {
                true => ascii.push(character),
                false => {
                    for unit in character.encode_utf16(&mut [0; 2]) {
                        let _ = write!(ascii, "\\u{unit:04x}");
                    }
                }
            }
            ascii
        })
}
