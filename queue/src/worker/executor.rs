//! A worker thread: takes claimed jobs one by one and runs their handlers.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender};

use super::Shared;
use super::selected::Settled;
use super::slot::PoolSlot;
use crate::backend::{Backend, ClaimedRow};
use crate::lease::{Held, Slot};
use crate::settle::{self, Ran, Settlement};

/// A claimed job on its way to a worker thread.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) row: ClaimedRow,
    pub(crate) held: Arc<Held>,
}

/// A job whose handler is through, on its way to the settler.
pub(crate) struct ToSettle {
    pub(crate) held: Arc<Held>,
    pub(crate) settlement: Settlement,
    /// Whoever waits to know what became of it.
    pub(crate) told: Option<Sender<Settled>>,
}

impl ToSettle {
    pub(crate) fn new(held: &Arc<Held>, settlement: Settlement) -> Self {
        Self {
            held: Arc::clone(held),
            settlement,
            told: None,
        }
    }
}

/// The ends of the channels that a worker thread uses. Cloned for the thread that replaces one which is stuck.
#[derive(Clone)]
pub(crate) struct Ends {
    pub(crate) settle: Sender<ToSettle>,
    pub(crate) wake: Receiver<()>,
}

/// Runs jobs until the claimer is gone, or until this thread was replaced.
pub(crate) fn run<C: Backend, A: Send + Sync + 'static>(shared: &Shared<C, A>, ends: &Ends) {
    let mut slot = PoolSlot::new(&shared.pool, &shared.url, &shared.settings, &shared.schema);
    while let Some(job) = shared.line.next() {
        if let Some(to_settle) = execute(shared, &mut slot, &job) {
            let _ = ends.settle.send(to_settle);
        }
        if is_replaced(shared, &job) {
            return;
        }
    }
}

/// Whether another thread has the place of this one, because its job ran past the timeout.
pub(crate) fn is_replaced<C: Backend, A>(shared: &Shared<C, A>, job: &Claimed) -> bool {
    if job.held.is_replaced() {
        shared.stuck.fetch_sub(1, Ordering::AcqRel);
    }
    job.held.is_replaced()
}

/// One job, from its handler's call to the settlement that follows from it, if there is anything left to write.
pub(crate) fn execute<C: Backend, A: Send + Sync + 'static>(
    shared: &Shared<C, A>,
    slot: &mut PoolSlot<C>,
    job: &Claimed,
) -> Option<ToSettle> {
    let Claimed { row, held } = job;
    if shared.stop.is_stopping() {
        shared.unbegun.lock().push(Arc::clone(held));
        return None;
    }
    let run = |slot: &mut PoolSlot<C>| shared.registry.run(row, slot, Arc::clone(held), &shared.app);
    let settlement = run_claimed(shared, slot, job, run).ok()?;
    Some(ToSettle::new(held, settlement))
}

/// Runs a claimed job by `run`: what is to be written for it then, or what became of it where there is nothing to write.
pub(crate) fn run_claimed<C: Backend, A: Send + Sync + 'static>(
    shared: &Shared<C, A>,
    slot: &mut PoolSlot<C>,
    job: &Claimed,
    run: impl FnOnce(&mut PoolSlot<C>) -> Ran,
) -> Result<Settlement, Settled> {
    let Claimed { row, held } = job;
    if let Some(refusal) = held.lost() {
        shared.reporter.lost(&held.info(), &refusal);
        shared.settled(held);
        return Err(Settled::Lost(refusal));
    }
    if held.is_too_late(Instant::now()) {
        return Ok(settle::expire());
    }
    let begun = Instant::now();
    held.begin(begun);
    let _in = held.span.get().enter();
    if let Some(timeout) = held.timeout {
        shared.leases.look_by(begun.checked_add(timeout));
    }
    shared.reporter.begun(&held.info());
    let ran = run(slot);
    held.mark_returned();
    let took = begun.elapsed();
    shared.pace.ran(took);
    shared.reporter.ran(&held.info(), took);
    slot.give_back(matches!(ran, Ran::Panicked(_)));
    let refusal = ran.refusal();
    let settlement = settle::decide(held, shared.registry.backoff(&row.kind), ran, &shared.reporter);
    settlement.ok_or_else(|| {
        shared.settled(held);
        Settled::without_a_write(held, refusal)
    })
}
