//! The commit: a handler's writes and the job's completion, in one transaction.
//!
//! The writes come first and the fenced completion last: the row's lock is short, and an error that the closure
//! swallowed shows at the completion, because the server refuses every further statement of an aborted transaction.
//! Begin, completion and COMMIT are driven one by one, since their errors mean different things: before the COMMIT
//! every error means "not committed"; at the COMMIT it means "unknown", until the row was read again *under its lock*
//! (a plain read may find the state before a COMMIT that is still under way).

use std::thread;
use std::time::{Duration, Instant};

use diesel::connection::{AnsiTransactionManager, TransactionManager};
use diesel::r2d2::R2D2Connection;
use diesel::result::{DatabaseErrorKind, Error, QueryResult};

use crate::backend::{Backend, Completion, Isolation, Ownership};
use crate::handler::JobError;
use crate::lease::{Held, Refusal, Slot, Verdict};
use crate::results::StoredResult;
use crate::schema::Schema;

mod fenced;
pub use fenced::NotCommitted;
pub(crate) use fenced::is_conflict;
pub(crate) use fenced::{Ended, write_and_fence};

/// How many dead connections of the pool are thrown away for one use of the database: more than most pools have.
pub(crate) const MAX_STALE_CONNECTIONS: u32 = 64;

/// One commit of one lease.
pub(crate) struct Commit<'a> {
    pub(crate) held: &'a Held,
    pub(crate) strict: bool,
    pub(crate) isolation: Option<Isolation>,
    /// How often the closure may run.
    pub(crate) tries: u32,
}

/// How one try ended. All but `Committed` and `Unknown` are rolled back.
enum Tried {
    Committed,
    /// The transaction could not begin.
    NotBegun(Error),
    /// The completion matched no row.
    Refused,
    /// The closure returned an error.
    Failed(JobError),
    /// A serialization failure or a deadlock: the same closure may succeed the next time.
    Conflict(JobError),
    /// Any other answer of the server that means "not committed".
    NotCommitted(JobError),
    /// The COMMIT was sent and its answer is no verdict.
    Unknown(Error),
}

