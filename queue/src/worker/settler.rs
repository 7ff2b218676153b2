//! The settler: writes what becomes of jobs after their handlers, completions of many in one statement.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;

use super::Shared;
use super::control::{Control, Failure};
use super::executor::ToSettle;
use super::pace::BATCH;
use super::selected::Settled;
use crate::backend::Backend;
use crate::lease::{Fence, Held};
use crate::settle::{self, Settlement, Written};

/// How often a settlement is tried that the server refuses.
const MAX_REFUSALS: u32 = 5;
/// How long a settlement is tried at least while the database is away.
const LEAST_PATIENCE: Duration = Duration::from_secs(30);

/// Settles until every worker thread is gone.
pub(crate) fn run<C: Backend, A: Send + Sync + 'static>(
    shared: &Shared<C, A>,
    mut control: Control<C>,
    arrivals: &Receiver<ToSettle>,
) {
    while let Ok(first) = arrivals.recv() {
        gather(shared, arrivals);
        // What has gathered while the last batch was written is written together: no delay when idle, large batches
        // under load.
        let gathered = std::iter::once(first).chain(arrivals.try_iter().take(BATCH - 1));
        let (finished, others): (Vec<_>, Vec<_>) = gathered.partition(|done| done.settlement == Settlement::Finish);
        finish(shared, &mut control, &finished);
        others
            .iter()
            .for_each(|done| settle_and_tell(shared, &mut control, done));
        // The claimer may have waited for it.
        shared.line.tell();
    }
}

/// While jobs lie in line there is more to come in a moment: else the first to end would have a statement of its own, and
/// the others would wait for that one.
fn gather<C: Backend, A: Send + Sync + 'static>(shared: &Shared<C, A>, arrivals: &Receiver<ToSettle>) {
    const STEP: Duration = Duration::from_micros(100);
    const STEPS: usize = 10;
    for _ in 0..STEPS {
        if shared.line.len() == 0 || arrivals.len() >= BATCH {
            return;
        }
        std::thread::sleep(STEP);
    }
}

fn settle_and_tell<C: Backend, A: Send + Sync + 'static>(
    shared: &Shared<C, A>,
    control: &mut Control<C>,
    done: &ToSettle,
) {
    let settled = settle_one(shared, control, &done.held, &done.settlement);
    tell(done, settled);
}

fn tell(done: &ToSettle, settled: Settled) {
    if let Some(told) = &done.told {
        let _ = told.send(settled);
    }
}

/// Completes a batch. The jobs that were not ours are told one by one.
fn finish<C: Backend, A: Send + Sync + 'static>(shared: &Shared<C, A>, control: &mut Control<C>, batch: &[ToSettle]) {
    if batch.is_empty() {
        return;
    }
    let mut fences: Vec<Fence> = batch.iter().map(|done| done.held.fence).collect();
    fences.sort_unstable();
    match control.run(|conn| conn.finish(&shared.schema, &fences)) {
        Ok(finished) => {
            let finished: std::collections::HashSet<i64> = finished.into_iter().collect();
            for done in batch {
                let held = &done.held;
                if finished.contains(&held.fence.id) {
                    held.mark_committed();
                    Settlement::Finish.report(held, &shared.reporter);
                    shared.settled(held);
                    tell(done, Settled::Completed);
                } else {
                    settle_and_tell(shared, control, done);
                }
            }
        }
        // The batch failed, or its answer was lost: one by one, so that one bad row cannot fail its neighbours, and what
        // was written already is recognised.
        Err(_) => batch.iter().for_each(|done| settle_and_tell(shared, control, done)),
    }
}

/// Settles one job: until it is written or refused, or until its lease has run out and decides.
pub(crate) fn settle_one<C: Backend, A: Send + Sync + 'static>(
    shared: &Shared<C, A>,
    control: &mut Control<C>,
    held: &Arc<Held>,
    settlement: &Settlement,
) -> Settled {
    let settled = write_one(shared, control, held, settlement);
    shared.settled(held);
    settled
}

fn write_one<C: Backend, A: Send + Sync + 'static>(
    shared: &Shared<C, A>,
    control: &mut Control<C>,
    held: &Arc<Held>,
    settlement: &Settlement,
) -> Settled {
    let mut settlement = settlement.clone();
    let give_up_at = Instant::now() + held.lease.max(LEAST_PATIENCE);
    let mut tried = 0;
    loop {
        tried += 1;
        let written = control.run(|conn| {
            if settlement.write(conn, &shared.schema, held)? {
                return Ok(Ok(Written::ByUs));
            }
            settle::diagnose(conn, &shared.schema, held, &settlement)
        });
        match written {
            Ok(Ok(Written::ByTheCommit)) => return Settled::Completed,
            Ok(Ok(Written::ByUs)) => {
                settlement.report(held, &shared.reporter);
                shared.more_may_be_due(&settlement);
                return Settled::by(&settlement);
            }
            Ok(Err(refusal)) => {
                held.mark_lost(refusal.clone());
                shared.reporter.lost(&held.info(), &refusal);
                return Settled::Lost(refusal);
            }
            // A lock that lasts too long or a busy database may pass; what the server refuses each time does not.
            Err(Failure::Refused(error)) if tried >= MAX_REFUSALS => {
                log::error!("not settled {}: {error}; its lease decides", held.info());
                return Settled::Unknown;
            }
            Err(Failure::Away) if Instant::now() >= give_up_at => {
                log::error!(
                    "not settled {}: the database was away until its lease ran out, which decides",
                    held.info()
                );
                return Settled::Unknown;
            }
            Err(failure) => {
                if matches!(failure, Failure::Refused(_)) {
                    settlement.spell_in_ascii();
                }
                std::thread::sleep(control.next_wait());
            }
        }
    }
}
