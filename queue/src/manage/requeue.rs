//! Requeue: a job that ended without success runs once more.

use diesel::result::{Error, QueryResult};

use super::deed::Deed;
use super::in_chunks;
use crate::backend::{AsBackend, Backend, CommitStatements, RequeuedRow};
use crate::inspect::{Filter, State};
use crate::migrate::Migrate;
use crate::schema::Schema;

/// What became of the jobs that were to be requeued.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Requeued {
    /// Ready again.
    pub requeued: u64,
    /// Left among the finished ones, because another job has their unique key.
    pub key_taken: u64,
}

/// Why a job was not requeued.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequeueError {
    /// There is no such job; it may have been purged.
    #[error("there is no job {id}: it may have been purged")]
    Missing {
        /// The id.
        id: i64,
    },
    /// The job is in a state from which it is not requeued.
    #[error("job {id} is {state}: only discarded and cancelled jobs are requeued")]
    State {
        /// The id.
        id: i64,
        /// Its state.
        state: State,
    },
    /// Another job has the unique key.
    #[error("another job has the unique key of job {id}: wait for its end, or cancel it")]
    KeyTaken {
        /// The id of the job that was to be requeued.
        id: i64,
    },
    /// The database's error.
    #[error(transparent)]
    Database(#[from] Error),
}

/// Puts a discarded or cancelled job back to ready, to run as soon as it can.
///
/// No attempt is used up then; its idempotency key and the errors of earlier attempts are kept, and its generation is one
/// higher. It takes its unique key again, and has no time of expiry any more.
///
/// # Errors
///
/// [`RequeueError`]; the job is left as it is then.
pub fn requeue(conn: &mut impl AsBackend, schema: &Schema, id: i64, by: &str) -> Result<(), RequeueError> {
    let conn = conn.as_backend();
    let deed = Deed::new(by, None);
    let answer = conn.patiently(|conn| requeue_these(conn, schema, &[id], &deed))??;
    match answer.first() {
        Some(row) if row.requeued => {
            crate::wake::wake_local();
            Ok(())
        }
        Some(_) => Err(RequeueError::KeyTaken { id }),
        None => Err(match conn.ownership(schema, id)? {
            Some(row) => RequeueError::State {
                id,
                state: State::parse(&row.state),
            },
            None => RequeueError::Missing { id },
        }),
    }
}

/// Requeues all jobs that match: the discarded ones, or the cancelled ones if the filter says so. One whose unique key
/// another job has stays as it is, and keeps none of the others back.
///
/// # Errors
///
/// The database's; what was requeued before stays so, unless the caller's transaction is open.
pub fn requeue_all(conn: &mut impl AsBackend, schema: &Schema, filter: &Filter, by: &str) -> QueryResult<Requeued> {
    let deed = Deed::new(by, None);
    let states: &[State] = match filter.chosen_state() {
        None => &[State::Discarded],
        Some(_) => &[State::Discarded, State::Cancelled],
    };
    let mut all = Requeued::default();
    conn.as_backend().patiently(|conn| {
        in_chunks(conn, schema, filter, states, |conn, ids| {
            for row in requeue_these(conn, schema, ids, &deed)? {
                match row.requeued {
                    true => all.requeued += 1,
                    false => all.key_taken += 1,
                }
            }
            Ok(())
        })
    })??;
    crate::wake::wake_local();
    Ok(all)
}

fn requeue_these<C: Backend>(conn: &mut C, schema: &Schema, ids: &[i64], deed: &Deed) -> QueryResult<Vec<RequeuedRow>> {
    deed.to_jobs(conn, schema, ("requeue", 1), |conn| {
        let rows = conn.requeue(schema, ids)?;
        let back = rows.iter().filter(|row| row.requeued).map(|row| row.id).collect();
        Ok((rows, back))
    })
}
