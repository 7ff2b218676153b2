//! What became of events is written.

use std::time::Instant;

use super::super::super::control::Failure;
use super::super::{LAST_WORDS, briefly, pause};
use super::{Batch, Kept, Mark};
use crate::backend::{Backend, FailedEvent};
use crate::lease::Fence;
use crate::settle::millis;

impl<C: Backend, A: Send + Sync + 'static> Batch<'_, C, A> {
    /// Writes what became of events. A database that is away is waited for: until it knows what was delivered, nothing else
    /// is worth delivering.
    pub(super) fn flush(&mut self) {
        self.marked_at = None;
        let mut marks = std::mem::take(&mut self.marks);
        if marks.is_empty() {
            return;
        }
        let (mut again, mut stopping_since) = (false, None);
        while let Err(failure) = self.write_all(&mut marks, again) {
            if matches!(failure, Failure::Refused(_)) {
                return self.write_one_by_one(marks, again);
            }
            again = true;
            if !self.shared.stop.is_stopping() {
                let wait = self.shared.outbox.lock().next_wait();
                pause(self.shared, wait);
                continue;
            }
            if stopping_since.get_or_insert_with(Instant::now).elapsed() >= LAST_WORDS {
                log::warn!(
                    "relay topic={:?}: {} events are left to their lease",
                    self.topic.name,
                    marks.len()
                );
                return;
            }
            std::thread::sleep(LAST_WORDS / 100);
        }
    }

    /// When the database refuses a statement for many events, one of them is to blame. It may be a lock that somebody has for
    /// a moment: an event left to its lease would be delivered again, and hold its key until then.
    fn write_one_by_one(&self, mut marks: Vec<(Kept, Mark)>, again: bool) {
        let begun = Instant::now();
        loop {
            let is_last = begun.elapsed() >= LAST_WORDS;
            let mut refused = Vec::new();
            for mark in marks {
                let mut one = vec![mark];
                if let (Err(failure), Some((kept, _))) = (self.write_all(&mut one, again), one.first())
                    && is_last
                {
                    log::error!("not settled {}: {failure}; its lease decides", kept.info(self.topic));
                }
                refused.append(&mut one);
            }
            if is_last || refused.is_empty() {
                return;
            }
            marks = refused;
            std::thread::sleep(LAST_WORDS / 50);
        }
    }

    /// Takes from `marks` what is written. `again`: an answer may have been lost, so what is not found may be written.
    fn write_all(&self, marks: &mut Vec<(Kept, Mark)>, again: bool) -> Result<(), Failure> {
        let schema = &self.shared.schema;
        let delivered = fences(marks, |mark| matches!(mark, Mark::Delivered));
        if !delivered.is_empty() {
            let ours = briefly(self.shared, |conn| conn.delete_delivered(schema, &delivered))?;
            self.written(marks, &delivered, &ours, again);
        }
        let failed = failed(marks);
        if !failed.is_empty() {
            let ours = briefly(self.shared, |conn| conn.fail_events(schema, &failed))?;
            let failed: Vec<Fence> = failed.into_iter().map(|failed| failed.fence).collect();
            self.written(marks, &failed, &ours, again);
        }
        let released = fences(marks, |mark| matches!(mark, Mark::Released));
        if !released.is_empty() {
            let ours = briefly(self.shared, |conn| conn.release_events(schema, &released))?;
            self.written(marks, &released, &ours, again);
        }
        Ok(())
    }

    /// `asked`: what a statement was to write; `ours`: what it wrote.
    fn written(&self, marks: &mut Vec<(Kept, Mark)>, asked: &[Fence], ours: &[i64], again: bool) {
        let reporter = &self.shared.reporter;
        marks.retain(|(kept, mark)| {
            if !asked.contains(&kept.fence) {
                return true;
            }
            let event = kept.info(self.topic);
            match mark {
                _ if !again && !ours.contains(&kept.fence.id) => {
                    log::warn!("lost {event}: what became of it was not written, for its lease ran out");
                }
                Mark::Delivered => reporter.delivered(&event),
                Mark::Failed {
                    delay: Some(delay),
                    error,
                } => reporter.delivery_failed(&event, error, *delay),
                Mark::Failed { delay: None, error } => reporter.dead(&event, error),
                Mark::Released => log::debug!("released {event}"),
            }
            false
        });
    }
}

fn fences(marks: &[(Kept, Mark)], of: impl Fn(&Mark) -> bool) -> Vec<Fence> {
    let mut fences: Vec<Fence> = marks
        .iter()
        .filter(|(_, mark)| of(mark))
        .map(|(kept, _)| kept.fence)
        .collect();
    fences.sort_unstable();
    fences
}

fn failed(marks: &[(Kept, Mark)]) -> Vec<FailedEvent> {
    let failed = marks.iter().filter_map(|(kept, mark)| match mark {
        Mark::Failed { delay, error } => Some(FailedEvent {
            fence: kept.fence,
            delay_ms: delay.map(millis),
            error: error.clone(),
        }),
        _ => None,
    });
    let mut failed: Vec<FailedEvent> = failed.collect();
    failed.sort_unstable_by_key(|failed| failed.fence);
    failed
}
