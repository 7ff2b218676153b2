//! Jobs that are held, and those that complete beside them.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use diesel::prelude::*;
use leasehold::{Backend, Handler, Hooks, Job, JobInfo, LeaseGuard, Outcome};
use serde::{Deserialize, Serialize};

use crate::clock::now_ns;
use crate::raw::Plain;
use crate::{Answer, Bench};

#[allow(missing_docs, reason = "a table of the bench")]
mod schema {
    diesel::table! { bench_rows (id) { id -> BigInt, job -> BigInt } }
}
use schema::bench_rows;

/// In a queue that nobody serves: it is chosen and kept.
#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(kind = "kept", queue = "kept")]
pub(super) struct Kept {}

/// Completed together with others.
#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(kind = "quick")]
pub(super) struct Quick {}

/// Completed by a commit with one insert.
#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(kind = "writes")]
pub(super) struct Writes {}

/// How a completion was written, and whose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Finish,
    Commit,
    /// Of a job that the heartbeat renews at that very time.
    FinishOfKept,
    CommitOfKept,
}

/// A completion, from when it was asked for until it was in the database.
#[derive(Debug, Clone, Copy)]
pub(super) struct Completion {
    pub(super) how: How,
    pub(super) began: u64,
    pub(super) ended: u64,
}

static COMPLETIONS: Mutex<Vec<Completion>> = Mutex::new(Vec::new());
/// When handlers that finish have returned.
static RETURNED: Mutex<Option<HashMap<i64, u64>>> = Mutex::new(None);

pub(super) fn completed(how: How, began: u64) {
    let ended = now_ns();
    let mut completions = COMPLETIONS.lock().unwrap_or_else(PoisonError::into_inner);
    completions.push(Completion { how, began, ended });
}

pub(super) fn take_completions() -> Vec<Completion> {
    std::mem::take(&mut *COMPLETIONS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Notices when a finish is in the database.
pub(super) struct Notice;

impl Hooks for Notice {
    fn completed(&self, job: &JobInfo<'_>) {
        let mut returned = RETURNED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(began) = returned.get_or_insert_default().remove(&job.id) {
            completed(How::Finish, began);
        }
    }
}

/// A connection on which the bench's row is inserted.
pub(super) trait Writer: Bench {
    /// Inserts it.
    ///
    /// # Errors
    ///
    /// The database's.
    fn write(&mut self, job: i64) -> QueryResult<usize>;
}

macro_rules! writer {
    ($C:ty) => {
        impl Writer for $C {
            fn write(&mut self, job: i64) -> QueryResult<usize> {
                diesel::insert_into(bench_rows::table)
                    .values(bench_rows::job.eq(job))
                    .execute(self)
            }
        }
    };
}
#[cfg(feature = "postgres")]
writer!(PgConnection);
#[cfg(feature = "sqlite")]
writer!(SqliteConnection);

/// A commit with one insert, timed.
pub(super) fn commit<'j, C: Writer>(lease: LeaseGuard<'j, C>, how: How) -> Outcome<'j> {
    let (job, began) = (lease.job_id(), now_ns());
    let receipt = lease.commit(|tx| {
        tx.write(job)?;
        Ok(())
    })?;
    completed(how, began);
    Ok(receipt)
}

impl<C: Writer> Handler<C> for Writes {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, (): &()) -> Outcome<'j> {
        commit(lease, How::Commit)
    }
}

impl<C: Backend> Handler<C> for Quick {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, (): &()) -> Outcome<'j> {
        let mut returned = RETURNED.lock().unwrap_or_else(PoisonError::into_inner);
        returned.get_or_insert_default().insert(lease.job_id(), now_ns());
        lease.finish()
    }
}

/// Nobody serves its queue.
impl<C: Backend> Handler<C> for Kept {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, (): &()) -> Outcome<'j> {
        lease.finish()
    }
}

/// What an enqueue of one to be kept writes, for the reference.
pub(super) fn plain() -> Answer<Plain> {
    Ok(Plain {
        queue: Kept::QUEUE,
        kind: Kept::KIND,
        version: i32::try_from(Kept::VERSION)?,
        payload: serde_json::to_string(&Kept {})?,
        max_attempts: i32::try_from(Kept::MAX_ATTEMPTS)?,
        lease_ms: i64::try_from(Kept::LEASE.as_millis())?,
    })
}
