//! Whether anybody here waits to be told of new rows: what a claimer (or a relay) and the listener agree on.
//!
//! A notification costs everybody's commits, so an enqueue sends one only while the *mark* of an idle process is there; see
//! `listener/mark.rs` for how it is read and why none is missed. Here is when this process has its mark:
//!
//! - Whoever rests without one asks for it and sleeps. The listener sets it and wakes him, so he looks once more with it set.
//! - It stays when there is work again, for a worker that is idle a hundred times a second shall not say so each time. After
//!   a second in which nobody rested, it goes.
//! - It goes at once under a flood of notifications, where a look every few milliseconds costs less than they do.

use std::io::{PipeWriter, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::control::spread;

/// How long there must be work without a rest before the mark goes.
const LINGER: Duration = Duration::from_secs(1);
/// So many notifications within so long are a flood: commits with notifications follow one another, so on a slow disk not many
/// more of them fit into that time.
const FLOOD: (usize, Duration) = (25, Duration::from_millis(100));
/// For how long a flood is believed to last.
const FLOOD_LASTS: Duration = Duration::from_secs(1);
/// How often to look during a flood, when few processes are idle.
const FLOOD_LOOK: Duration = Duration::from_millis(2);
/// So many idle processes are few: all of them look at once when they are told.
const FEW: u32 = 4;

/// Shared by the threads that rest and the listener. Without a listener nothing is marked, and rests are as long as asked.
#[derive(Debug)]
pub struct Idle(Mutex<State>);

#[derive(Debug)]
struct State {
    linger: Duration,
    /// Wakes the listener; there is none without one.
    listener: Option<PipeWriter>,
    /// Whether a byte is in that pipe: one is enough, and so it is never full.
    poked: bool,
    standing: Standing,
    /// Threads that rest.
    resting: usize,
    /// When the last of them ended its rest.
    left_at: Instant,
    /// Until when the listener looks by itself at how long nobody has rested: it needs no poke so long.
    watched_until: Option<Instant>,
    /// How many processes had a mark when it was last looked.
    processes: u32,
    /// Notifications since an instant.
    heard: (usize, Instant),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Unmarked,
    Marked,
    Flooded { until: Instant },
}

/// What the listener does next about the mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duty {
    Set,
    Remove,
    /// Nothing, or nothing for so long.
    Wait(Option<Duration>),
}

impl Default for Idle {
    fn default() -> Self {
        Self::lingering(LINGER)
    }
}

