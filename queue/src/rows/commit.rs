//! The commit: the owner's writes and the row's new status, in one transaction.

use std::error::Error as StdError;
use std::fmt;

use diesel::result::Error;

use super::doubt::Verdict;
use super::{InDoubt, OwnedRow, RowError, RowLease, RowOn, RowRefusal};
use crate::backend::{AsBackend, Backend, ConnectionSettings, RowStatements};
use crate::commit::{Ended, NotCommitted, depth, is_dead, roll_back_to, write_and_fence};

/// Any error, as `?` makes it.
type AnyError = Box<dyn StdError + Send + Sync>;

/// Why a commit was not. Where the row is still the caller's, the lease comes back.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum CommitError<R: OwnedRow> {
    /// Nothing was begun.
    #[error("{error}")]
    NotBegun {
        /// Still held.
        lease: RowLease<R>,
        /// Why.
        #[source]
        error: RowError,
    },
    /// The closure returned an error; all that it wrote was rolled back.
    #[error("{error}")]
    Failed {
        /// Still held.
        lease: RowLease<R>,
        /// The closure's error.
        #[source]
        error: AnyError,
    },
    /// The closure succeeded, and everything was rolled back all the same. After a [`NotCommitted::Conflict`] the same may
    /// succeed.
    #[error("{why}")]
    RolledBack {
        /// Still held.
        lease: RowLease<R>,
        /// Why.
        #[source]
        why: NotCommitted,
    },
    /// The row is not the caller's any more; everything was rolled back.
    #[error(transparent)]
    Refused(#[from] RowRefusal),
    /// The answer to the COMMIT was lost with the connection: what became of it has to be asked on another one, with
    /// [`InDoubt::resolve`]. Left alone, the row either has its new status, or can be claimed again when the lease has
    /// ended.
    #[error("the answer to the COMMIT was lost ({0}): resolve it on another connection, or leave it to the lease")]
    Unknown(InDoubt<R>),
}

impl<R: OwnedRow> CommitError<R> {
    /// The lease, where it is still held.
    #[must_use]
    pub fn into_lease(self) -> Option<RowLease<R>> {
        match self {
            Self::NotBegun { lease, .. } | Self::Failed { lease, .. } | Self::RolledBack { lease, .. } => Some(lease),
            Self::Refused(_) | Self::Unknown(_) => None,
        }
    }

    /// Why the database refused the write, if it did.
    #[must_use]
    pub fn refusal(&self) -> Option<&RowRefusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }
}

impl<R: OwnedRow> RowLease<R> {
    /// Runs `writes` and gives the row its new status, in one transaction: both are committed, or neither. When the row is no
    /// longer the caller's, everything is rolled back.
    ///
    /// The status comes last, so the row is locked for a short time only. It may be any but [`OwnedRow::RUNNING`]. On SQLite
    /// the closure holds the database's one write lock: it must stay well below a third of the lease, or heartbeats come too
    /// late.
    ///
    /// ```
    /// # include!("doctest_setup.rs");
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (_, mut conn) = doctest_issues();
    /// # let lease = doctest_lease(&mut conn);
    /// let issue = *lease.id();
    /// lease.commit(&mut conn, "DONE", |tx| {
    ///     diesel::insert_into(article::table).values(article::issue.eq(issue)).execute(tx)?;
    ///     Ok(())
    /// })?;
    /// # assert_eq!(article::table.count().get_result::<i64>(&mut conn)?, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`CommitError`] has one variant for each thing that the caller may want to do next.
    pub fn commit<C, T>(
        self,
        conn: &mut C,
        status: &str,
        writes: impl FnOnce(&mut C::Connection) -> Result<T, AnyError>,
    ) -> Result<T, CommitError<R>>
    where
        C: AsBackend,
        R: RowOn<C::Connection>,
    {
        let conn = conn.as_backend();
        let begun = if status == R::RUNNING {
            Err(RowError::Status(status.to_owned()))
        } else {
            begin(conn)
        };
        if let Err(error) = begun {
            return Err(CommitError::NotBegun { lease: self, error });
        }
        let held = &self.held;
        let ended = write_and_fence(conn, 0, writes, |conn, _| {
            conn.end_row(&held.table, &held.fence, status)
        });
        match ended {
            Ended::Committed(value) => {
                self.held.mark_ended();
                Ok(value)
            }
            Ended::Refused => Err(self.refused(conn, |lease| CommitError::RolledBack {
                lease,
                why: NotCommitted::Ended,
            })),
            // A late owner's unique violation is a symptom: whoever took the row has written that one.
            Ended::Failed(error) => Err(self.refused(conn, |lease| CommitError::Failed { lease, error })),
            Ended::NotCommitted(why) => Err(self.refused(conn, |lease| CommitError::RolledBack { lease, why })),
            Ended::Unknown(error, value) => match self.doubt(conn, status, error) {
                Ok(()) => Ok(value),
                Err(error) => Err(error),
            },
        }
    }

