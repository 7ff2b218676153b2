//! A job that its caller holds.

use std::any::TypeId;
use std::fmt;
use std::sync::Arc;

use crossbeam_channel::bounded;

use super::Settled;
use crate::backend::Backend;
use crate::handler::{JobError, Outcome};
use crate::job::Job;
use crate::lease::{Held, LeaseGuard, LeaseWatch};
use crate::registry::{contained, decode};
use crate::settle::{self, Ran};
use crate::worker::Shared;
use crate::worker::executor::{Claimed, ToSettle, run_claimed};
use crate::worker::slot::PoolSlot;

/// A claimed job, whose lease is renewed from now on.
///
/// [`work`](Self::work) it off on this thread or on another one of the program's, or [`hand it over`](Self::hand_over) to
/// the worker. Dropping it gives the job back as if it had not been claimed: ready, with its attempt, or cancelled when that
/// was asked for meanwhile ([`LeaseWatch::is_cancel_requested`]). That never waits for the database.
///
/// It may outlive the worker. A worker that stops gives back what was not begun, and waits for what was within its
/// patience.
#[must_use = "dropping it gives the job back"]
pub struct ClaimedJob<C: Backend> {
    owner: Arc<dyn Owner<C>>,
    job: Claimed,
}

impl<C: Backend> ClaimedJob<C> {
    pub(super) fn new<A: Send + Sync + 'static>(shared: Arc<Shared<C, A>>, job: Claimed) -> Self {
        Self { owner: shared, job }
    }

    /// The job's id.
    #[must_use]
    pub fn id(&self) -> i64 {
        self.job.row.id
    }

    /// How often the job was begun, this time included.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.job.held.attempt
    }

    /// The generation of this lease.
    #[must_use]
    pub fn generation(&self) -> i64 {
        self.job.row.generation
    }

    /// The same text in every attempt of this job; see [`LeaseGuard::idempotency_key`].
    #[must_use]
    pub fn idempotency_key(&self) -> &str {
        &self.job.row.idempotency_key
    }

    /// Its queue.
    #[must_use]
    pub fn queue(&self) -> &str {
        &self.job.row.queue
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.job.row.kind
    }

    /// The payload as it is stored, in JSON.
    #[must_use]
    pub fn payload(&self) -> &str {
        &self.job.row.payload
    }

    /// A view of the lease: whether it is lost, and whether the job was asked to stop.
    #[must_use]
    pub fn watch(&self) -> LeaseWatch {
        LeaseWatch::new(&self.job.held)
    }

    /// Runs the job on this thread, as a worker's thread runs a [`Handler`](crate::Handler), and settles it: completed by
    /// its receipt, else retried, discarded or what else its error says. A panic is caught, and counts as a failed attempt.
    /// The kind's backoff and timeout hold; a run past its timeout is fenced, and goes on until it returns.
    ///
    /// The closure gets the payload, migrated to the version of `J`, and the lease of this very call: as in a handler, its
    /// only success value is the receipt for which it gives the lease up. A commit takes one connection of the handlers'
    /// pool.
    ///
    /// It returns when the database has answered, [`LeaseGuard::finish`] included; while the database is away that takes as
    /// long as the lease, or half a minute if that is longer.
    ///
    /// ```
    /// # include!("../../doctest_setup.rs");
    /// use leasehold::selected::Settled;
    /// use leasehold::Worker;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (url, mut conn) = doctest_database();
    /// # let worker = Worker::<SqliteConnection, _>::new(&url, ()).register::<Greet>();
    /// # let running = worker.claims_selected_only().start()?;
    /// let id = Greet { name: String::new() }.enqueue(&mut conn)?.id();
    /// let job = running.claim_now(id)?.claimed().expect("nobody else has it");
    /// let settled = job.work(|greet: Greet, lease| match greet.name.as_str() {
    ///     "" => Err(JobError::discard("nobody to greet")),
    ///     _ => lease.finish(),
    /// });
    /// assert_eq!(settled, Settled::Discarded { reason: "nobody to greet".to_owned() });
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "it says whether the job was completed"]
    pub fn work<J: Job>(self, run: impl for<'j> FnOnce(J, LeaseGuard<'j, C>) -> Outcome<'j>) -> Settled {
        let Claimed { row, held } = &self.job;
        if !self.owner.is_of(&row.kind, TypeId::of::<J>()) {
            log::error!(
                "not worked off {}: the closure takes jobs of the kind {:?}",
                held.info(),
                J::KIND
            );
            return Settled::OtherType;
        }
        if self.owner.is_in_commit() {
            log::error!("not worked off {}: inside the commit of another lease", held.info());
            return Settled::InCommit;
        }
        if !self.owner.take(held) {
            return Settled::Released;
        }
        let mut run = Some(run);
        self.owner.work(&self.job, &mut |slot| {
            contained(|| {
                let job: J = decode(row.version, &row.payload)?;
                let run = run.take().ok_or_else(|| JobError::retry("this job has run already"))?;
                run(job, LeaseGuard::new(slot, Arc::clone(held))).map(|receipt| receipt.decision)
            })
        })
    }

    /// Gives the job to the worker's threads, which run it with its registered handler as soon as one is idle, before
    /// anything that the worker claims by itself. A worker that is stopping gives it back instead.
    pub fn hand_over(self) {
        let Claimed { row, held } = &self.job;
        if self.owner.take(held) {
            self.owner.hand_over(Claimed {
                row: row.clone(),
                held: Arc::clone(held),
            });
        }
    }
}

