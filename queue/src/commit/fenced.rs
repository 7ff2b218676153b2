//! One transaction that is committed only under a fence.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use diesel::connection::{AnsiTransactionManager, TransactionManager};
use diesel::result::{DatabaseErrorKind, Error, QueryResult};

use super::{depth, roll_back_to};
use crate::backend::{Backend, Completion};

/// How the transaction ended. All but `Committed` and `Unknown` are rolled back.
#[derive(Debug)]
pub(crate) enum Ended<T, E> {
    Committed(T),
    /// The fence matched no row.
    Refused,
    /// The writes returned an error.
    Failed(E),
    NotCommitted(NotCommitted),
    /// The COMMIT was sent and its answer is no verdict.
    Unknown(Error, T),
}

/// Why nothing was written, although the writes succeeded and the fence was not refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotCommitted {
    /// A serialization failure or a deadlock: the same writes may succeed the next time.
    #[error("{0}")]
    Conflict(#[source] Error),
    /// The closure began a transaction and did not end it.
    #[error("the commit closure left a transaction of its own open")]
    LeftOpen,
    /// A raw `COMMIT` or `ROLLBACK` in the closure.
    #[error(
        "the commit closure ended the transaction itself (a raw COMMIT or ROLLBACK), so its writes are not fenced: leave both to `commit`"
    )]
    Ended,
    /// An error of a statement that the closure did not return.
    #[error("a statement in the commit closure failed and the closure did not return its error; nothing was written")]
    Swallowed,
    /// The server refused the COMMIT: a deferred constraint, most likely.
    #[error("the COMMIT failed and nothing was written: {0}")]
    Refused(#[source] Error),
    /// Any other error of the database.
    #[error("{0}")]
    Database(#[source] Error),
}

/// Runs the writes, the fenced write and the COMMIT, in a transaction that [`begin_commit`] has begun above the depth
/// `before`; rolls back to there unless they are through.
///
/// [`begin_commit`]: crate::backend::Connect::begin_commit
pub(crate) fn write_and_fence<C: Backend, T, E>(
    conn: &mut C,
    before: u32,
    writes: impl FnOnce(&mut C) -> Result<T, E>,
    fence: impl FnOnce(&mut C, &T) -> QueryResult<Completion>,
) -> Ended<T, E> {
    let ended = match catch_unwind(AssertUnwindSafe(|| writes(conn))) {
        Ok(Ok(value)) => match fence_and_commit(conn, before + 1, &value, fence) {
            Ok(()) => Ended::Committed(value),
            Err(Stopped::Refused) => Ended::Refused,
            Err(Stopped::NotCommitted(why)) => Ended::NotCommitted(why),
            Err(Stopped::Unknown(error)) => Ended::Unknown(error, value),
        },
        Ok(Err(error)) => Ended::Failed(error),
        Err(panic) => {
            roll_back_to(conn, before);
            resume_unwind(panic);
        }
    };
    if !matches!(ended, Ended::Committed(_) | Ended::Unknown(..)) {
        roll_back_to(conn, before);
    }
    ended
}

enum Stopped {
    Refused,
    NotCommitted(NotCommitted),
    Unknown(Error),
}

/// The fenced write and the COMMIT, after the closure succeeded.
fn fence_and_commit<C: Backend, T>(
    conn: &mut C,
    expected: u32,
    value: &T,
    fence: impl FnOnce(&mut C, &T) -> QueryResult<Completion>,
) -> Result<(), Stopped> {
    let stopped = |why| Err(Stopped::NotCommitted(why));
    match depth(conn) {
        Ok(depth) if depth == expected => {}
        Ok(depth) if depth > expected => return stopped(NotCommitted::LeftOpen),
        Ok(_) => return stopped(NotCommitted::Ended),
        Err(_) => return stopped(NotCommitted::Swallowed),
    }
    match fence(conn, value) {
        Ok(Completion::Completed) => {}
        Ok(Completion::Refused) => return Err(Stopped::Refused),
        Ok(Completion::Ended) => return stopped(NotCommitted::Ended),
        Err(error) if is_conflict(&error) => return stopped(NotCommitted::Conflict(error)),
        Err(Error::DatabaseError(DatabaseErrorKind::Unknown, info)) if info.message().contains("aborted") => {
            return stopped(NotCommitted::Swallowed);
        }
        Err(error) => return stopped(NotCommitted::Database(error)),
    }
    match AnsiTransactionManager::commit_transaction(conn) {
        Ok(()) => Ok(()),
        Err(error) if is_conflict(&error) && conn.ping().is_ok() => stopped(NotCommitted::Conflict(error)),
        Err(error) => Err(Stopped::Unknown(error)),
    }
}

/// Whether the same transaction may succeed the next time. Diesel tells no SQLSTATE, so a deadlock is known by its text;
/// under another language of the server's messages it is a failed attempt like any other.
pub(crate) fn is_conflict(error: &Error) -> bool {
    match error {
        Error::DatabaseError(DatabaseErrorKind::SerializationFailure, _) => true,
        Error::DatabaseError(DatabaseErrorKind::Unknown, info) => info.message().contains("deadlock detected"),
        _ => false,
    }
}