    /// Ends the lease with a status, without other writes.
    ///
    /// ```
    /// # include!("doctest_setup.rs");
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (_, mut conn) = doctest_issues();
    /// # let lease = doctest_lease(&mut conn);
    /// lease.settle(&mut conn, "FAILED")?;
    /// assert_eq!(issue::table.find(1).select(issue::status).first::<String>(&mut conn)?, "FAILED");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`RowLease::commit`].
    pub fn settle<C>(self, conn: &mut C, status: &str) -> Result<(), CommitError<R>>
    where
        C: AsBackend,
        R: RowOn<C::Connection>,
    {
        self.commit(conn, status, |_| Ok(()))
    }

    /// The refusal, if the row says so; else the error with the lease.
    fn refused<C: Backend>(self, conn: &mut C, error: impl FnOnce(Self) -> CommitError<R>) -> CommitError<R> {
        let held = &self.held;
        let Ok(row) = conn.read_row(&held.table, &held.fence.id) else {
            return error(self);
        };
        match RowRefusal::of(&held.table, &held.fence, row.as_ref()) {
            Some(refusal) => {
                held.mark_lost(refusal.clone());
                CommitError::Refused(refusal)
            }
            None => error(self),
        }
    }

    /// A COMMIT without a verdict. A connection that still answers is asked at once: the server refused a deferred
    /// constraint, most likely.
    fn doubt<C: Backend>(self, conn: &mut C, status: &str, error: Error) -> Result<(), CommitError<R>> {
        let dead = is_dead(conn, &error);
        let in_doubt = InDoubt {
            lease: self,
            status: status.to_owned(),
            error,
        };
        if dead {
            return Err(CommitError::Unknown(in_doubt));
        }
        roll_back_to(conn, 0);
        match in_doubt.ask(conn) {
            Ok(Verdict::Committed) => Ok(()),
            Ok(Verdict::NotCommitted) => Err(CommitError::RolledBack {
                lease: in_doubt.lease,
                why: NotCommitted::Refused(in_doubt.error),
            }),
            Ok(Verdict::Refused(refusal)) => Err(CommitError::Refused(refusal)),
            Err(_) => Err(CommitError::Unknown(in_doubt)),
        }
    }
}

fn begin<C: Backend>(conn: &mut C) -> Result<(), RowError> {
    if depth(conn)? > 0 {
        return Err(RowError::InTransaction);
    }
    let settings = ConnectionSettings::default();
    conn.patiently(|conn| conn.begin_commit(None, &settings))??;
    Ok(())
}

// Not derived, which would ask the same of the row type.
impl<R: OwnedRow> fmt::Debug for CommitError<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBegun { lease, error } => f.debug_tuple("NotBegun").field(lease).field(error).finish(),
            Self::Failed { lease, error } => f.debug_tuple("Failed").field(lease).field(error).finish(),
            Self::RolledBack { lease, why } => f.debug_tuple("RolledBack").field(lease).field(why).finish(),
            Self::Refused(refusal) => f.debug_tuple("Refused").field(refusal).finish(),
            Self::Unknown(in_doubt) => f.debug_tuple("Unknown").field(in_doubt).finish(),
        }
    }
}