impl Idle {
    /// The mark goes after another time than usual; tests want it to come and go.
    #[must_use]
    pub fn lingering(linger: Duration) -> Self {
        let now = Instant::now();
        Self(Mutex::new(State {
            linger,
            listener: None,
            poked: false,
            standing: Standing::Unmarked,
            resting: 0,
            left_at: now,
            watched_until: None,
            processes: 1,
            heard: (0, now),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread has looked, found nothing and is about to rest for `time`: how long it may. Each call is followed by
    /// [`Idle::leave`].
    pub fn enter(&self, time: Duration) -> Duration {
        let mut state = self.state();
        state.resting += 1;
        match state.standing {
            Standing::Marked => time,
            Standing::Flooded { until } if Instant::now() < until => {
                time.min(spread(FLOOD_LOOK * state.processes.div_ceil(FEW).min(50)))
            }
            _ => {
                state.poke();
                time
            }
        }
    }

    /// Its rest is over.
    pub fn leave(&self) {
        let mut state = self.state();
        state.resting = state.resting.saturating_sub(1);
        state.left_at = Instant::now();
        if state.resting == 0 && state.standing == Standing::Marked && state.watched_until.is_none() {
            state.poke();
        }
    }

    /// A listener begins, and is woken by `pipe`.
    pub fn attach(&self, pipe: PipeWriter) {
        self.state().listener = Some(pipe);
    }

    /// The listener has emptied its pipe, or looks anyway.
    pub fn duty(&self) -> Duty {
        let mut state = self.state();
        let now = Instant::now();
        state.poked = false;
        match state.standing {
            Standing::Flooded { until } if now < until => Duty::Wait(None),
            Standing::Unmarked | Standing::Flooded { .. } => {
                state.standing = Standing::Unmarked;
                match state.resting {
                    0 => Duty::Wait(None),
                    _ => Duty::Set,
                }
            }
            Standing::Marked if state.resting == 0 && now >= state.left_at + state.linger => {
                state.standing = Standing::Unmarked;
                Duty::Remove
            }
            Standing::Marked => {
                if state.resting == 0 {
                    state.watched_until = Some(state.left_at + state.linger);
                } else if state.watched_until.is_some_and(|until| until <= now) {
                    state.watched_until = None;
                }
                Duty::Wait(state.watched_until.map(|until| until - now))
            }
        }
    }

    /// The mark is set, one of so many processes'. Whoever rests must be woken now, for its last look was without it.
    pub fn marked(&self, processes: u32) {
        let mut state = self.state();
        state.standing = Standing::Marked;
        state.watched_until = None;
        state.processes = processes.max(1);
    }

    /// The mark went with the session that had it.
    pub fn unmarked(&self) {
        self.state().standing = Standing::Unmarked;
    }

    /// So many notifications came. Whether they are a flood, so that the mark has to go and whoever rests is to be woken.
    pub fn is_flooded(&self, notifications: usize) -> bool {
        let mut state = self.state();
        if state.heard.1.elapsed() > FLOOD.1 {
            state.heard = (0, Instant::now());
        }
        state.heard.0 += notifications;
        let flooded = state.heard.0 >= FLOOD.0 && state.standing == Standing::Marked;
        if flooded {
            let until = Instant::now() + FLOOD_LASTS;
            state.standing = Standing::Flooded { until };
        }
        flooded
    }

    /// How long to wait before waking anybody after a notification: a few of many idle processes do not, and the others are
    /// spread at random, so that not all of them claim in the same millisecond for one job.
    pub fn wait_before_waking(&self) -> Duration {
        let processes = self.state().processes;
        // One and a half times as many: that by chance none looks at once is one case in four hundred.
        if processes <= FEW || fastrand::u32(..processes * 2) < FEW * 3 {
            return Duration::ZERO;
        }
        Duration::from_micros(fastrand::u64(..u64::from(processes.min(100)) * 500))
    }
}

impl State {
    fn poke(&mut self) {
        if self.poked {
            return;
        }
        if let Some(pipe) = &mut self.listener {
            // A pipe that nobody reads any more belongs to a worker that stops.
            self.poked = pipe.write_all(b"!").is_ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Duty, FEW, FLOOD, Idle};

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn the_mark_is_set_for_who_rests_and_stays_while_there_are_rests() {
        let idle = Idle::lingering(Duration::from_millis(1));
        assert_eq!(idle.duty(), Duty::Wait(None));
        assert_eq!(idle.enter(HOUR), HOUR);
        assert_eq!(idle.duty(), Duty::Set);
        idle.marked(1);
        assert_eq!(idle.duty(), Duty::Wait(None));
        idle.leave();
        idle.enter(HOUR);
        assert_eq!(idle.duty(), Duty::Wait(None));
        idle.leave();
        let left = Instant::now();
        while left.elapsed() < Duration::from_millis(2) {
            std::thread::yield_now();
        }
        assert_eq!(idle.duty(), Duty::Remove);
        assert_eq!(idle.duty(), Duty::Wait(None));
        idle.enter(HOUR);
        assert_eq!(idle.duty(), Duty::Set);
    }

    #[test]
    fn with_one_rest_of_many_threads_the_process_is_idle() {
        let idle = Idle::lingering(Duration::ZERO);
        idle.enter(HOUR);
        idle.enter(HOUR);
        idle.leave();
        assert_eq!(idle.duty(), Duty::Set);
        idle.marked(1);
        assert_eq!(idle.duty(), Duty::Wait(None));
        idle.leave();
        assert_eq!(idle.duty(), Duty::Remove);
    }

    #[test]
    fn a_flood_ends_the_mark_and_shortens_the_rests() {
        let idle = Idle::default();
        idle.enter(HOUR);
        idle.marked(1);
        assert!(!idle.is_flooded(1));
        idle.leave();
        assert!(idle.is_flooded(FLOOD.0));
        assert!(!idle.is_flooded(FLOOD.0), "once is enough");
        assert!(idle.enter(HOUR) < Duration::from_millis(3));
        assert_eq!(idle.duty(), Duty::Wait(None));
    }

    #[test]
    fn a_few_idle_processes_are_woken_at_once_and_of_many_about_six() {
        let idle = Idle::default();
        idle.marked(FEW);
        assert!((0..100).all(|_| idle.wait_before_waking().is_zero()));
        idle.marked(32);
        let waits: Vec<Duration> = (0..10_000).map(|_| idle.wait_before_waking()).collect();
        let at_once = waits.iter().filter(|wait| wait.is_zero()).count();
        assert!(
            (1_500..2_300).contains(&at_once),
            "{at_once} of 10,000, where 6 of 32 are meant"
        );
        assert!(waits.iter().all(|wait| *wait < Duration::from_millis(16)));
    }
}