impl Commit<'_> {
    /// Runs the closure and the completion until they are committed or cannot be.
    pub(crate) fn run<C: Backend>(
        &self,
        slot: &mut dyn Slot<C>,
        mut writes: impl FnMut(&mut C) -> Result<Option<StoredResult>, JobError>,
    ) -> Result<(), JobError> {
        let (mut tried, mut stale) = (0, 0);
        loop {
            tried += 1;
            match self.once(slot, &mut writes)? {
                // The pool's connection was dead before the closure began.
                Tried::NotBegun(error) if stale >= MAX_STALE_CONNECTIONS => return Err(JobError::away(error)),
                Tried::NotBegun(_) => (tried, stale) = (tried - 1, stale + 1),
                Tried::Committed => {
                    self.held.mark_committed();
                    return Ok(());
                }
                Tried::Refused => return Err(self.diagnose(slot)?),
                // A late worker's unique violation is a symptom: whoever took the job has written that row.
                Tried::Failed(error) => return Err(self.refusal(slot).ok().flatten().map_or(error, JobError::refused)),
                Tried::NotCommitted(error) => return Err(error),
                Tried::Conflict(error) if tried >= self.tries => return Err(error),
                Tried::Conflict(_) => thread::sleep(Duration::from_millis(u64::from(tried) * 5)),
                Tried::Unknown(error) => match self.resolve(slot, &error)? {
                    Verdict::Committed => {
                        self.held.mark_committed();
                        return Ok(());
                    }
                    Verdict::NotCommitted if tried >= self.tries => {
                        return Err(refused_commit(error));
                    }
                    Verdict::NotCommitted => {}
                    Verdict::Refused(refusal) => {
                        self.held.mark_lost(refusal.clone());
                        return Err(JobError::refused(refusal));
                    }
                },
            }
            if let Some(refusal) = self.held.lost() {
                return Err(JobError::refused(refusal));
            }
        }
    }

    /// One transaction. An `Err` means that there was no connection for it.
    fn once<C: Backend>(
        &self,
        slot: &mut dyn Slot<C>,
        writes: &mut impl FnMut(&mut C) -> Result<Option<StoredResult>, JobError>,
    ) -> Result<Tried, JobError> {
        let (schema, savepoint) = (slot.schema().clone(), slot.permits_savepoint());
        let (gate, settings) = (slot.write_gate().clone(), slot.settings().clone());
        let conn = slot.connection()?;
        let before = depth(conn)?;
        if before > 0 && !savepoint {
            slot.give_back(true);
            return Err(JobError::retry(
                "the pool's connection is inside a transaction: a lease commits in a transaction of its own; \
                 do not return connections to the pool with one open",
            ));
        }
        let mut begun = true;
        let tried = gate.hold(|| {
            let started = Instant::now();
            let tried = match conn.begin_commit(self.isolation, &settings) {
                Ok(()) => self.write_and_complete(conn, writes, &schema, before, savepoint),
                Err(error) if is_dead(conn, &error) => Tried::NotBegun(error),
                // The write lock was not to be had in time, the server lets nobody begin, or somebody left a transaction open
                // by a raw BEGIN: another connection may do better.
                Err(error) => {
                    begun = false;
                    Tried::NotCommitted(JobError::away(error))
                }
            };
            if gate.is_exclusive() {
                self.warn_if_slow(started.elapsed());
            }
            tried
        });
        let broken = match tried {
            Tried::Committed => false,
            Tried::NotBegun(_) | Tried::Unknown(_) => true,
            _ => !begun || depth(conn) != Ok(before),
        };
        slot.give_back(broken);
        Ok(tried)
    }

    /// The closure, the completion and the COMMIT, in a transaction that is open; rolled back unless they are through.
    fn write_and_complete<C: Backend>(
        &self,
        conn: &mut C,
        writes: &mut impl FnMut(&mut C) -> Result<Option<StoredResult>, JobError>,
        schema: &Schema,
        before: u32,
        savepoint: bool,
    ) -> Tried {
        let ended = write_and_fence(conn, before, writes, |conn, result| {
            let completion = conn.complete(schema, &self.held.fence, self.strict)?;
            // After the completion: only the worker that has the fence gets here, so nobody waits for a late one's row.
            if let (Completion::Completed, Some(result)) = (completion, result) {
                conn.store_result(schema, &self.held.fence, result.json())?;
            }
            Ok(completion)
        });
        match ended {
            Ended::Committed(_) => Tried::Committed,
            Ended::Refused => Tried::Refused,
            Ended::Failed(error) if error.downcast_ref().is_some_and(is_conflict) => Tried::Conflict(error),
            Ended::Failed(error) => Tried::Failed(error),
            Ended::NotCommitted(NotCommitted::Conflict(error)) => Tried::Conflict(error.into()),
            Ended::NotCommitted(NotCommitted::Database(error)) => Tried::NotCommitted(error.into()),
            Ended::NotCommitted(why) => Tried::NotCommitted(JobError::retry(why)),
            // A test has no second connection to read the row on; this one answers, so its word counts.
            Ended::Unknown(error, _) if savepoint && conn.ping().is_ok() => {
                roll_back_to(conn, before);
                Tried::NotCommitted(refused_commit(error))
            }
            Ended::Unknown(error, _) => Tried::Unknown(error),
        }
    }

    /// Where one writer keeps all others waiting, heartbeats wait for a commit.
    fn warn_if_slow(&self, took: Duration) {
        let limit = self.held.lease / 3;
        if took > limit {
            log::warn!(
                "slow commit {}: it held the write lock for {took:?}: keep it below {limit:?}, or heartbeats come too late",
                self.held.info()
            );
        }
    }

    /// Says why the completion matched no row.
    fn diagnose<C: Backend>(&self, slot: &mut dyn Slot<C>) -> Result<JobError, JobError> {
        let refusal = match self.refusal(slot)? {
            Some(refusal) => refusal,
            None if self.strict => Refusal::Expired,
            None => {
                return Ok(JobError::retry(
                    "the completion matched no row, and yet the job is this worker's",
                ));
            }
        };
        Ok(JobError::refused(refusal))
    }

    /// What the row says about the lease, if it is not this worker's any more.
    fn refusal<C: Backend>(&self, slot: &mut dyn Slot<C>) -> Result<Option<Refusal>, JobError> {
        let schema = slot.schema().clone();
        let row = slot
            .connection()
            .and_then(|conn| Ok(conn.ownership(&schema, self.held.fence.id)?));
        slot.give_back(row.is_err());
        let refusal = Refusal::of(&self.held.fence, row?.as_ref());
        if let Some(refusal) = &refusal {
            self.held.mark_lost(refusal.clone());
        }
        Ok(refusal)
    }

    /// Reads the row under its lock until that gives a verdict, or until the lease ends.
    fn resolve<C: Backend>(&self, slot: &mut dyn Slot<C>, error: &Error) -> Result<Verdict, JobError> {
        log::warn!(
            "job {} ({}): the answer to its COMMIT was lost ({error}); reading the row again",
            self.held.fence.id,
            self.held.kind
        );
        let mut wait = Duration::from_millis(20);
        loop {
            let row = slot
                .fresh()
                .and_then(|mut conn| Ok(self.locked_ownership(&mut conn, slot.schema())?));
            match row {
                Ok(row) => return Ok(Verdict::of(&self.held.fence, row.as_ref())),
                Err(error) => log::debug!("job {}: still unknown: {error}", self.held.fence.id),
            }
            if self.held.remaining(Instant::now()) < wait {
                return Err(JobError::unresolved(format!(
                    "the answer to the COMMIT was lost ({error}) and the row could not be read until the lease ended"
                )));
            }
            thread::sleep(wait);
            wait = (wait * 2).min(Duration::from_secs(1));
        }
    }

    fn locked_ownership<C: Backend>(&self, conn: &mut C, schema: &Schema) -> QueryResult<Option<Ownership>> {
        conn.begin_resolve()?;
        let id = self.held.fence.id;
        let row = conn.lock_ownership(schema, id).and_then(|row| match row {
            // Holding the lock proves that the transaction in doubt is over. Without a row to lock, a new statement sees
            // what it left.
            None => conn.ownership(schema, id),
            row => Ok(row),
        });
        roll_back_to(conn, 0);
        row
    }
}

fn refused_commit(error: Error) -> JobError {
    JobError::retry(NotCommitted::Refused(error))
}

/// Whether the connection itself is at fault, and another one may do better.
pub(crate) fn is_dead<C: Backend>(conn: &mut C, error: &Error) -> bool {
    let closed = matches!(
        error,
        Error::BrokenTransactionManager
            | Error::DatabaseError(
                DatabaseErrorKind::ClosedConnection | DatabaseErrorKind::UnableToSendCommand,
                _
            )
    );
    closed || R2D2Connection::is_broken(conn) || conn.ping().is_err()
}

/// How many transactions deep the connection is: zero outside of any.
pub(crate) fn depth<C: Backend>(conn: &mut C) -> QueryResult<u32> {
    let depth = AnsiTransactionManager::transaction_manager_status_mut(conn).transaction_depth()?;
    Ok(depth.map_or(0, std::num::NonZero::get))
}

/// Leaves the transactions above `target`. Errors are of no interest: a connection that stays inside is closed.
pub(crate) fn roll_back_to<C: Backend>(conn: &mut C, target: u32) {
    while depth(conn).is_ok_and(|depth| depth > target) {
        if AnsiTransactionManager::rollback_transaction(conn).is_err() {
            return;
        }
    }
}
