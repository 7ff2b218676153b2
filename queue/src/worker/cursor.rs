//! Where claims begin to look.
//!
//! What is claimed leaves the claim's index, but its entry is there until a vacuum removes it, and no vacuum can while an
//! old transaction is open. Claims that begin at the front step over all of those entries each time. So a claim begins where
//! the last one ended, and now and then at the front: what comes due behind is found then (a retry, a higher priority, an
//! earlier run time, a transaction that commits late, anything after the server's clock went back). Those looks take a
//! twentieth of the time at the most, however long they are.

use std::time::{Duration, Instant};

use crate::backend::{ClaimedRow, Place, Served};

/// A look at everything is followed by so many times what it cost without one.
const PAUSE: u32 = 20;
/// How often a busy claimer looks at everything at the most.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A look that costs no more is cheap: whoever has a reason for one may have it at once.
const CHEAP: Duration = Duration::from_millis(10);

/// Nothing is left unlooked at for longer.
const LONGEST: Duration = Duration::from_secs(60);

pub(crate) struct Cursor {
    /// For each (queue, kind, version) that is served: what was claimed last.
    places: Vec<Place>,
    /// When everything is looked at again.
    look_at: Instant,
    /// What the last two looks cost over a claim from the places on. The lesser counts: anything may be slow once.
    costs: [Duration; 2],
    /// What a claim from the places on takes.
    ordinary: Duration,
    /// Whether there was nothing from the places on, and what is before them was not looked at since.
    unknown: bool,
}

impl Cursor {
    pub(crate) fn new(serves: &[Served]) -> Self {
        Self {
            places: vec![Place::FRONT; serves.len()],
            look_at: Instant::now(),
            costs: [Duration::ZERO; 2],
            ordinary: Duration::ZERO,
            unknown: false,
        }
    }

    /// Where a claim begins that does not look at everything.
    pub(crate) fn places(&self) -> &[Place] {
        &self.places
    }

    /// Whether it is time to look at everything.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now >= self.look_at
    }

    /// Whether everything may be looked at, if there is a reason.
    pub(crate) fn may_look(&self, now: Instant) -> bool {
        self.cost() < CHEAP || self.is_due(now)
    }

    fn cost(&self) -> Duration {
        self.costs[0].min(self.costs[1])
    }

    /// A claim from the places on has found so many.
    pub(crate) fn found_from_places(&mut self, jobs: usize, took: Duration) {
        self.unknown = jobs == 0;
        self.ordinary = (self.ordinary * 7 + took) / 8;
    }

    /// Everything was looked at.
    pub(crate) fn looked(&mut self, now: Instant, took: Duration) {
        self.unknown = false;
        self.costs = [self.costs[1], took.saturating_sub(self.ordinary)];
        self.rest(now);
    }

    /// The look went on for so long.
    pub(crate) fn looked_further(&mut self, now: Instant, took: Duration) {
        self.costs[1] += took.saturating_sub(self.ordinary);
        self.rest(now);
    }

    fn rest(&mut self, now: Instant) {
        let rest = self.cost().saturating_mul(PAUSE).max(LOOK_EVERY);
        self.look_at = now + rest.min(LONGEST);
    }

    /// How long it is unknown whether there is anything at all; `None` when it is known.
    pub(crate) fn unknown_for(&self, now: Instant) -> Option<Duration> {
        self.unknown.then(|| self.look_at.saturating_duration_since(now))
    }

    /// The next claim begins behind these: further back, too, if that is where a look at everything found them, for there
    /// may be more.
    pub(crate) fn claimed(&mut self, serves: &[Served], rows: &[ClaimedRow]) {
        let mut last: Vec<Option<Place>> = vec![None; serves.len()];
        for row in rows {
            let is_of =
                |served: &Served| served.version == row.version && served.kind == row.kind && served.queue == row.queue;
            if let Some(index) = serves.iter().position(is_of) {
                last[index] = last[index].max(Some(row.place()));
            }
        }
        for (place, last) in self.places.iter_mut().zip(last) {
            *place = last.unwrap_or(*place);
        }
    }
}
