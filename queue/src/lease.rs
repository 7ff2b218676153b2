//! The lease: who may record the end of a job.
//!
//! A row lock says who fetched a job, and ends with the transaction. A lease is a record: the claim writes `running`, a
//! new generation, a fresh random lease token and an end time into the row and commits that before any work starts.
//! Generation and token together are the *fence*: every later write names both, so a write by a worker that lost its
//! job matches no row.
//!
//! # Why two numbers
//!
//! The generation alone is not a fence. It repeats when the database forgets a commit it had acknowledged (a crash with
//! `synchronous_commit = off`, the promotion of a replica that lagged, an older SQLite file put back): the lost claim's
//! generation is given out again, and a late worker's writes would pass. The token cannot repeat, whatever the database
//! forgets: each claim call draws it from the operating system's random source. The generation in turn orders the
//! leases of a job, so that a refusal can say what happened: a row whose generation is *below* ours, or equal with
//! another token, is proof of forgotten commits ([`Refusal::DurabilityLoss`]).
//!
//! # Why the guard has a brand
//!
//! The lifetime `'j` of [`LeaseGuard`] and [`Receipt`] is invariant, and [`Handler::run`](crate::Handler::run) is
//! quantified over it. So a handler cannot return another job's receipt, keep one for later, or send the guard to a
//! thread that outlives the call: the compiler refuses each.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::backend::{Backend, Isolation};
use crate::commit;
use crate::handler::{JobError, Outcome};
use crate::results::StoredResult;

mod fence;
pub use fence::{Fence, Refusal, Verdict};

mod standing;

mod held;
pub(crate) use held::Held;

mod follow_up;
mod results;

mod step;
pub use step::StepError;

mod slot;
pub(crate) use slot::Slot;

/// Invariant in `'j`: a guard and the receipt made from it carry one brand, and no other's fits.
type Brand<'j> = PhantomData<fn(&'j ()) -> &'j ()>;

/// Proof that this worker holds the job, handed to [`Handler::run`](crate::Handler::run) by value.
///
/// A [`Receipt`], and so a successful run, is had only by giving the guard up: [`commit`](Self::commit) (with writes),
/// [`finish`](Self::finish) (without), [`snooze`](Self::snooze) or [`cancel`](Self::cancel). It holds no connection.
#[must_use = "a handler that drops its lease can only fail the job"]
pub struct LeaseGuard<'j, C: Backend> {
    slot: &'j mut (dyn Slot<C> + 'j),
    held: Arc<Held>,
    strict: bool,
    /// Once they were asked for.
    steps: Option<step::Steps>,
    brand: Brand<'j>,
}

/// Proof that a lease was given up properly: the only success value of a handler.
///
/// It has no public constructor, and neither outlives nor fits another call than its own.
#[must_use = "return the receipt from the handler, or the job counts as failed"]
pub struct Receipt<'j> {
    pub(crate) decision: Decision,
    brand: Brand<'j>,
}

/// What the runtime still has to do for a receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Nothing: the completion is in the database.
    Committed,
    Finish,
    Snooze(Duration),
    Cancel(String),
}