impl<C: Backend> Drop for ClaimedJob<C> {
    fn drop(&mut self) {
        if self.owner.take(&self.job.held) {
            self.owner.give_back(&self.job.held);
        }
    }
}

impl<C: Backend> fmt::Debug for ClaimedJob<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClaimedJob")
            .field("id", &self.id())
            .field("kind", &self.kind())
            .field("attempt", &self.attempt())
            .field("generation", &self.generation())
            .finish_non_exhaustive()
    }
}

/// The worker that has claimed a job, without the type of its handlers' state.
trait Owner<C: Backend>: Send + Sync {
    fn is_of(&self, kind: &str, job: TypeId) -> bool;

    fn is_in_commit(&self) -> bool;

    /// Whether the job is still the caller's to begin, which it is no more from now on.
    fn take(&self, held: &Held) -> bool;

    fn work(&self, job: &Claimed, run: &mut dyn FnMut(&mut PoolSlot<C>) -> Ran) -> Settled;

    fn hand_over(&self, job: Claimed);

    fn give_back(&self, held: &Arc<Held>);
}

impl<C: Backend, A: Send + Sync + 'static> Owner<C> for Shared<C, A> {
    fn is_of(&self, kind: &str, job: TypeId) -> bool {
        self.registry.is_of(kind, job)
    }

    fn is_in_commit(&self) -> bool {
        self.choosing.is_in_commit()
    }

    fn take(&self, held: &Held) -> bool {
        self.choosing.take(held)
    }

    fn work(&self, job: &Claimed, run: &mut dyn FnMut(&mut PoolSlot<C>) -> Ran) -> Settled {
        let held = &job.held;
        held.begin_outside();
        let mut slot = PoolSlot::new(&self.pool, &self.url, &self.settings, &self.schema);
        let settlement = match run_claimed(self, &mut slot, job, run) {
            Ok(settlement) => settlement,
            Err(settled) => return settled,
        };
        let (told, tells) = bounded(1);
        let done = ToSettle {
            told: Some(told),
            ..ToSettle::new(held, settlement)
        };
        if self.choosing.settle(done)
            && let Ok(settled) = tells.recv()
        {
            return settled;
        }
        // The worker has stopped meanwhile, and put the job back.
        held.lost().map_or(Settled::Unknown, Settled::Lost)
    }

    fn hand_over(&self, job: Claimed) {
        self.choosing.hand_over(job);
        self.wake();
    }

    fn give_back(&self, held: &Arc<Held>) {
        self.choosing.settle(ToSettle::new(held, settle::give_back(held)));
    }
}
