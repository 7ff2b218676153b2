//! The deliveries of one claim.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::super::Shared;
use super::{Duty, Topic, briefly};
use crate::backend::{Backend, EventRow};
use crate::lease::Fence;
use crate::outbox::{DeliverError, Delivery, EventInfo, Verdict};
use crate::panics::drop_contained;
use crate::registry::panic_text;
use crate::settle::{millis, storable};

mod write;

/// What is to be written waits for more so long at the most: short deliveries are written many at a time, and of long ones a
/// crash repeats one.
const FLUSH_AFTER: Duration = Duration::from_millis(20);

/// A claimed event.
pub(super) struct Kept {
    pub(super) fence: Fence,
    event_id: Uuid,
    row: EventRow,
}

impl Kept {
    pub(super) fn new(row: EventRow, lease_token: Uuid) -> Self {
        Self {
            fence: Fence {
                id: row.id,
                generation: row.generation,
                lease_token,
            },
            event_id: row.event_id.parse().unwrap_or_default(),
            row,
        }
    }

    fn info<'a>(&'a self, topic: &'a Topic) -> EventInfo<'a> {
        EventInfo {
            event_id: self.event_id,
            topic: &topic.name,
            key: self.row.key.as_deref(),
            attempt: self.row.attempt.unsigned_abs(),
            generation: self.fence.generation,
        }
    }
}

/// What became of an event, still to be written.
enum Mark {
    Delivered,
    Failed {
        delay: Option<Duration>,
        error: String,
    },
    /// Not begun.
    Released,
}

pub(super) struct Batch<'a, C: Backend, A> {
    shared: &'a Shared<C, A>,
    topic: &'a Topic,
    duty: &'a Duty,
    /// When the claim or the last accepted renewal was sent.
    sent: Instant,
    /// When the last renewal was tried.
    asked: Instant,
    marks: Vec<(Kept, Mark)>,
    /// When the first of them was made.
    marked_at: Option<Instant>,
}

impl<'a, C: Backend, A: Send + Sync + 'static> Batch<'a, C, A> {
    pub(super) fn new(shared: &'a Shared<C, A>, topic: &'a Topic, duty: &'a Duty, sent: Instant) -> Self {
        Self {
            shared,
            topic,
            duty,
            sent,
            asked: sent,
            marks: Vec::new(),
            marked_at: None,
        }
    }

    /// One after the other, until the batch is through, the lease is nearly over, or the worker stops.
    pub(super) fn deliver(mut self) {
        while let Some(kept) = self.next() {
            let mark = self.deliver_one(&kept);
            if matches!(mark, Mark::Failed { .. }) {
                self.release(kept.row.key.as_deref());
            }
            self.mark(kept, mark);
            self.duty.delivering.store(false, Ordering::Release);
            let is_late = |at: Instant| at.elapsed() >= FLUSH_AFTER;
            if self.marked_at.is_some_and(is_late) {
                self.flush();
            }
        }
        self.flush();
    }

    /// The next one that may still be delivered.
    fn next(&mut self) -> Option<Kept> {
        if self.shared.stop.is_stopping() {
            self.give_all_back();
            return None;
        }
        let lease = self.topic.relay.lease;
        if self.asked.elapsed() >= lease / 3 {
            self.flush();
            self.renew();
        }
        // The same lock as for whoever stops us, so it is either begun or released.
        let mut rest = self.duty.rest.lock();
        if self.sent.elapsed() >= lease * 2 / 3 {
            if !rest.is_empty() {
                log::warn!(
                    "relay topic={:?}: {} events are left to their lease, which could not be renewed in time",
                    self.topic.name,
                    rest.len()
                );
                rest.clear();
            }
            return None;
        }
        let next = rest.pop_front()?;
        self.duty.delivering.store(true, Ordering::Release);
        Some(next)
    }

    fn deliver_one(&self, kept: &Kept) -> Mark {
        let delivery = Delivery {
            event_id: kept.event_id,
            topic: &self.topic.name,
            row: &kept.row,
        };
        let relay = &self.topic.relay;
        let begun = Instant::now();
        let delivered = catch_unwind(AssertUnwindSafe(|| relay.deliver.deliver(&delivery)));
        let took = begun.elapsed();
        crate::metrics::delivery(&self.topic.name, took);
        if took > relay.lease / 3 {
            log::warn!(
                "slow delivery {} ran={took:?}: bound it below a third of the lease ({:?}), or it may run twice at a time",
                kept.info(self.topic),
                relay.lease
            );
        }
        let error = match delivered {
            Ok(Ok(())) => return Mark::Delivered,
            Ok(Err(error)) => error,
            Err(panic) => {
                let text = panic_text(panic.as_ref());
                drop_contained(panic);
                DeliverError::retry(format!("panicked: {text}"))
            }
        };
        let is_last = kept.row.attempt >= kept.row.max_attempts;
        let delay = match error.verdict {
            Verdict::Dead => None,
            _ if is_last => None,
            Verdict::Retry { after } => {
                Some(after.unwrap_or_else(|| relay.backoff.draw(kept.row.attempt.unsigned_abs())))
            }
        };
        Mark::Failed {
            delay,
            error: storable(&error.to_string()),
        }
    }

    /// The later events of a key come after this one's next try.
    fn release(&mut self, key: Option<&str>) {
        let Some(key) = key else { return };
        let mut rest = self.duty.rest.lock();
        let (later, others): (Vec<Kept>, Vec<Kept>) =
            rest.drain(..).partition(|kept| kept.row.key.as_deref() == Some(key));
        rest.extend(others);
        drop(rest);
        later.into_iter().for_each(|kept| self.mark(kept, Mark::Released));
    }

    fn give_all_back(&mut self) {
        let rest: Vec<Kept> = self.duty.rest.lock().drain(..).collect();
        rest.into_iter().for_each(|kept| self.mark(kept, Mark::Released));
    }

    fn mark(&mut self, kept: Kept, mark: Mark) {
        self.marked_at.get_or_insert_with(Instant::now);
        self.marks.push((kept, mark));
    }

    /// Renews what is not begun. What is not ours any more is not delivered, nor are the later events of its key.
    fn renew(&mut self) {
        let mut fences: Vec<Fence> = self.duty.rest.lock().iter().map(|kept| kept.fence).collect();
        self.asked = Instant::now();
        if fences.is_empty() {
            return;
        }
        fences.sort_unstable();
        let sent = Instant::now();
        let lease_ms = millis(self.topic.relay.lease);
        // Failing is no loss: what was given holds until its end.
        let Ok(renewed) = briefly(self.shared, |conn| {
            conn.renew_events(&self.shared.schema, &fences, lease_ms)
        }) else {
            return;
        };
        self.sent = sent;
        let mut rest = self.duty.rest.lock();
        let (ours, lost): (Vec<Kept>, Vec<Kept>) = rest.drain(..).partition(|kept| renewed.contains(&kept.fence.id));
        rest.extend(ours);
        drop(rest);
        for kept in lost {
            log::warn!("lost {}: another relay has it", kept.info(self.topic));
            self.release(kept.row.key.as_deref());
        }
    }
}
