//! A commit whose answer was lost: what became of it.

use std::fmt;

use diesel::result::{Error, QueryResult};

use super::refusal::is_of;
use super::{OwnedRow, RowLease, RowOn, RowRefusal};
use crate::backend::{AsBackend, Backend, RowOwnership};
use crate::commit::roll_back_to;

/// A commit whose answer was lost.
#[must_use = "resolve it on another connection"]
pub struct InDoubt<R: OwnedRow> {
    pub(super) lease: RowLease<R>,
    pub(super) status: String,
    pub(super) error: Error,
}

/// What became of a commit whose answer was lost.
#[must_use]
pub enum Resolution<R: OwnedRow> {
    /// The row has the new status, and all that the closure wrote is there.
    Committed,
    /// Nothing was written, and the row is still the caller's.
    NotCommitted(RowLease<R>),
    /// The row has moved on. Nothing of this commit is there, unless its status was one that may be claimed, and somebody has
    /// done so since.
    Refused(RowRefusal),
    /// This connection cannot tell, either.
    Unknown(InDoubt<R>),
}

pub(super) enum Verdict {
    Committed,
    NotCommitted,
    Refused(RowRefusal),
}

impl<R: OwnedRow> InDoubt<R> {
    /// Reads the row under its lock, on a connection that works: a plain read may find the state before a COMMIT that is
    /// still under way. Waits one second for the lock at the most.
    ///
    /// ```
    /// # include!("doctest_setup.rs");
    /// use leasehold::rows::{CommitError, Resolution, RowLease};
    ///
    /// /// Commits, and asks on another connection when the answer is lost.
    /// fn done(lease: RowLease<Issue>, pool: &mut [SqliteConnection; 2]) -> Result<(), Box<dyn std::error::Error>> {
    ///     match lease.commit(&mut pool[0], "DONE", |_| Ok(())) {
    ///         Err(CommitError::Unknown(in_doubt)) => match in_doubt.resolve(&mut pool[1]) {
    ///             Resolution::Committed => Ok(()),
    ///             Resolution::NotCommitted(lease) => Ok(lease.settle(&mut pool[1], "FAILED")?),
    ///             Resolution::Refused(refusal) => Err(refusal.into()),
    ///             Resolution::Unknown(in_doubt) => Err(in_doubt.to_string().into()), // The lease decides.
    ///         },
    ///         committed => Ok(committed?),
    ///     }
    /// }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (url, mut conn) = doctest_issues();
    /// # let lease = doctest_lease(&mut conn);
    /// # done(lease, &mut [conn, SqliteConnection::establish(&url)?])
    /// # }
    /// ```
    pub fn resolve<C>(self, conn: &mut C) -> Resolution<R>
    where
        C: AsBackend,
        R: RowOn<C::Connection>,
    {
        match self.ask(conn.as_backend()) {
            Ok(Verdict::Committed) => Resolution::Committed,
            Ok(Verdict::NotCommitted) => Resolution::NotCommitted(self.lease),
            Ok(Verdict::Refused(refusal)) => Resolution::Refused(refusal),
            Err(_) => Resolution::Unknown(self),
        }
    }

    pub(super) fn ask<C: Backend>(&self, conn: &mut C) -> QueryResult<Verdict> {
        let held = &self.lease.held;
        conn.begin_resolve()?;
        let row = conn.lock_row(&held.table, &held.fence.id);
        roll_back_to(conn, 0);
        let verdict = self.verdict(row?.as_ref());
        match &verdict {
            Verdict::Committed => held.mark_ended(),
            Verdict::NotCommitted => {}
            Verdict::Refused(refusal) => held.mark_lost(refusal.clone()),
        }
        Ok(verdict)
    }

    fn verdict(&self, row: Option<&RowOwnership>) -> Verdict {
        let held = &self.lease.held;
        if row.is_some_and(|row| is_of(row, &held.fence) && row.status == self.status) {
            return Verdict::Committed;
        }
        RowRefusal::of(&held.table, &held.fence, row).map_or(Verdict::NotCommitted, Verdict::Refused)
    }
}

// Not derived, which would ask the same of the row type.
impl<R: OwnedRow> fmt::Debug for Resolution<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Committed => f.write_str("Committed"),
            Self::NotCommitted(lease) => f.debug_tuple("NotCommitted").field(lease).finish(),
            Self::Refused(refusal) => f.debug_tuple("Refused").field(refusal).finish(),
            Self::Unknown(in_doubt) => f.debug_tuple("Unknown").field(in_doubt).finish(),
        }
    }
}

impl<R: OwnedRow> fmt::Debug for InDoubt<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InDoubt")
            .field("lease", &self.lease)
            .field("status", &self.status)
            .field("error", &self.error)
            .finish()
    }
}

impl<R: OwnedRow> fmt::Display for InDoubt<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}