impl<'j, C: Backend> LeaseGuard<'j, C> {
    pub(crate) fn new(slot: &'j mut (dyn Slot<C> + 'j), held: Arc<Held>) -> Self {
        Self {
            slot,
            held,
            strict: false,
            steps: None,
            brand: PhantomData,
        }
    }

    pub(crate) fn fence(&self) -> Fence {
        self.held.fence
    }

    fn receipt(decision: Decision) -> Receipt<'j> {
        Receipt {
            decision,
            brand: PhantomData,
        }
    }

    /// The job's id.
    #[must_use]
    pub fn job_id(&self) -> i64 {
        self.held.fence.id
    }

    /// How often the job was begun, this time included; snoozes and releases do not count.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.held.attempt
    }

    /// Whether a failure now would discard the job.
    #[must_use]
    pub fn is_last_attempt(&self) -> bool {
        self.held.attempt >= self.held.max_attempts
    }

    /// The generation of this lease: higher than that of every earlier lease of the job, with gaps.
    #[must_use]
    pub fn generation(&self) -> i64 {
        self.held.fence.generation
    }

    /// The same text in every attempt of this job, and another for every other job: what an outside system needs to
    /// recognise a repeated request. The one given at enqueue or [derived](crate::Job::idempotency_key) from the payload, else
    /// a random one. The step's own key is what [`LeaseGuard::step`] hands to an effect.
    #[must_use]
    pub fn idempotency_key(&self) -> &str {
        &self.held.idempotency_key
    }

    /// Whether the lease is lost as far as this process knows. A handler that runs long looks here and stops early; the
    /// database decides at the commit in any case.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.held.lost().is_some()
    }

    /// Whether somebody asked this job to stop. The handler may stop with [`LeaseGuard::cancel`], or go on and complete.
    #[must_use]
    pub fn is_cancel_requested(&self) -> bool {
        self.held.is_cancel_requested()
    }

    /// As [`LeaseGuard::is_lost`], for `?` between the parts of a long handler.
    ///
    /// # Errors
    ///
    /// The refusal, once the lease is lost.
    pub fn check(&self) -> Result<(), JobError> {
        self.held
            .lost()
            .map_or(Ok(()), |refusal| Err(JobError::refused(refusal)))
    }

    /// A view of the lease for other threads of the handler.
    #[must_use]
    pub fn watch(&self) -> LeaseWatch {
        LeaseWatch::new(&self.held)
    }

    /// Demands at the commit that the lease has not run out by the database's clock, even if nobody else has claimed
    /// the job. The row is locked first and its end compared then, so a commit that waited is judged by when it stopped
    /// waiting. Nothing can be said of the instant of the COMMIT itself.
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Reads from the database before the commit, on a connection that goes back to the pool at once. What runs in here
    /// cannot write.
    ///
    /// # Errors
    ///
    /// The closure's error; [`JobError`] when the lease is lost or no connection can be had.
    ///
    /// ```
    /// # include!("doctest_setup.rs");
    /// # diesel::table! { accounts (id) { id -> BigInt, balance -> BigInt } }
    /// # #[derive(serde::Serialize, serde::Deserialize, Job)]
    /// # #[job(kind = "statement")]
    /// # struct Statement { account: i64 }
    /// impl Handler<SqliteConnection> for Statement {
    ///     fn run<'j>(self, mut lease: LeaseGuard<'j, SqliteConnection>, _: &()) -> Outcome<'j> {
    ///         let balance: i64 =
    ///             lease.read(|conn| accounts::table.find(self.account).select(accounts::balance).first(conn))?;
    ///         println!("{balance}");
    ///         lease.finish()
    ///     }
    /// }
    /// # fn main() {}
    /// ```
    pub fn read<T, E: Into<JobError>>(&mut self, reads: impl FnOnce(&mut C) -> Result<T, E>) -> Result<T, JobError> {
        self.check()?;
        let mut reads = Some(reads);
        for _ in 0..commit::MAX_STALE_CONNECTIONS {
            let answer = self.slot.connection()?.read_only(|conn| match reads.take() {
                Some(reads) => reads(conn).map_err(Into::into),
                None => Err(JobError::away("the reads have run already")),
            });
            self.slot.give_back(answer.is_err());
            match answer {
                Ok(answer) => {
                    return answer.map_err(|mut error| {
                        error.of_a_read = true;
                        error
                    });
                }
                // The pool's connection was dead before the reads began.
                Err(_) if reads.is_some() => continue,
                Err(error) => return Err(error.into()),
            }
        }
        Err(JobError::away("every connection of the pool was dead"))
    }

    /// Runs `writes` and the job's completion in one transaction: both are committed, or neither. When the job is no
    /// longer this worker's, everything is rolled back.
    ///
    /// The completion comes last, so the row is locked for a short time only. On SQLite the closure holds the
    /// database's one write lock: it must stay well below a third of the lease, or heartbeats come too late.
    ///
    /// # Errors
    ///
    /// - the closure's error, after a rollback, unless the lease turns out to be lost: then that;
    /// - [`JobError::refusal`] when the job is not this worker's any more;
    /// - a failed attempt when the closure ended the transaction itself, or when the server refuses the COMMIT (a deferred
    ///   constraint, a serialization failure); on PostgreSQL also when the closure swallowed a statement's error. SQLite
    ///   undoes such a statement alone, and commits the rest;
    /// - when the answer to the COMMIT is lost, the row is read again under its lock. Only if that stays impossible until
    ///   the lease ends, the outcome is left open, and the lease decides.
    pub fn commit(self, writes: impl FnOnce(&mut C) -> Result<(), JobError>) -> Outcome<'j> {
        let mut writes = Some(writes);
        self.commit_within(None, 1, move |tx| match writes.take() {
            Some(writes) => writes(tx).map(|()| None),
            None => Err(JobError::retry("the writes of this commit have run already")),
        })
    }

    /// As [`LeaseGuard::commit`], in a transaction of the given isolation level. The closure runs again, up to ten times in
    /// all, when the transaction fails with a serialization failure or a deadlock.
    ///
    /// # Errors
    ///
    /// As [`LeaseGuard::commit`].
    pub fn commit_retrying(
        self,
        isolation: Isolation,
        mut writes: impl FnMut(&mut C) -> Result<(), JobError>,
    ) -> Outcome<'j> {
        self.commit_within(Some(isolation), 10, move |tx| writes(tx).map(|()| None))
    }

    fn commit_within(
        self,
        isolation: Option<Isolation>,
        tries: u32,
        writes: impl FnMut(&mut C) -> Result<Option<StoredResult>, JobError>,
    ) -> Outcome<'j> {
        self.check()?;
        let commit = commit::Commit {
            held: &self.held,
            strict: self.strict,
            isolation,
            tries,
        };
        commit.run(self.slot, writes)?;
        Ok(Self::receipt(Decision::Committed))
    }

    /// Completes a job that has nothing to write. The runtime writes the completions of many jobs in one statement after
    /// their handlers returned, so a refusal is reported as an event and in the summary, not here.
    ///
    /// # Errors
    ///
    /// The refusal, once the lease is known to be lost.
    pub fn finish(self) -> Outcome<'j> {
        self.check()?;
        Ok(Self::receipt(Decision::Finish))
    }

    /// Puts the job back for later, without using up an attempt.
    ///
    /// # Errors
    ///
    /// The refusal, once the lease is known to be lost.
    pub fn snooze(self, after: Duration) -> Outcome<'j> {
        self.check()?;
        Ok(Self::receipt(Decision::Snooze(after)))
    }

    /// Ends the job as cancelled: it is no longer needed.
    ///
    /// # Errors
    ///
    /// The refusal, once the lease is known to be lost.
    pub fn cancel(self, why: impl fmt::Display) -> Outcome<'j> {
        self.check()?;
        Ok(Self::receipt(Decision::Cancel(why.to_string())))
    }
}

