//! When this process admits jobs that wait for a limit.
//!
//! What has just made room is known by its key and looked at before the next claim. Everything else (jobs enqueued by
//! others, room made by others, a rate's period that ends) is found by a *walk* over the keys with blocked jobs, a few
//! hundred at a step. Under load the walk takes a tenth of the time at the most, so any number of blocked jobs and keys
//! leaves the claims of others alone.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use diesel::result::QueryResult;

use super::Locked;
use super::control::{Control, Failure, spread};
use crate::admit::{self, Admission, KEYS};
use crate::backend::{Backend, Keys, KindLimit};
use crate::schema::Schema;

/// How often a busy claimer looks whether anything is blocked.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long to wait while another process admits.
const BUSY_WAIT: Duration = Duration::from_millis(10);
/// A step of the walk is followed by a pause so many times as long.
const PAUSE: u32 = 9;

pub(crate) struct Admitter {
    /// Of every kind that is served, in the order of their names.
    limits: Vec<KindLimit>,
    /// Whether any of them is one.
    limited: bool,
    look_every: Duration,
    freed: Locked<BTreeSet<(String, String)>>,
    walk: Locked<Walk>,
}

/// How far the walk has come, and when it goes on.
struct Walk {
    /// The kind and key that were looked at last; `None` between two walks.
    cursor: Option<(String, String)>,
    /// When the pause after the last step ends.
    rested_at: Instant,
    /// When the next walk begins though nothing is known that asks for it.
    look_at: Instant,
    /// When there is something to do for certain.
    wake_at: Option<Instant>,
    /// When a rate has room for one more, as the last whole walk saw it, and as this one has seen it so far.
    room_at: Option<Instant>,
    seen_room_at: Option<Instant>,
}

/// What one transaction found.
#[derive(Default)]
struct Step {
    admitted: usize,
    more: bool,
    /// Of the keys that were freed.
    freed_next_ms: Option<i64>,
    /// Of those walked over.
    walked_next_ms: Option<i64>,
    cursor: Option<(String, String)>,
}

impl Admitter {
    pub(super) fn new(limits: Vec<KindLimit>, poll: Duration) -> Self {
        let limited = limits.iter().any(|limit| limit.max.is_some() || limit.rate.is_some());
        let now = Instant::now();
        Self {
            limits,
            limited,
            look_every: if limited { poll.min(LOOK_EVERY) } else { poll },
            freed: Locked::new(BTreeSet::new()),
            walk: Locked::new(Walk {
                cursor: None,
                rested_at: now,
                look_at: now,
                wake_at: None,
                room_at: None,
                seen_room_at: None,
            }),
        }
    }

    /// A job with this key has made room.
    pub(super) fn free(&self, kind: &str, key: &str) {
        self.freed.lock().insert((kind.to_owned(), key.to_owned()));
    }

    /// Something may have been enqueued, or have made room.
    pub(super) fn ask(&self) {
        self.walk.lock().look_at = Instant::now();
    }

    /// The same, where a kind that is served has limits: of another program's limits it is enough to hear with each poll.
    pub(super) fn ask_if_limited(&self) {
        if self.limited {
            self.ask();
        }
    }

    /// When to come back at the latest, if there is a reason to.
    pub(super) fn due_in(&self) -> Option<Duration> {
        let walk = self.walk.lock();
        let on = walk.cursor.is_some().then_some(walk.rested_at);
        let due = [on, walk.wake_at, walk.room_at].into_iter().flatten().min()?;
        Some(due.max(walk.rested_at).saturating_duration_since(Instant::now()))
    }

    /// How long until a rate has room for one more, if that is what jobs wait for.
    pub(super) fn room_in(&self) -> Option<Duration> {
        let room_at = self.walk.lock().room_at?;
        Some(room_at.saturating_duration_since(Instant::now()))
    }

    /// Admits what has become possible, as far as it is known or its turn to be looked at. `wanted`: as many jobs as the
    /// caller can claim; of more the others are told.
    pub(super) fn run<C: Backend>(
        &self,
        control: &mut Control<C>,
        schema: &Schema,
        wanted: usize,
    ) -> Result<(), Failure> {
        let mut walk = self.walk.lock();
        let begun = Instant::now();
        let freed = self.take_freed();
        let walks = walk.is_due(begun);
        if freed.is_empty() && !walks {
            return Ok(());
        }
        let done = self.step(control, schema, wanted, walks.then_some(&walk.cursor), &freed);
        if !matches!(done, Ok(Some(_))) {
            self.freed.lock().extend(freed);
        }
        match done? {
            Some(step) => walk.stepped(&step, walks, begun, self.look_every),
            None => walk.wake_at = Some(Instant::now() + spread(BUSY_WAIT)),
        }
        Ok(())
    }

