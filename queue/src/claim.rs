//! Claim: a worker gets jobs, recorded and committed before any work starts.

use std::time::Duration;

use diesel::result::{Error, QueryResult};

use crate::backend::{Backend, ClaimRequest, ClaimedRow, SelectedRequest, SelectedRow, Served, Waiting};
use crate::commit::depth;
use crate::schema::Schema;

/// What a claim found. "Every candidate is locked" is not "the queue is empty".
#[derive(Debug)]
pub enum Found {
    /// These rows are the caller's, and that is committed.
    Claimed(Vec<ClaimedRow>),
    /// Something is due, and others have all of it locked at this moment.
    AllLocked(Waiting),
    /// Nothing is due; the next is in `next`.
    NotDue { next: Duration, waiting: Waiting },
    /// Nothing is ready at all.
    Empty(Waiting),
}

/// Why a claim was not tried.
fn in_transaction() -> Error {
    let text = "a claim must be committed before work starts: it cannot be part of an open transaction, which has to be committed or rolled back first";
    Error::QueryBuilderError(text.into())
}

/// Claims; and when there was nothing to claim, says what is there instead.
///
/// # Errors
///
/// The database's; and an error before anything is written when `conn` is inside a transaction: the claim would be
/// undone by its rollback, after work had started.
pub fn claim<C: Backend>(conn: &mut C, schema: &Schema, request: &ClaimRequest<'_>) -> QueryResult<Found> {
    let rows = take(conn, schema, request)?;
    if !rows.is_empty() {
        return Ok(Found::Claimed(rows));
    }
    look(conn, schema, request.serves)
}

/// Claims; no rows when there was nothing to claim.
///
/// # Errors
///
/// As [`claim`].
pub(crate) fn take<C: Backend>(
    conn: &mut C,
    schema: &Schema,
    request: &ClaimRequest<'_>,
) -> QueryResult<Vec<ClaimedRow>> {
    if depth(conn)? > 0 {
        return Err(in_transaction());
    }
    conn.claim(schema, request)
}

/// Claims chosen jobs, and says of each one what it is.
///
/// # Errors
///
/// As [`claim`].
pub fn claim_selected<C: Backend>(
    conn: &mut C,
    schema: &Schema,
    request: &SelectedRequest<'_>,
) -> QueryResult<Vec<SelectedRow>> {
    if depth(conn)? > 0 {
        return Err(in_transaction());
    }
    conn.claim_selected(schema, request)
}

/// After claims that took nothing: what is there instead.
///
/// # Errors
///
/// The database's.
pub(crate) fn look<C: Backend>(conn: &mut C, schema: &Schema, serves: &[Served]) -> QueryResult<Found> {
    // The cold path: a plain count, which SKIP LOCKED cannot give.
    let waiting = conn.waiting(schema, serves, 1000)?;
    Ok(match waiting.next_due_ms {
        _ if waiting.ready > 0 => Found::AllLocked(waiting),
        Some(ms) => Found::NotDue {
            next: Duration::from_millis(ms.unsigned_abs()),
            waiting,
        },
        None => Found::Empty(waiting),
    })
}
