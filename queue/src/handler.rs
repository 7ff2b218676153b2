//! What runs a job, and how a run can end.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use crate::backend::Backend;
use crate::job::Job;
use crate::lease::{LeaseGuard, Receipt, Refusal};
use crate::panics::drop_contained;

/// How jobs of a type run on a connection type `C`, with the application's state `A`.
///
/// The only success value is a [`Receipt`], and the only way to one is to give up the [`LeaseGuard`] of this very call.
/// Whatever else a handler does (fail, panic, forget the guard), the runtime settles the job.
///
/// ```
/// use diesel::prelude::*;
/// use leasehold::{Handler, Job, JobError, LeaseGuard, Outcome};
/// use serde::{Deserialize, Serialize};
///
/// diesel::table! { greetings (id) { id -> Integer, name -> Text } }
///
/// #[derive(Serialize, Deserialize, Job)]
/// #[job(kind = "greet")]
/// struct Greet {
///     name: String,
/// }
///
/// impl Handler<SqliteConnection> for Greet {
///     fn run<'j>(self, lease: LeaseGuard<'j, SqliteConnection>, _: &()) -> Outcome<'j> {
///         if self.name.is_empty() {
///             return Err(JobError::discard("nobody to greet"));
///         }
///         lease.commit(|tx| {
///             diesel::insert_into(greetings::table).values(greetings::name.eq(&self.name)).execute(tx)?;
///             Ok(())
///         })
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no handler for `{C}` with application state `{A}`",
    label = "no such handler",
    note = "write `impl Handler<{C}, {A}> for {Self}`"
)]
pub trait Handler<C: Backend, A = ()>: Job {
    /// Runs the job once. It may run again after a crash or a lost lease, so effects outside the database need the
    /// lease's idempotency key; writes through [`LeaseGuard::commit`] happen at most once.
    ///
    /// # Errors
    ///
    /// Any error counts as a failed attempt, which is retried after the kind's backoff; [`JobError`] can say otherwise.
    fn run<'j>(self, lease: LeaseGuard<'j, C>, app: &A) -> Outcome<'j>;
}

/// How a run ends: with the receipt of its own lease, or with an error.
pub type Outcome<'j> = Result<Receipt<'j>, JobError>;

/// Why a run did not succeed, and what shall become of the job.
///
/// Every `std::error::Error` turns into "retry after the kind's backoff" with `?`. For that reason `JobError` does not
/// implement `std::error::Error` itself.
///
/// ```
/// use std::time::Duration;
/// use leasehold::JobError;
///
/// fn parse(text: &str) -> Result<u32, JobError> {
///     if text.is_empty() {
///         return Err(JobError::discard("empty: another attempt would not help"));
///     }
///     if text == "?" {
///         return Err(JobError::retry_after("not known yet", Duration::from_secs(300)));
///     }
///     Ok(text.parse::<u32>()?)
/// }
///
/// assert_eq!(parse("x").unwrap_err().to_string(), "invalid digit found in string");
/// ```
pub struct JobError {
    pub(crate) kind: JobErrorKind,
    text: String,
    pub(crate) source: Source,
    /// It comes from a transaction that was begun to read only: that it takes no writes says nothing about the server.
    pub(crate) of_a_read: bool,
}

/// The error behind a [`JobError`], if there is one. The runtime's threads drop it, so its drop must not end them.
#[derive(Default)]
pub(crate) struct Source(Option<Box<dyn StdError + Send + Sync>>);

impl Drop for Source {
    fn drop(&mut self) {
        drop_contained(self.0.take());
    }
}

/// What the runtime does with a failed run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum JobErrorKind {
    /// Another attempt, after the given time or the kind's backoff.
    Retry { after: Option<Duration> },
    /// No further attempt.
    Discard,
    /// The database refused the write: the job is not ours to settle.
    Refused(Refusal),
    /// The database could not be reached before anything was written: no fault of the job.
    Away,
    /// The answer to a COMMIT was lost and could not be resolved in time: the job is left to its lease.
    Unresolved,
}

impl JobError {
    /// Another attempt after the kind's backoff, if any are left.
    pub fn retry(why: impl fmt::Display) -> Self {
        Self::new(JobErrorKind::Retry { after: None }, why)
    }

    /// Another attempt after the given time, if any are left.
    pub fn retry_after(why: impl fmt::Display, after: Duration) -> Self {
        Self::new(JobErrorKind::Retry { after: Some(after) }, why)
    }

    /// No further attempt: the job is discarded and kept, with this text.
    pub fn discard(why: impl fmt::Display) -> Self {
        Self::new(JobErrorKind::Discard, why)
    }

    /// As `?` does for a `std::error::Error`, for boxed errors and `anyhow::Error`: `.map_err(JobError::boxed)?`.
    pub fn boxed(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        let error = error.into();
        Self::retry(Chain(error.as_ref())).with_source(error)
    }

    pub(crate) fn refused(refusal: Refusal) -> Self {
        let text = refusal.to_string();
        Self::new(JobErrorKind::Refused(refusal), text)
    }

    pub(crate) fn away(why: impl fmt::Display) -> Self {
        Self::new(JobErrorKind::Away, format!("the database is away: {why}"))
    }

    pub(crate) fn unresolved(why: impl fmt::Display) -> Self {
        Self::new(JobErrorKind::Unresolved, why)
    }

    fn new(kind: JobErrorKind, why: impl fmt::Display) -> Self {
        Self {
            kind,
            text: why.to_string(),
            source: Source::default(),
            of_a_read: false,
        }
    }

    fn with_source(mut self, source: Box<dyn StdError + Send + Sync>) -> Self {
        self.source = Source(Some(source));
        self
    }

    /// Whether the job was no longer this worker's when it tried to write.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self.kind, JobErrorKind::Refused(_))
    }

    /// How the database refused the write, if it did.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        match &self.kind {
            JobErrorKind::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// The error behind it, where there is one of type `E`.
    #[must_use]
    pub fn downcast_ref<E: StdError + 'static>(&self) -> Option<&E> {
        self.source.0.as_ref()?.downcast_ref()
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for JobError {
    fn from(error: E) -> Self {
        Self::retry(Chain(&error)).with_source(Box::new(error))
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobError")
            .field("kind", &self.kind)
            .field("text", &self.text)
            .finish_non_exhaustive()
    }
}

/// An error with its sources, on one line.
pub(crate) struct Chain<'a>(pub(crate) &'a (dyn StdError + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.0.to_string();
        f.write_str(&text)?;
        let mut source = self.0.source();
        while let Some(error) = source {
            // Many errors repeat their source's text in their own.
            let next = error.to_string();
            if !text.contains(&next) {
                write!(f, ": {next}")?;
                text = next;
            }
            source = error.source();
        }
        Ok(())
    }
}