    /// As many as one transaction looks at.
    fn take_freed(&self) -> BTreeSet<(String, String)> {
        let mut freed = self.freed.lock();
        let mut now = BTreeSet::new();
        while let Some(key) = freed.pop_first() {
            now.insert(key);
            if now.len() == KEYS {
                break;
            }
        }
        now
    }

    /// One transaction; `None` when another process admits. `cursor`: where the walk goes on, if it does.
    fn step<C: Backend>(
        &self,
        control: &mut Control<C>,
        schema: &Schema,
        wanted: usize,
        cursor: Option<&Option<(String, String)>>,
        freed: &BTreeSet<(String, String)>,
    ) -> Result<Option<Step>, Failure> {
        let asked = |limit: &&KindLimit| cursor.is_some() || freed.iter().any(|(kind, _)| *kind == limit.kind);
        let kinds: Vec<&str> = self
            .limits
            .iter()
            .filter(asked)
            .map(|limit| limit.kind.as_str())
            .collect();
        // A plain read: where nothing is blocked, no transaction is begun.
        let blocked = control.read(|conn| conn.blocked_kinds(schema, &kinds))?;
        if blocked.is_empty() {
            return Ok(Some(Step::default()));
        }
        let limits: Vec<&KindLimit> = self
            .limits
            .iter()
            .filter(|limit| blocked.contains(&limit.kind))
            .collect();
        control.run(|conn| {
            admit::alone(conn, schema, |conn| {
                let mut step = Step::default();
                for limit in &limits {
                    step.freed(conn, schema, limit, freed)?;
                }
                if let Some(cursor) = cursor {
                    step.walk(conn, schema, &limits, cursor.as_ref())?;
                }
                if step.admitted > wanted {
                    conn.tell_admitted(schema)?;
                }
                Ok(step)
            })
        })
    }
}

impl Step {
    fn freed<C: Backend>(
        &mut self,
        conn: &mut C,
        schema: &Schema,
        limit: &KindLimit,
        freed: &BTreeSet<(String, String)>,
    ) -> QueryResult<()> {
        let of_kind = freed.iter().filter(|(kind, _)| *kind == limit.kind);
        let keys: Vec<String> = of_kind.map(|(_, key)| key.clone()).collect();
        if keys.is_empty() {
            return Ok(());
        }
        let admission = admit::admit(conn, schema, limit, Keys::These(&keys))?;
        self.freed_next_ms = earlier(self.freed_next_ms, admission.next_ms);
        self.add(&admission);
        Ok(())
    }

    /// From `cursor` on, over so many keys.
    fn walk<C: Backend>(
        &mut self,
        conn: &mut C,
        schema: &Schema,
        limits: &[&KindLimit],
        cursor: Option<&(String, String)>,
    ) -> QueryResult<()> {
        let (from_kind, from_key) = cursor.map_or(("", ""), |(kind, key)| (kind, key));
        let mut left = KEYS;
        for limit in limits.iter().filter(|limit| limit.kind.as_str() >= from_kind) {
            let after = if limit.kind == from_kind { from_key } else { "" };
            let at_most = i64::try_from(left).unwrap_or(i64::MAX);
            let admission = admit::admit(conn, schema, limit, Keys::After(after, at_most))?;
            self.walked_next_ms = earlier(self.walked_next_ms, admission.next_ms);
            self.add(&admission);
            left = left.saturating_sub(admission.looked);
            if left == 0 {
                self.cursor = admission.last_key.map(|key| (limit.kind.clone(), key));
                return Ok(());
            }
        }
        Ok(())
    }

    fn add(&mut self, admission: &Admission) {
        self.admitted += admission.admitted;
        self.more |= admission.more;
    }
}

impl Walk {
    fn is_due(&self, now: Instant) -> bool {
        let asked = [Some(self.look_at), self.wake_at, self.room_at]
            .into_iter()
            .flatten()
            .min();
        now >= self.rested_at && (self.cursor.is_some() || asked.is_some_and(|asked| now >= asked))
    }

    fn stepped(&mut self, step: &Step, walked: bool, begun: Instant, look_every: Duration) {
        let now = Instant::now();
        let at = |ms: i64| now + Duration::from_millis(ms.unsigned_abs());
        self.wake_at = step.more.then(|| now + spread(BUSY_WAIT));
        self.room_at = earlier(self.room_at, step.freed_next_ms.map(at));
        if !walked {
            return;
        }
        self.rested_at = now + now.saturating_duration_since(begun) * PAUSE;
        self.seen_room_at = earlier(self.seen_room_at, step.walked_next_ms.map(at));
        self.cursor.clone_from(&step.cursor);
        if self.cursor.is_none() {
            self.look_at = now + look_every;
            self.room_at = earlier(self.seen_room_at.take(), step.freed_next_ms.map(at));
        }
    }
}

fn earlier<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
