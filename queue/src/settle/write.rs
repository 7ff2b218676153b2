//! Writing what was decided, and finding out what became of it.

use std::time::Duration;

use diesel::result::{Error, QueryResult};

use super::Settlement;
use super::text::in_ascii;
use crate::backend::{AttemptError, Backend, End, PutBack};
use crate::events::Reporter;
use crate::lease::{Held, Refusal};
use crate::schema::Schema;

impl Settlement {
    /// Writes it for one job; whether the job was ours. `Finish` is written for many together instead, but may be. A
    /// failed job that was asked to stop since the last heartbeat is not put back: this becomes its end.
    pub(crate) fn write<C: Backend>(&mut self, conn: &mut C, schema: &Schema, held: &Held) -> QueryResult<bool> {
        let fence = &held.fence;
        match self {
            Self::Finish => {
                let how = End {
                    state: "completed",
                    reason: None,
                    takes_away: false,
                    error: None,
                };
                Ok(conn.end(schema, fence, &how)? == 1)
            }
            Self::Snooze(how) | Self::Release(how) => Ok(conn.put_back(schema, fence, how)? == 1),
            Self::GiveBack => Ok(!conn.release(schema, std::slice::from_ref(fence))?.is_empty()),
            Self::End(how) => Ok(conn.end(schema, fence, how)? == 1),
            Self::Retry(how) => {
                if conn.put_back(schema, fence, how)? == 1 {
                    return Ok(true);
                }
                if Refusal::of(fence, conn.ownership(schema, fence.id)?.as_ref()).is_some() {
                    return Ok(false);
                }
                held.request_cancel();
                *self = Self::End(End {
                    state: "cancelled",
                    reason: how.error.as_ref().map(|error| error.error.clone()),
                    takes_away: how.takes_away,
                    error: how.error.take(),
                });
                self.write(conn, schema, held)
            }
        }
    }

    /// With texts that any database can spell: one whose encoding lacks a character refuses the whole statement.
    pub(crate) fn spell_in_ascii(&mut self) {
        let (reason, error) = match self {
            Self::Finish | Self::GiveBack => return,
            Self::Snooze(how) | Self::Retry(how) | Self::Release(how) => (None, how.error.as_mut()),
            Self::End(how) => (how.reason.as_mut(), how.error.as_mut()),
        };
        for text in [reason, error.map(|error| &mut error.error)].into_iter().flatten() {
            *text = in_ascii(text);
        }
    }

    /// Reports it once it is written.
    pub(crate) fn report(&self, held: &Held, reporter: &Reporter) {
        let job = &held.info();
        if let Some(AttemptError { cause, error }) = self.error() {
            reporter.failed(job, cause, error);
        }
        match self {
            Self::Finish => reporter.completed(job),
            Self::Snooze(how) => reporter.snoozed(job, delay(how)),
            Self::Release(_) | Self::GiveBack => reporter.released(job),
            Self::Retry(how) => {
                let error = how.error.as_ref().map_or("", |error| &error.error);
                reporter.retried(job, error, delay(how));
            }
            Self::End(End { state, reason, .. }) => {
                let reason = reason.as_deref().unwrap_or_default();
                match *state {
                    "discarded" => reporter.discarded(job, reason),
                    _ => reporter.cancelled(job, reason),
                }
            }
        }
    }

    /// The failed attempt that it keeps.
    fn error(&self) -> Option<&AttemptError> {
        match self {
            Self::Finish | Self::GiveBack => None,
            Self::Snooze(how) | Self::Retry(how) | Self::Release(how) => how.error.as_ref(),
            Self::End(how) => how.error.as_ref(),
        }
    }

    /// The state in which it leaves the job, and whether ownership is taken away by it.
    fn outcome(&self) -> (&'static str, bool) {
        match self {
            Self::Finish => ("completed", false),
            Self::Snooze(how) | Self::Retry(how) | Self::Release(how) => ("ready", how.takes_away),
            Self::GiveBack => ("ready", false),
            Self::End(how) => (how.state, how.takes_away),
        }
    }

    /// Whether the job is ready again once it is written.
    pub(crate) fn leaves_ready(&self) -> bool {
        self.outcome().0 == "ready"
    }
}

pub(crate) fn delay(how: &PutBack) -> Duration {
    Duration::from_millis(how.delay_ms.unsigned_abs())
}

/// Why a settlement matched no row, and yet the job was not lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// It was written; the answer was lost.
    ByUs,
    /// The handler's own commit was first: one that was timed out while it committed.
    ByTheCommit,
}

/// After a settlement matched no row: what the row shows was written all the same, or how the job was lost.
pub(crate) fn diagnose<C: Backend>(
    conn: &mut C,
    schema: &Schema,
    held: &Held,
    settlement: &Settlement,
) -> QueryResult<Result<Written, Refusal>> {
    let row = conn.ownership(schema, held.fence.id)?;
    let (state, takes_away) = settlement.outcome();
    if let Some(row) = row.as_ref().filter(|row| row.has_token_of(&held.fence)) {
        if row.state == state && row.generation == held.fence.generation + i64::from(takes_away) {
            return Ok(Ok(Written::ByUs));
        }
        if row.state == "completed" && row.generation == held.fence.generation {
            return Ok(Ok(Written::ByTheCommit));
        }
    }
    match Refusal::of(&held.fence, row.as_ref()) {
        Some(refusal) => Ok(Err(refusal)),
        // It is ours after all, so the next try may find it.
        None => Err(Error::NotFound),
    }
}
