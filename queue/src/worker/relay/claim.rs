//! Where a relay's events come from.
//!
//! A look without any lock finds what is due: the first event of each key, from key to key in the index, so that a long
//! backlog behind one key costs others nothing. What looks due is then claimed in a transaction that has the topic's lock
//! from its first statement on and looks again. The lock is what keeps the order with several relays: one of them could else
//! skip the first events of a key, which another one has locked, and take those that follow.

use std::time::{Duration, Instant};

use uuid::Uuid;

use super::super::Shared;
use super::super::control::Failure;
use super::{Kept, Topic, briefly};
use crate::backend::{Backend, EventClaim, EventRow, KeyLook, SweptEvent};
use crate::outbox::EventInfo;
use crate::settle::millis;
use crate::transaction::atomically;

/// Keys in one look.
pub(super) const KEYS: i64 = 256;
/// Events of one key in one claim.
const RUN: i64 = 20;
/// Expired leases in one sweep.
const SWEEP_LIMIT: i64 = 500;
/// A look that found nothing and has not come to the end is followed by a pause so many times as long.
const PAUSE: u32 = 3;

/// What a claim came to.
pub(super) enum Found {
    /// In the order of their ids; `sent` is when the claim was.
    Claimed { kept: Vec<Kept>, sent: Instant },
    /// Another relay claims from the topic.
    Busy,
    /// What was seen is taken, or somebody has it locked.
    Gone,
    /// Nothing so far; there are more keys to look at after this time.
    Further(Duration),
    /// Nothing is due before this time.
    Nothing(Option<Duration>),
}

pub(super) struct Claims<'a, C: Backend, A> {
    shared: &'a Shared<C, A>,
    topic: &'a Topic,
    /// The key that was looked at last; empty before the first.
    cursor: String,
    /// Milliseconds until the first of the keys is due that this walk has seen.
    next_ms: Option<i64>,
    /// A claim whose answer was lost: its token, and when it was sent.
    in_doubt: Option<(Uuid, Instant)>,
}

/// What a look found that can be claimed.
struct Due {
    keys: Vec<String>,
    unkeyed: i64,
    /// Alone, then.
    suspect: bool,
}

