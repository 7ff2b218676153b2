//! Settle: what becomes of a job after its handler returned, failed or panicked.

use std::borrow::Cow;
use std::time::Duration;

use diesel::result::{DatabaseErrorKind, Error, QueryResult};

use crate::backend::{AttemptError, Backend, End, PutBack};
use crate::events::Reporter;
use crate::handler::{JobError, JobErrorKind};
use crate::job::Backoff;
use crate::lease::{Decision, Held, Refusal};
use crate::schema::Schema;

/// The longest error text that is kept, in bytes.
const MAX_ERROR_BYTES: usize = 8 * 1024;

/// How a handler's call ended.
#[derive(Debug)]
pub(crate) enum Ran {
    Returned(Result<Decision, JobError>),
    Panicked(String),
}

/// What is still to be written for a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Settlement {
    /// Group-committed with others.
    Finish,
    PutBack(PutBack),
    End(End),
}

/// Decides what is to be written; `None` when nothing is: the job is committed, or not ours any more.
pub(crate) fn decide(held: &Held, backoff: Backoff, ran: Ran, reporter: &Reporter) -> Option<Settlement> {
    if held.is_timed_out() && !held.is_committed() {
        log::warn!(
            "{}: its handler returned after its timeout; the attempt is settled already",
            held.info()
        );
        return None;
    }
    let failed = match ran {
        // An error or a panic after the commit does not undo it, and must not settle the job again.
        Ran::Returned(Err(error)) if held.is_committed() => {
            log::error!(
                "{}: its handler failed after the commit, which stands: {error}",
                held.info()
            );
            reporter.completed(&held.info());
            return None;
        }
        Ran::Panicked(text) if held.is_committed() => {
            log::error!(
                "{}: its handler panicked after the commit, which stands: {text}",
                held.info()
            );
            reporter.completed(&held.info());
            return None;
        }
        Ran::Returned(Ok(Decision::Committed)) => {
            reporter.completed(&held.info());
            return None;
        }
        Ran::Returned(Ok(Decision::Finish)) => return Some(Settlement::Finish),
        Ran::Returned(Ok(Decision::Snooze(after))) => {
            return Some(Settlement::PutBack(PutBack {
                delay_ms: millis(after),
                uses_attempt: false,
                takes_away: false,
                error: None,
            }));
        }
        Ran::Returned(Ok(Decision::Cancel(why))) => {
            return Some(Settlement::End(End {
                state: "cancelled",
                reason: Some(storable(&why)),
                takes_away: false,
                error: None,
            }));
        }
        Ran::Returned(Err(error)) if is_away(&error) => return Some(put_back_unused(held, &error)),
        Ran::Returned(Err(error)) => match error.kind {
            JobErrorKind::Refused(ref refusal) => {
                reporter.lost(&held.info(), refusal);
                return None;
            }
            JobErrorKind::Unresolved => {
                log::error!("{}: {error}; its lease decides", held.info());
                return None;
            }
            JobErrorKind::Away => return Some(put_back_unused(held, &error)),
            JobErrorKind::Discard => Failed {
                cause: "error",
                text: error.to_string(),
                after: None,
                discard: true,
            },
            JobErrorKind::Retry { after } => Failed {
                cause: "error",
                text: error.to_string(),
                after,
                discard: false,
            },
        },
        Ran::Panicked(text) => Failed {
            cause: "panic",
            text: format!("panicked: {text}"),
            after: None,
            discard: false,
        },
    };
    Some(failed.settlement(held, backoff, false))
}

/// Whether the handler failed because the server went, which is no fault of the job: it takes no writes, or it ended the
/// session in order. A session that merely broke counts as an attempt, since the job's own statement may have broken it.
/// Diesel tells no SQLSTATE, so under another language of the server's messages those count, too.
fn is_away(error: &JobError) -> bool {
    const ENDED: [&str; 3] = [
        "terminating connection due to administrator command",
        "terminating connection due to immediate shutdown command",
        "terminating connection because of crash of another server process",
    ];
    if error.kind != (JobErrorKind::Retry { after: None }) {
        return false;
    }
    match error.downcast_ref() {
        Some(Error::DatabaseError(DatabaseErrorKind::ReadOnlyTransaction, _)) => true,
        Some(Error::DatabaseError(_, info)) => ENDED.iter().any(|text| info.message().contains(text)),
        _ => false,
    }
}

fn put_back_unused(held: &Held, error: &JobError) -> Settlement {
    log::warn!("{}: {error}; put back without using up the attempt", held.info());
    Settlement::PutBack(PutBack {
        delay_ms: 1000,
        uses_attempt: false,
        takes_away: false,
        error: None,
    })
}

/// Ends an attempt that ran past its timeout: ownership is taken from the handler, which may still run.
pub(crate) fn time_out(held: &Held, backoff: Backoff) -> Settlement {
    let limit = held.timeout.unwrap_or_default();
    let text = format!("the attempt ran longer than its timeout of {limit:?}");
    Failed {
        cause: "timeout",
        text,
        after: None,
        discard: false,
    }
    .settlement(held, backoff, true)
}

struct Failed {
    cause: &'static str,
    text: String,
    after: Option<Duration>,
    discard: bool,
}

