//! The heartbeat: renews every lease that this process holds, all that are due in one statement.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, select};

use super::executor::{Ends, ToSettle};
use super::{Shared, spawn_executor};
use crate::backend::{Backend, Beat};
use crate::lease::{Fence, Held, Refusal};
use crate::settle;

/// Leases in one statement; each statement commits by itself, so no completion waits long for a heartbeat.
const CHUNK: usize = 500;
/// How long to sleep when no lease is held; a new one wakes the thread.
const IDLE: Duration = Duration::from_secs(60);

/// Renews until `stop` closes: at shutdown that is when the last handler has returned.
pub(crate) fn run<C: Backend, A: Send + Sync + 'static>(shared: &Arc<Shared<C, A>>, ends: &Ends, stop: &Receiver<()>) {
    // Set when somebody has cancelled running jobs: then every lease is asked about, due or not.
    let mut ask = false;
    loop {
        let now = Instant::now();
        // Before it reads them: whatever is added from now on pokes.
        shared.leases.looks_at(None);
        let held = shared.leases.all();
        for late in held
            .iter()
            .filter(|held| held.times_out_in(now) == Some(Duration::ZERO))
        {
            time_out(shared, ends, late);
        }
        let next = held.iter().map(|held| next_look(held, now)).min().unwrap_or(IDLE);
        if !next.is_zero() && !ask {
            shared.leases.looks_at(Some(now + next));
            select! {
                recv(stop) -> _ => return,
                recv(shared.leases.poked()) -> _ => continue,
                recv(shared.cancels.1) -> _ => ask = true,
                default(next) => {}
            }
        }
        // Those due soon come along: fewer statements, and none of them comes late.
        let due = |held: &&Arc<Held>| is_renewed(held) && (ask || held.beat_due_in(Instant::now()) <= held.lease / 6);
        let due: Vec<Arc<Held>> = shared.leases.all().iter().filter(due).map(Arc::clone).collect();
        if beat_all(shared, &due) {
            ask = false;
        } else {
            let wait = shared.beats.lock().next_wait();
            select! {
                recv(stop) -> _ => return,
                default(wait) => {}
            }
        }
    }
}

/// When this lease must be looked at again: for its heartbeat or for its timeout.
fn next_look(held: &Held, now: Instant) -> Duration {
    let beat = if is_renewed(held) { held.beat_due_in(now) } else { IDLE };
    beat.min(held.times_out_in(now).unwrap_or(IDLE))
}

/// Whether there is still something to renew: not after a loss, nor after a commit whose handler has not returned yet.
pub(super) fn is_renewed(held: &Held) -> bool {
    held.lost().is_none() && !held.is_committed()
}

/// Renews in chunks; false while the database is away. Failing is *unknown*, not lost: handlers run on until the lease's
/// local deadline.
fn beat_all<C: Backend, A: Send + Sync + 'static>(shared: &Shared<C, A>, due: &[Arc<Held>]) -> bool {
    for chunk in due.chunks(CHUNK) {
        let mut fences: Vec<Fence> = chunk.iter().map(|held| held.fence).collect();
        fences.sort_unstable();
        if !record_begun(shared, chunk) {
            return false;
        }
        let sent = Instant::now();
        let Ok(beats) = shared.beats.lock().run(|conn| conn.heartbeat(&shared.schema, &fences)) else {
            return false;
        };
        let beats: HashMap<i64, Beat> = beats.into_iter().map(|beat| (beat.id, beat)).collect();
        for held in chunk {
            held.asked(sent);
            match beats.get(&held.fence.id) {
                Some(beat) => accept(held, beat, sent),
                // Settled by ourselves meanwhile, or somebody else's.
                None if shared.leases.contains(&held.fence) => gone(shared, held),
                None => {}
            }
        }
    }
    true
}

/// Records of jobs that were claimed ahead that their handlers have begun: from then on a crash costs them an attempt.
fn record_begun<C: Backend, A: Send + Sync + 'static>(shared: &Shared<C, A>, chunk: &[Arc<Held>]) -> bool {
    let begun: Vec<&Arc<Held>> = chunk.iter().filter(|held| held.is_unrecorded()).collect();
    if begun.is_empty() {
        return true;
    }
    let mut fences: Vec<Fence> = begun.iter().map(|held| held.fence).collect();
    fences.sort_unstable();
    let recorded = shared.beats.lock().run(|conn| conn.begin(&shared.schema, &fences));
    let Ok(recorded) = recorded else { return false };
    begun
        .iter()
        .filter(|held| recorded.contains(&held.fence.id))
        .for_each(|held| held.mark_recorded());
    true
}

fn accept(held: &Held, beat: &Beat, sent: Instant) {
    if beat.renewed {
        held.renewed(sent);
    }
    if beat.cancel_requested && held.request_cancel() {
        log::info!("cancel requested {}", held.info());
    }
}

/// The row is not running under this lease any more. Reading it again says why; a handler that is committing at this
/// moment finds out by itself.
fn gone<C: Backend, A: Send + Sync + 'static>(shared: &Shared<C, A>, held: &Held) {
    let Ok(row) = shared
        .beats
        .lock()
        .read(|conn| conn.ownership(&shared.schema, held.fence.id))
    else {
        return;
    };
    // The generation alone may be another worker's, in a database that was put back.
    let by_ourselves = row
        .as_ref()
        .is_some_and(|row| row.generation == held.fence.generation && row.has_token_of(&held.fence));
    if let Some(refusal) = Refusal::of(&held.fence, row.as_ref()).filter(|_| !by_ourselves) {
        let text = refusal.to_string();
        if held.mark_lost(refusal) {
            log::warn!("lease lost {}: {text}; its handler is told", held.info());
        }
    }
}

/// Fences a handler that ran past its timeout. The thread cannot be stopped, so another takes its place, up to as many
/// as there are threads.
fn time_out<C: Backend, A: Send + Sync + 'static>(shared: &Arc<Shared<C, A>>, ends: &Ends, held: &Arc<Held>) {
    if !held.time_out() {
        return;
    }
    // Not one that lost its lease before, or has committed: there is nothing to settle then, but the thread is stuck.
    if held.mark_lost(Refusal::TimedOut) {
        log::error!("timed out {}: its handler is fenced", held.info());
        let settlement = settle::time_out(held, shared.registry.backoff(&held.kind));
        let _ = ends.settle.send(ToSettle::new(held, settlement));
    }
    if held.is_outside() {
        return;
    }
    if !shared.may_replace_a_thread() {
        log::error!("{} handlers are stuck: no further thread replaces them", shared.threads);
    } else if held.replace() {
        spawn_executor(shared, ends.clone());
    } else {
        shared.stuck.fetch_sub(1, Ordering::AcqRel);
    }
}