impl<C: Backend> fmt::Debug for LeaseGuard<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseGuard")
            .field("fence", &self.held.fence)
            .field("attempt", &self.held.attempt)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Receipt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receipt")
            .field("decision", &self.decision)
            .finish_non_exhaustive()
    }
}

/// Tells other threads of a handler whether its lease still stands; can do nothing else.
///
/// ```
/// # include!("doctest_setup.rs");
/// # fn crunch(_part: u32) {}
/// # #[derive(serde::Serialize, serde::Deserialize, Job)]
/// # #[job(kind = "crunch")]
/// # struct Crunch { parts: u32 }
/// impl Handler<SqliteConnection> for Crunch {
///     fn run<'j>(self, lease: LeaseGuard<'j, SqliteConnection>, _: &()) -> Outcome<'j> {
///         let watch = lease.watch();
///         std::thread::scope(|scope| {
///             scope.spawn(|| (0..self.parts).take_while(|_| !watch.is_lost()).for_each(crunch));
///         });
///         lease.finish()
///     }
/// }
/// # fn main() {}
/// ```
#[derive(Debug, Clone)]
pub struct LeaseWatch {
    held: Arc<Held>,
}

impl LeaseWatch {
    pub(crate) fn new(held: &Arc<Held>) -> Self {
        Self { held: Arc::clone(held) }
    }

    /// As [`LeaseGuard::is_lost`].
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.held.lost().is_some()
    }

    /// As [`LeaseGuard::is_cancel_requested`].
    #[must_use]
    pub fn is_cancel_requested(&self) -> bool {
        self.held.is_cancel_requested()
    }

    /// How long the lease lasts if no further heartbeat gets through, by this process's clock.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.held.remaining(Instant::now())
    }
}
