//! The checker: after jobs of this process have ended, it does what follows from that; see [`crate::follow_up`].
//!
//! At maintenance's interval it also looks at everything, a page at a time, for what other processes left.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, select};
use diesel::result::QueryResult;

use super::Shared;
use super::control::{Failure, spread};
use super::maintenance::briefly;
use crate::backend::Backend;
use crate::follow_up::{Cursor, Ended, Followed, Steps, follow, look_at_all, look_round};
use crate::lease::Held;

/// Between two rounds, so that the ends of many jobs are looked at together.
const GATHER: Duration = Duration::from_millis(2);
/// Until the next look at a batch that somebody else has locked; doubled each time.
const LOCKED_WAIT: Duration = Duration::from_millis(10);
/// How long a look at everything may take in one go.
const LOOK_FOR: Duration = Duration::from_millis(100);
/// After so many statements the heartbeat, which shares the connection, is let in.
const STEPS_IN_A_ROW: u32 = 20;

/// What may follow from jobs that ended in this process.
#[derive(Debug)]
pub(crate) struct FollowUps {
    state: Mutex<State>,
    poke: Sender<()>,
    poked: Receiver<()>,
}

#[derive(Debug, Default)]
struct State {
    ended: Ended,
    all: bool,
    busy: bool,
}

impl FollowUps {
    pub(super) fn new() -> Self {
        let (poke, poked) = bounded(1);
        Self {
            state: Mutex::default(),
            poke,
            poked,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A job is through with, and may have ended.
    pub(super) fn note(&self, held: &Held) {
        if held.batch_id.is_some() || held.awaited {
            self.lock().ended.add(held);
            let _ = self.poke.try_send(());
        }
    }

    /// Jobs ended of which it is not known what may follow.
    pub(super) fn look_at_all(&self) {
        self.lock().all = true;
        let _ = self.poke.try_send(());
    }

    /// Whether nothing is left to look at, and nobody looks at this moment.
    pub(super) fn is_idle(&self) -> bool {
        let state = self.lock();
        !state.busy && !state.all && state.ended.is_empty()
    }

    fn take(&self) -> (Ended, bool) {
        let mut state = self.lock();
        state.busy = true;
        (std::mem::take(&mut state.ended), std::mem::take(&mut state.all))
    }

    fn give_back(&self, ended: Ended, all: bool) {
        let mut state = self.lock();
        state.ended.merge(ended);
        state.all |= all;
        state.busy = false;
    }
}

/// On the heartbeat's connection, step by step.
struct Lent<'a, C: Backend, A> {
    shared: &'a Shared<C, A>,
    steps: u32,
}

impl<C: Backend, A> Steps<C> for Lent<'_, C, A> {
    type Error = Failure;

    fn is_refused(error: &Failure) -> bool {
        matches!(error, Failure::Refused(_))
    }

    fn step<T>(&mut self, work: impl FnOnce(&mut C) -> QueryResult<T>) -> Result<T, Failure> {
        self.steps += 1;
        if self.steps.is_multiple_of(STEPS_IN_A_ROW) {
            std::thread::sleep(Duration::from_millis(1));
        }
        briefly(self.shared, work)
    }
}

/// Does what follows until `stop` closes: at shutdown that is when the last handler has returned.
pub(super) fn run<C: Backend, A: Send + Sync + 'static>(shared: &Shared<C, A>, stop: &Receiver<()>) {
    let (mut cursor, mut look_at, mut again) = (Cursor::default(), Instant::now(), None);
    let mut wait = LOCKED_WAIT;
    loop {
        let look_in = look_at.saturating_duration_since(Instant::now());
        select! {
            recv(stop) -> _ => return,
            recv(shared.follow_ups.poked) -> _ => {}
            default(again.map_or(look_in, |again: Duration| again.min(look_in))) => {}
        }
        again = None;
        if follow_noted(shared) {
            wait = LOCKED_WAIT;
        } else {
            again = Some(spread(wait));
            wait = (wait * 2).min(shared.sweep_every);
        }
        if Instant::now() >= look_at {
            look_pages(shared, &mut cursor);
            look_at = Instant::now() + spread(shared.sweep_every);
        }
        std::thread::sleep(GATHER);
    }
}

/// What follows from the jobs that were noted. False if some of it is left for later.
fn follow_noted<C: Backend, A: Send + Sync + 'static>(shared: &Shared<C, A>) -> bool {
    let (mut ended, all) = shared.follow_ups.take();
    let mut followed = Followed::default();
    let mut steps = Lent { shared, steps: 0 };
    let done = follow(&mut steps, &shared.schema, &mut ended, &mut followed)
        .and_then(|()| match all {
            true => look_at_all(&mut steps, &shared.schema, &mut followed),
            false => Ok(()),
        })
        .is_ok();
    ended.batches.append(&mut followed.locked);
    let through = done && ended.is_empty();
    tell(shared, followed);
    shared.follow_ups.give_back(ended, all && !done);
    through
}

/// The next pages of everything.
fn look_pages<C: Backend, A: Send + Sync + 'static>(shared: &Shared<C, A>, cursor: &mut Cursor) {
    let begun = Instant::now();
    let mut followed = Followed::default();
    let mut steps = Lent { shared, steps: 0 };
    while let Ok(false) = look_round(&mut steps, &shared.schema, cursor, &mut followed) {
        if begun.elapsed() > LOOK_FOR {
            break;
        }
    }
    tell(shared, followed);
}

/// Looks at everything, for a worker that is about to stop because nothing is left; whether something is, after all.
pub(super) fn finds_more<C: Backend, A: Send + Sync + 'static>(shared: &Shared<C, A>) -> bool {
    let mut followed = Followed::default();
    let looked = look_at_all(&mut Lent { shared, steps: 0 }, &shared.schema, &mut followed);
    let changed = followed.changed;
    tell(shared, followed);
    changed || looked.is_err()
}

/// After every thread has ended: what followed from the last jobs.
pub(super) fn follow_last<C: Backend, A: Send + Sync + 'static>(shared: &Shared<C, A>) {
    if !shared.follow_ups.is_idle() {
        follow_noted(shared);
    }
}

fn tell<C: Backend, A>(shared: &Shared<C, A>, followed: Followed) {
    for (row, reason) in &followed.cancelled {
        shared.reporter.cancelled(&row.info(), reason);
    }
    if followed.changed {
        shared.wake();
        crate::wake::wake_local();
        crate::wake::ended();
    }
}