impl Failed {
    fn settlement(self, held: &Held, backoff: Backoff, takes_away: bool) -> Settlement {
        let text = storable(&self.text);
        let error = Some(AttemptError {
            cause: self.cause,
            error: text.clone(),
        });
        let end = |state, error| {
            Settlement::End(End {
                state,
                reason: Some(text.clone()),
                takes_away,
                error,
            })
        };
        if self.discard {
            return end("discarded", error);
        }
        // A job that was asked to stop has failed instead of finishing: it does not run again.
        if held.is_cancel_requested() {
            return end("cancelled", error);
        }
        if held.attempt >= held.max_attempts {
            return end("discarded", error);
        }
        let after = self.after.unwrap_or_else(|| backoff.after(held.attempt));
        Settlement::PutBack(PutBack {
            delay_ms: millis(after),
            uses_attempt: true,
            takes_away,
            error,
        })
    }
}

impl Settlement {
    /// Writes it for one job; whether the job was ours. `Finish` is written for many together instead, but may be. A
    /// failed job that was asked to stop since the last heartbeat is not put back: this becomes its end.
    pub(crate) fn write<C: Backend>(&mut self, conn: &mut C, schema: &Schema, held: &Held) -> QueryResult<bool> {
        let fence = &held.fence;
        match self {
            Self::Finish => return Ok(!conn.finish(schema, std::slice::from_ref(fence))?.is_empty()),
            Self::PutBack(how) => {
                if conn.put_back(schema, fence, how)? == 1 {
                    return Ok(true);
                }
                if !how.uses_attempt || Refusal::of(fence, conn.ownership(schema, fence.id)?.as_ref()).is_some() {
                    return Ok(false);
                }
                held.request_cancel();
                *self = Self::End(End {
                    state: "cancelled",
                    reason: how.error.as_ref().map(|error| error.error.clone()),
                    takes_away: how.takes_away,
                    error: how.error.take(),
                });
            }
            Self::End(_) => {}
        }
        let Self::End(how) = self else { return Ok(false) };
        Ok(conn.end(schema, fence, how)? == 1)
    }

    /// With texts that any database can spell: one whose encoding lacks a character refuses the whole statement.
    pub(crate) fn spell_in_ascii(&mut self) {
        let (reason, error) = match self {
            Self::Finish => return,
            Self::PutBack(how) => (None, how.error.as_mut()),
            Self::End(how) => (how.reason.as_mut(), how.error.as_mut()),
        };
        for text in [reason, error.map(|error| &mut error.error)].into_iter().flatten() {
            if !text.is_ascii() {
                *text = storable(&in_ascii(text));
            }
        }
    }

    /// Reports it once it is written.
    pub(crate) fn report(&self, held: &Held, reporter: &Reporter) {
        let job = &held.info();
        match self {
            Self::Finish => reporter.completed(job),
            Self::PutBack(PutBack {
                error: Some(error),
                delay_ms,
                ..
            }) => {
                reporter.retried(job, &error.error, Duration::from_millis(delay_ms.unsigned_abs()));
            }
            Self::PutBack(PutBack { delay_ms, .. }) => {
                reporter.snoozed(job, Duration::from_millis(delay_ms.unsigned_abs()))
            }
            Self::End(End {
                state: "discarded",
                reason,
                ..
            }) => reporter.discarded(job, reason.as_deref().unwrap_or_default()),
            Self::End(End { reason, .. }) => reporter.cancelled(job, reason.as_deref().unwrap_or_default()),
        }
    }
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
    let (generation, token) = match settlement {
        Settlement::Finish => (held.fence.generation, held.fence.lease_token),
        Settlement::PutBack(PutBack { takes_away, .. }) | Settlement::End(End { takes_away, .. }) => {
            (held.fence.generation + i64::from(*takes_away), held.fence.lease_token)
        }
    };
    let state = match settlement {
        Settlement::Finish => "completed",
        Settlement::PutBack(_) => "ready",
        Settlement::End(End { state, .. }) => state,
    };
    let shows = |state: &str, generation: i64| {
        row.as_ref().is_some_and(|row| {
            row.state == state
                && row.generation == generation
                && row.lease_token.as_deref().and_then(|text| text.parse().ok()) == Some(token)
        })
    };
    if shows(state, generation) {
        return Ok(Ok(Written::ByUs));
    }
    if shows("completed", held.fence.generation) {
        return Ok(Ok(Written::ByTheCommit));
    }
    let refusal = Refusal::of(&held.fence, row.as_ref());
    Ok(Err(refusal.unwrap_or(Refusal::Lost {
        generation: held.fence.generation,
    })))
}

fn millis(duration: Duration) -> i64 {
    const HUNDRED_YEARS: i64 = 100 * 365 * 24 * 3600 * 1000;
    i64::try_from(duration.as_millis())
        .unwrap_or(HUNDRED_YEARS)
        .min(HUNDRED_YEARS)
}

/// A text that every database stores: PostgreSQL takes no NUL, and a failure whose text cannot be stored could not be
/// recorded at all.
pub(crate) fn storable(text: &str) -> String {
    let mut end = text.len().min(MAX_ERROR_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let cut = &text[..end];
    if cut.contains('\0') {
        Cow::Owned(cut.replace('\0', "\u{fffd}"))
    } else {
        Cow::Borrowed(cut)
    }
    .into_owned()
}

fn in_ascii(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut ascii, c| {
        if c.is_ascii() {
            ascii.push(c);
        } else {
            ascii.extend(c.escape_unicode());
        }
        ascii
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_texts_are_made_storable() {
        assert_eq!(storable("a\0b"), "a\u{fffd}b");
        let long = format!("{}é", "x".repeat(MAX_ERROR_BYTES - 1));
        assert_eq!(storable(&long).len(), MAX_ERROR_BYTES - 1);
    }
}