impl<'a, C: Backend, A: Send + Sync + 'static> Claims<'a, C, A> {
    pub(super) fn new(shared: &'a Shared<C, A>, topic: &'a Topic) -> Self {
        Self {
            shared,
            topic,
            cursor: String::new(),
            next_ms: None,
            in_doubt: None,
        }
    }

    /// Claims what is due, if anything is.
    pub(super) fn next(&mut self) -> Result<Found, Failure> {
        if let Some(found) = self.find_claimed()? {
            return Ok(found);
        }
        let (shared, name) = (self.shared, &self.topic.name);
        let begun = Instant::now();
        let mut look = shared
            .outbox
            .lock()
            .read(|conn| conn.look_at_topic(&shared.schema, name))?;
        if look.lease_ms == Some(0) {
            self.sweep()?;
            look = shared
                .outbox
                .lock()
                .read(|conn| conn.look_at_topic(&shared.schema, name))?;
        }
        let halt = self.topic.relay.halt;
        let after = std::mem::take(&mut self.cursor);
        let keys = shared
            .outbox
            .lock()
            .read(|conn| conn.look_at_keys(&shared.schema, name, &after, KEYS, halt))?;
        let is_end = i64::try_from(keys.len()) != Ok(KEYS);
        if after.is_empty() {
            self.next_ms = None;
        }
        self.next_ms = earlier(self.next_ms, keys.iter().filter_map(|key| key.next_ms).min());
        if !is_end {
            self.cursor = keys.last().map(|key| key.key.clone()).unwrap_or_default();
        }
        if let Some(due) = self.due(&keys, look.next_ms == Some(0), look.suspect) {
            return self.claim(&due);
        }
        let is_whole = is_end && after.is_empty();
        Ok(match (is_end, is_whole) {
            (_, true) => {
                let next = [self.next_ms, look.next_ms, look.lease_ms];
                let next = next.into_iter().flatten().min();
                // A millisecond more: what is due in a part of one was rounded down somewhere.
                Found::Nothing(next.map(|ms| Duration::from_millis(ms.unsigned_abs() + 1)))
            }
            (true, false) => Found::Further(Duration::ZERO),
            (false, _) => Found::Further(begun.elapsed() * PAUSE),
        })
    }

    /// A suspect one first, and alone: whatever ends its relay then was it.
    fn due(&mut self, keys: &[KeyLook], unkeyed: bool, suspect: bool) -> Option<Due> {
        let is_due = |key: &&KeyLook| key.next_ms == Some(0);
        if let Some(key) = keys.iter().filter(is_due).find(|key| key.suspect) {
            return Some(Due {
                keys: vec![key.key.clone()],
                unkeyed: 0,
                suspect: true,
            });
        }
        if suspect {
            return Some(Due {
                keys: Vec::new(),
                unkeyed: 1,
                suspect: true,
            });
        }
        let batch = self.topic.relay.batch;
        let keys: Vec<String> = keys
            .iter()
            .filter(is_due)
            .take(batch)
            .map(|key| key.key.clone())
            .collect();
        if keys.is_empty() && !unkeyed {
            return None;
        }
        if keys.len() == batch {
            // The walk goes on after those that are taken.
            self.cursor = keys.last().cloned().unwrap_or_default();
        }
        let unkeyed = if unkeyed {
            i64::try_from(batch).unwrap_or(i64::MAX)
        } else {
            0
        };
        Some(Due {
            keys,
            unkeyed,
            suspect: false,
        })
    }

    fn claim(&mut self, due: &Due) -> Result<Found, Failure> {
        let (shared, topic) = (self.shared, self.topic);
        let batch = i64::try_from(topic.relay.batch).unwrap_or(i64::MAX);
        // From the operating system's random source, for this call: nothing that a database could give out again.
        let lease_token = Uuid::new_v4();
        let claim = EventClaim {
            topic: &topic.name,
            keys: &due.keys,
            run: if due.suspect { 1 } else { RUN },
            unkeyed: due.unkeyed,
            limit: if due.suspect { 1 } else { batch },
            suspect: due.suspect,
            halt: topic.relay.halt,
            lease_token,
            lease_ms: millis(topic.relay.lease),
        };
        let sent = Instant::now();
        let claimed = briefly(shared, |conn| {
            atomically(conn, |conn| match conn.try_lock_topic(&shared.schema, &topic.name)? {
                // A statement of its own, so that its snapshot is taken after the lock.
                true => conn.claim_events(&shared.schema, &claim).map(Some),
                false => Ok(None),
            })
        });
        if matches!(claimed, Err(Failure::Away)) {
            self.in_doubt = Some((lease_token, sent));
        }
        Ok(claimed?.map_or(Found::Busy, |rows| take(rows, lease_token, sent)))
    }

    /// Looks for the events of a claim whose answer was lost. What is left of their
    /// lease is counted from when the claim was sent, so they are as good as if it had come.
    fn find_claimed(&mut self) -> Result<Option<Found>, Failure> {
        let Some((token, sent)) = self.in_doubt else {
            return Ok(None);
        };
        let (shared, name) = (self.shared, &self.topic.name);
        let rows = shared
            .outbox
            .lock()
            .read(|conn| conn.find_claimed_events(&shared.schema, name, token))?;
        self.in_doubt = None;
        if rows.is_empty() {
            return Ok(None);
        }
        log::info!(
            "relay topic={name:?}: found {} events of a claim whose answer was lost",
            rows.len()
        );
        Ok(Some(take(rows, token, sent)))
    }

    /// Takes back what relays left that are gone.
    fn sweep(&self) -> Result<(), Failure> {
        let (shared, name) = (self.shared, &self.topic.name);
        let swept = briefly(shared, |conn| conn.sweep_events(&shared.schema, name, SWEEP_LIMIT))?;
        for row in &swept {
            let event = info(name, row);
            if row.state == "dead" {
                shared.reporter.dead(&event, "the lease ran out during its delivery");
            } else {
                log::warn!("swept {event}: its relay's lease ran out");
            }
        }
        Ok(())
    }
}

fn info<'a>(topic: &'a str, row: &'a SweptEvent) -> EventInfo<'a> {
    EventInfo {
        event_id: row.event_id.parse().unwrap_or_default(),
        topic,
        key: row.key.as_deref(),
        attempt: row.attempt.unsigned_abs(),
        generation: row.generation,
    }
}

fn take(rows: Vec<EventRow>, lease_token: Uuid, sent: Instant) -> Found {
    if rows.is_empty() {
        return Found::Gone;
    }
    let mut kept: Vec<Kept> = rows.into_iter().map(|row| Kept::new(row, lease_token)).collect();
    kept.sort_unstable_by_key(|kept| kept.fence.id);
    Found::Claimed { kept, sent }
}

fn earlier(one: Option<i64>, other: Option<i64>) -> Option<i64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
