//! Settle: what becomes of a job after its handler returned, failed or panicked.

use std::time::Duration;

use diesel::result::{DatabaseErrorKind, Error};

use crate::backend::{AttemptError, End, PutBack};
use crate::events::Reporter;
use crate::handler::{JobError, JobErrorKind};
use crate::job::Backoff;
use crate::lease::{Decision, Held, Refusal};

mod text;
pub(crate) use text::{storable, storable_within};

mod write;
pub(crate) use write::{Written, delay, diagnose};

/// How long a job waits that was put back because the database was away.
const AWAY_MS: i64 = 1000;

/// How a handler's call ended.
#[derive(Debug)]
pub(crate) enum Ran {
    Returned(Result<Decision, JobError>),
    Panicked(String),
}

impl Ran {
    /// How the database refused the handler's write, if that is how it ended.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Returned(Err(error)) => error.refusal().cloned(),
            _ => None,
        }
    }
}

/// What is still to be written for a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Settlement {
    /// Completed; group-committed with others.
    Finish,
    /// Put off by its handler.
    Snooze(PutBack),
    /// Another attempt after a failed one.
    Retry(PutBack),
    /// Back without using up the attempt: the database was away.
    Release(PutBack),
    /// Back before its handler began, as if it had not been claimed.
    GiveBack,
    /// Discarded or cancelled.
    End(End),
}

/// Decides what is to be written; `None` when nothing is: the job is committed, or not ours any more.
pub(crate) fn decide(held: &Held, backoff: Backoff, ran: Ran, reporter: &Reporter) -> Option<Settlement> {
    if held.is_committed() {
        after_commit(held, &ran, reporter);
        return None;
    }
    if held.is_timed_out() {
        log::warn!(
            "returned late {}: its timeout has settled the attempt already",
            held.info()
        );
        return None;
    }
    match ran {
        Ran::Returned(Ok(decision)) => of_decision(decision),
        Ran::Returned(Err(error)) => of_error(held, backoff, &error, reporter),
        Ran::Panicked(text) => {
            let failed = Failed {
                cause: "panic",
                text: format!("panicked: {text}"),
                after: None,
                discard: false,
            };
            Some(failed.settlement(held, backoff, false))
        }
    }
}

/// An error or a panic after the commit does not undo it, and must not settle the job again.
fn after_commit(held: &Held, ran: &Ran, reporter: &Reporter) {
    let job = held.info();
    match ran {
        Ran::Returned(Ok(_)) => {}
        Ran::Returned(Err(error)) => log::error!("failed after the commit {job}: which stands: {error}"),
        Ran::Panicked(text) => log::error!("panicked after the commit {job}: which stands: {text}"),
    }
    reporter.completed(&job);
}

fn of_decision(decision: Decision) -> Option<Settlement> {
    match decision {
        Decision::Committed => None,
        Decision::Finish => Some(Settlement::Finish),
        Decision::Snooze(after) => Some(Settlement::Snooze(unused(millis(after)))),
        Decision::Cancel(why) => Some(Settlement::End(End {
            state: "cancelled",
            reason: Some(storable(&why)),
            takes_away: false,
            error: None,
        })),
    }
}

fn of_error(held: &Held, backoff: Backoff, error: &JobError, reporter: &Reporter) -> Option<Settlement> {
    let (after, discard) = match &error.kind {
        JobErrorKind::Refused(refusal) => {
            reporter.lost(&held.info(), refusal);
            return None;
        }
        JobErrorKind::Unresolved => {
            log::error!("unresolved {}: {error}; its lease decides", held.info());
            return None;
        }
        JobErrorKind::Away => return Some(away(held, error)),
        JobErrorKind::Retry { .. } if is_away(error) => return Some(away(held, error)),
        JobErrorKind::Retry { after } => (*after, false),
        JobErrorKind::Discard => (None, true),
    };
    let failed = Failed {
        cause: "error",
        text: error.to_string(),
        after,
        discard,
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
    if error.of_a_read || error.kind != (JobErrorKind::Retry { after: None }) {
        return false;
    }
    match error.downcast_ref() {
        Some(Error::DatabaseError(DatabaseErrorKind::ReadOnlyTransaction, _)) => true,
        Some(Error::DatabaseError(_, info)) => ENDED.iter().any(|text| info.message().contains(text)),
        _ => false,
    }
}

fn away(held: &Held, error: &JobError) -> Settlement {
    log::warn!(
        "database away {}: {error}; put back without using up the attempt",
        held.info()
    );
    Settlement::Release(unused(AWAY_MS))
}

fn unused(delay_ms: i64) -> PutBack {
    PutBack {
        delay_ms,
        uses_attempt: false,
        takes_away: false,
        error: None,
    }
}

/// Ends a job that was claimed too late to run. Its handler never begins.
pub(crate) fn expire() -> Settlement {
    Settlement::End(End {
        state: "discarded",
        reason: Some("expired".to_owned()),
        takes_away: false,
        error: None,
    })
}

/// Gives back a job that nobody began; the end of one that was asked to stop meanwhile, as of any job that does not run.
pub(crate) fn give_back(held: &Held) -> Settlement {
    match held.is_cancel_requested() {
        true => Settlement::End(End {
            state: "cancelled",
            reason: Some("cancelled before it was begun".to_owned()),
            takes_away: false,
            error: None,
        }),
        false => Settlement::GiveBack,
    }
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
        // A job that was asked to stop has failed instead of finishing: it does not run again. The sweep says the same.
        if held.is_cancel_requested() {
            return end("cancelled", error);
        }
        if held.attempt >= held.max_attempts {
            return end("discarded", error);
        }
        let after = self.after.unwrap_or_else(|| backoff.draw(held.attempt));
        Settlement::Retry(PutBack {
            delay_ms: millis(after),
            uses_attempt: true,
            takes_away,
            error,
        })
    }
}

/// Milliseconds that every database adds to its clock: a hundred years at the most.
pub(crate) fn millis(duration: Duration) -> i64 {
    const HUNDRED_YEARS: i64 = 100 * 365 * 24 * 3600 * 1000;
    i64::try_from(duration.as_millis())
        .unwrap_or(HUNDRED_YEARS)
        .min(HUNDRED_YEARS)
}
