//! Without batching: each worker thread claims and settles on a connection of its own, one job at a time.
//!
//! Nothing is shared between two jobs but the heartbeat, so the price is two commits a job. Long jobs do not notice.

use std::sync::Arc;

use super::Shared;
use super::executor::{self, Claimed, Ends};
use super::settler;
use super::slot::PoolSlot;
use super::source::Source;
use crate::backend::Backend;

/// Runs jobs until the worker stops, or until this thread was replaced.
pub(crate) fn run<C: Backend, A: Send + Sync + 'static>(shared: &Arc<Shared<C, A>>, ends: &Ends) {
    let mut source = Source::new(shared, "worker", ends.wake.clone());
    let mut slot = PoolSlot::new(&shared.pool, &shared.url, &shared.settings, &shared.schema);
    while !shared.stop.is_stopping() {
        for job in next(shared, &mut source) {
            // One wake-up reaches one thread; where there was a job, there may be another.
            shared.wake();
            if let Some(done) = executor::execute(shared, &mut slot, &job) {
                settler::settle_one(shared, source.control(), &done.held, &done.settlement);
            }
            if executor::is_replaced(shared, &job) {
                return;
            }
        }
    }
    // On to the next thread that waits for a wake-up.
    shared.wake();
}

/// A job that was handed over, else one that it claims.
fn next<C: Backend, A: Send + Sync + 'static>(shared: &Shared<C, A>, source: &mut Source<'_, C, A>) -> Vec<Claimed> {
    match shared.choosing.take_handed() {
        Some(job) => vec![job],
        None => source.claim(1, true, true),
    }
}
