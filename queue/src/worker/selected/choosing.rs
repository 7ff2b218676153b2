//! What the worker keeps of what callers choose.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use uuid::Uuid;

use crate::backend::{Backend, ConnectionSettings, WriteGate};
use crate::lease::{Fence, Held};
use crate::worker::control::{Control, Failure};
use crate::worker::executor::{Claimed, ToSettle};
use crate::worker::maintenance::briefly;
use crate::worker::{Locked, Shared};

/// How long a claim may be in doubt before it is left to its leases.
const LONGEST_DOUBT: Duration = Duration::from_secs(3600);

pub(in crate::worker) struct Choosing<C: Backend> {
    /// One connection for all callers: no claim waits for a row, and one that asks a limit again waits for milliseconds.
    pub(super) control: Locked<Control<C>>,
    gate: WriteGate,
    /// Callers between their look at the stop and the note of what they claimed: a stop waits for them.
    under_way: AtomicUsize,
    /// Claims whose answer was lost, and for whose jobs nobody waits.
    in_doubt: Locked<Vec<(Uuid, Instant)>>,
    /// Claimed, and neither begun nor handed over nor dropped by the caller. Whoever takes one out of here has it.
    unbegun: Locked<HashMap<Fence, Arc<Held>>>,
    /// For the worker's threads.
    handed: Locked<VecDeque<Claimed>>,
    /// `None` once nothing is settled any more.
    settle: Locked<Option<Sender<ToSettle>>>,
}

impl<C: Backend> Choosing<C> {
    pub(in crate::worker) fn new(url: &str, settings: &ConnectionSettings) -> Self {
        Self {
            control: Locked::new(Control::new("claim selected", url, settings)),
            gate: C::write_gate(url),
            under_way: AtomicUsize::new(0),
            in_doubt: Locked::new(Vec::new()),
            unbegun: Locked::new(HashMap::new()),
            handed: Locked::new(VecDeque::new()),
            settle: Locked::new(None),
        }
    }

    pub(in crate::worker) fn settle_by(&self, settle: &Sender<ToSettle>) {
        *self.settle.lock() = Some(settle.clone());
    }

    /// So that the settler ends though a caller may keep its job for ever.
    pub(in crate::worker) fn settle_no_more(&self) {
        self.settle.lock().take();
    }

    /// Never waits; false once nothing is settled any more.
    pub(super) fn settle(&self, done: ToSettle) -> bool {
        let settle = self.settle.lock();
        settle.as_ref().is_some_and(|settle| settle.send(done).is_ok())
    }

    /// Until this is dropped, a stop waits for what the caller claims.
    pub(super) fn under_way(&self) -> UnderWay<'_> {
        self.under_way.fetch_add(1, Ordering::SeqCst);
        UnderWay(&self.under_way)
    }

    pub(in crate::worker) fn is_quiet(&self) -> bool {
        self.under_way.load(Ordering::SeqCst) == 0
    }

    /// Whether the calling thread is inside a commit that keeps all other writers waiting.
    pub(super) fn is_in_commit(&self) -> bool {
        self.gate.is_mine()
    }

    pub(super) fn keep(&self, held: &Arc<Held>) {
        self.unbegun.lock().insert(held.fence, Arc::clone(held));
    }

    /// Whether it was still the caller's, which it is no more.
    pub(super) fn take(&self, held: &Held) -> bool {
        self.unbegun.lock().remove(&held.fence).is_some()
    }

    pub(super) fn hand_over(&self, job: Claimed) {
        self.handed.lock().push_back(job);
    }

    pub(in crate::worker) fn has_handed(&self) -> bool {
        !self.handed.lock().is_empty()
    }

    pub(in crate::worker) fn take_handed(&self) -> Option<Claimed> {
        self.handed.lock().pop_front()
    }

    /// All that nobody has begun, to be released.
    pub(in crate::worker) fn take_unbegun(&self) -> Vec<Arc<Held>> {
        let mut unbegun: Vec<_> = self.unbegun.lock().drain().map(|(_, held)| held).collect();
        unbegun.extend(self.handed.lock().drain(..).map(|job| job.held));
        unbegun
    }

    pub(super) fn doubt(&self, lease_token: Uuid, sent: Instant) {
        self.in_doubt.lock().push((lease_token, sent));
    }
}

pub(super) struct UnderWay<'a>(&'a AtomicUsize);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Releases what was claimed by claims whose answer was lost: their callers were told that the database is away.
pub(in crate::worker) fn resolve<C: Backend, A>(shared: &Shared<C, A>) {
    let doubts = std::mem::take(&mut *shared.choosing.in_doubt.lock());
    for (lease_token, sent) in doubts {
        match release(shared, lease_token) {
            Ok(0) => {}
            Ok(jobs) => log::info!("released {jobs} jobs of a claim whose answer was lost"),
            Err(_) if sent.elapsed() < LONGEST_DOUBT => shared.choosing.doubt(lease_token, sent),
            Err(_) => {}
        }
    }
}

fn release<C: Backend, A>(shared: &Shared<C, A>, lease_token: Uuid) -> Result<usize, Failure> {
    let rows = briefly(shared, |conn| conn.find_claimed(&shared.schema, lease_token))?;
    let mut fences: Vec<Fence> = rows
        .iter()
        .map(|row| Fence {
            id: row.id,
            generation: row.generation,
            lease_token,
        })
        .collect();
    if fences.is_empty() {
        return Ok(0);
    }
    fences.sort_unstable();
    briefly(shared, |conn| conn.release(&shared.schema, &fences)).map(|released| released.len())
}
