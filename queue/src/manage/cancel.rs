//! Cancel.

use std::collections::HashSet;

use diesel::result::QueryResult;

use super::in_chunks;
use crate::backend::{AsBackend, Backend};
use crate::follow_up::{Direct, Ended, Followed, follow};
use crate::inspect::{Filter, State};
use crate::migrate::Migrate;
use crate::schema::Schema;
use crate::settle::storable;

/// How a job is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancel {
    /// A running handler is asked to stop and may still complete; a job that does not run is cancelled at once.
    Soft,
    /// Cancelled at once: the commit of a running handler is refused.
    Hard,
}

/// Cancels a job; whether there was anything to cancel.
///
/// A soft cancel of a running job is a request, which its handler sees with the next heartbeat, and sooner in this process
/// or on PostgreSQL; `reason` is not kept then.
///
/// # Errors
///
/// The database's.
pub fn cancel(conn: &mut impl AsBackend, schema: &Schema, id: i64, how: Cancel, reason: &str) -> QueryResult<bool> {
    let reason = storable(reason);
    // As an enqueue does: a connection of the application's may be told to wait for no other writer.
    let cancelled = conn
        .as_backend()
        .patiently(|conn| cancel_and_follow(conn, schema, &[id], how, &reason))??;
    Ok(cancelled > 0)
}

/// Cancels all jobs that match and have not ended; how many there were. One state among `Ready` and `Running` may be
/// chosen by the filter, others have nothing to cancel.
///
/// # Errors
///
/// The database's; what was cancelled before stays so, unless the caller's transaction is open.
pub fn cancel_all(
    conn: &mut impl AsBackend,
    schema: &Schema,
    filter: &Filter,
    how: Cancel,
    reason: &str,
) -> QueryResult<u64> {
    let reason = storable(reason);
    let mut cancelled = 0;
    conn.as_backend().patiently(|conn| {
        in_chunks(conn, schema, filter, &[State::Ready, State::Running], |conn, ids| {
            cancelled += cancel_and_follow(conn, schema, ids, how, &reason)?;
            Ok(())
        })
    })??;
    Ok(cancelled)
}

/// Also does what follows: jobs that waited for these, and batches of which these were the last, need no worker for that.
fn cancel_and_follow<C: Backend>(
    conn: &mut C,
    schema: &Schema,
    ids: &[i64],
    how: Cancel,
    reason: &str,
) -> QueryResult<u64> {
    let cancelled = cancel_these(conn, schema, ids, how, reason)?;
    let mut ended = Ended::default();
    ended.awaited.extend(ids);
    ended.batches.extend(conn.batches_of(schema, ids)?);
    let mut followed = Followed::default();
    follow(&mut Direct(conn), schema, &mut ended, &mut followed)?;
    if followed.changed {
        crate::wake::expect_local();
    }
    Ok(cancelled)
}

/// The number of those that were there to cancel.
pub(crate) fn cancel_these<C: Backend>(
    conn: &mut C,
    schema: &Schema,
    ids: &[i64],
    how: Cancel,
    reason: &str,
) -> QueryResult<u64> {
    let mut done: HashSet<i64> = HashSet::new();
    let mut rest = ids.to_vec();
    while !rest.is_empty() {
        if how == Cancel::Soft {
            done.extend(conn.request_cancel(schema, &rest)?);
            rest.retain(|id| !done.contains(id));
        }
        done.extend(conn.cancel(schema, &rest, how == Cancel::Hard, reason)?);
        rest.retain(|id| !done.contains(id));
        // A job may be claimed or put back between the two statements, but not for ever.
        rest = still_open(conn, schema, rest)?;
    }
    crate::wake::beat_local();
    Ok(u64::try_from(done.len()).unwrap_or(u64::MAX))
}

fn still_open<C: Backend>(conn: &mut C, schema: &Schema, ids: Vec<i64>) -> QueryResult<Vec<i64>> {
    let mut open = Vec::new();
    for id in ids {
        let row = conn.ownership(schema, id)?;
        if row.is_some_and(|row| row.state == "ready" || row.state == "running") {
            open.push(id);
        }
    }
    Ok(open)
}
