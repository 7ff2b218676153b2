//! Fires the schedules that are due.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::Shared;
use super::control::Failure;
use super::maintenance::briefly;
use crate::backend::Backend;
use crate::schedule::{Batch, ScheduleRevision, fire_batch};

/// Schedules in one transaction.
const LIMIT: i64 = 100;
/// How long one look may take: the heartbeat shares the connection, and the sweep comes after it.
const AT_A_TIME: Duration = Duration::from_secs(1);

/// What maintenance remembers of schedules.
#[derive(Default)]
pub(super) struct Schedules {
    /// Schedules that this program cannot fire, with the revision of which it was said: once is enough.
    said: HashMap<String, i64>,
}

impl Schedules {
    /// Fires what is due; how long until more is.
    pub(super) fn fire<C: Backend, A: Send + Sync + 'static>(&mut self, shared: &Shared<C, A>) -> Option<Duration> {
        let ahead = shared.beats.lock().read(|conn| conn.fires_ahead(&shared.schema)).ok()?;
        if !ahead.is_due {
            return ahead.next_ms.map(|ms| Duration::from_millis(ms.unsigned_abs()));
        }
        if self.fire_all(shared) {
            // More is due, and the others have waited long enough.
            return Some(shared.sweep_every / 10);
        }
        let ahead = shared.beats.lock().read(|conn| conn.fires_ahead(&shared.schema)).ok()?;
        ahead.next_ms.map(|ms| Duration::from_millis(ms.unsigned_abs()))
    }

    /// Fires all that is due, by name; whether it stopped before the end. When the database refuses a batch, one schedule
    /// is to blame: it must not keep the others from firing.
    fn fire_all<C: Backend, A: Send + Sync + 'static>(&mut self, shared: &Shared<C, A>) -> bool {
        let (begun, mut after, mut limit) = (Instant::now(), ScheduleRevision::default(), LIMIT);
        let mut more = false;
        loop {
            let mut at = after.clone();
            match briefly(shared, |conn| fire_batch(conn, &shared.schema, &mut at, limit)) {
                Ok(batch) => {
                    more |= batch.more;
                    self.tell(shared, batch);
                }
                Err(Failure::Away) => return false,
                // Nothing could be read.
                Err(Failure::Refused(_)) if at == after => return false,
                Err(Failure::Refused(_)) if limit > 1 => {
                    limit = 1;
                    continue;
                }
                Err(Failure::Refused(error)) => {
                    if self.is_news(&at) {
                        log::error!("cannot fire schedule={:?}: {error}", at.name);
                    }
                }
            }
            if at == after {
                return more;
            }
            after = at;
            if begun.elapsed() > AT_A_TIME {
                return true;
            }
        }
    }

    fn tell<C: Backend, A: Send + Sync + 'static>(&mut self, shared: &Shared<C, A>, batch: Batch) {
        for fired in &batch.fired {
            self.said.remove(fired.info().schedule);
            shared.reporter.fired(&fired.info());
        }
        if !batch.fired.is_empty() {
            crate::wake::wake_local();
        }
        for (schedule, error) in batch.unreadable {
            if self.is_news(&schedule) {
                log::error!("left to a newer program schedule={:?}: {error}", schedule.name);
            }
        }
    }

    fn is_news(&mut self, schedule: &ScheduleRevision) -> bool {
        self.said.insert(schedule.name.clone(), schedule.revision) != Some(schedule.revision)
    }
}
