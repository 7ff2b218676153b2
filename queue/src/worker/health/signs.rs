//! What the threads of a worker say of themselves.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::{Health, HealthLimits, Problem};

/// What is known of a worker beside its threads.
pub(in crate::worker) struct Facts {
    pub(in crate::worker) stopping: bool,
    pub(in crate::worker) stuck_handlers: usize,
    pub(in crate::worker) threads: usize,
    pub(in crate::worker) not_renewed: usize,
}

/// What the threads of one worker say of themselves.
#[derive(Debug, Default)]
pub(crate) struct Signs {
    pulses: Mutex<Vec<Arc<Pulse>>>,
    /// Since when the database has been away, as far as any of them knows.
    away: Mutex<Option<Instant>>,
}

/// One thread's.
#[derive(Debug)]
pub(crate) struct Pulse {
    thread: String,
    signs: Arc<Signs>,
    state: Mutex<Standing>,
}

#[derive(Debug, Clone, Copy)]
enum Standing {
    Rests,
    At(Doing, Instant),
    Died,
}

/// What may take long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    Statement,
    Hook,
    Waiting,
}

thread_local! {
    static PULSE: RefCell<Option<Arc<Pulse>>> = const { RefCell::new(None) };
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Signs {
    /// A thread is about to be started.
    pub(in crate::worker) fn enlist(self: &Arc<Self>, thread: &str) -> Arc<Pulse> {
        let pulse = Arc::new(Pulse {
            thread: thread.to_owned(),
            signs: Arc::clone(self),
            state: Mutex::new(Standing::Rests),
        });
        lock(&self.pulses).push(Arc::clone(&pulse));
        pulse
    }

    pub(in crate::worker) fn health(&self, limits: &HealthLimits, facts: &Facts) -> Health {
        let mut problems: Vec<Problem> = facts.stopping.then_some(Problem::Stopping).into_iter().collect();
        let mut silent = None;
        for pulse in &*lock(&self.pulses) {
            let thread = || pulse.thread.clone();
            match *lock(&pulse.state) {
                Standing::Rests => {}
                Standing::Died => problems.push(Problem::ThreadDied { thread: thread() }),
                Standing::At(doing, begun) => {
                    let since = begun.elapsed();
                    if since >= limits.thread {
                        problems.push(Problem::ThreadStuck {
                            thread: thread(),
                            since,
                        });
                    }
                    if doing == Doing::Statement && since >= limits.database {
                        silent = silent.max(Some(since));
                    }
                }
            }
        }
        let limit = limits.stuck_handlers.unwrap_or(facts.threads);
        if facts.stuck_handlers >= limit {
            let handlers = facts.stuck_handlers;
            problems.push(Problem::HandlersStuck { handlers, limit });
        }
        let away = lock(&self.away).map(|since| since.elapsed());
        if let Some(since) = away.filter(|since| *since >= limits.database) {
            problems.push(Problem::DatabaseAway { since });
        }
        problems.extend(silent.map(|since| Problem::DatabaseSilent { since }));
        if facts.not_renewed > 0 {
            let leases = facts.not_renewed;
            problems.push(Problem::LeasesNotRenewed { leases });
        }
        Health { problems }
    }
}

/// Makes a thread known as this pulse's, until it ends.
pub(in crate::worker) fn attach(pulse: Arc<Pulse>) -> impl Drop {
    struct Attached(Arc<Pulse>);
    impl Drop for Attached {
        fn drop(&mut self) {
            if std::thread::panicking() {
                *lock(&self.0.state) = Standing::Died;
            }
        }
    }
    PULSE.set(Some(Arc::clone(&pulse)));
    Attached(pulse)
}

fn with_pulse(tell: impl FnOnce(&Pulse)) {
    // A thread that ends has none any more.
    let _ = PULSE.try_with(|pulse| pulse.borrow().as_deref().map(tell));
}

/// Runs something that may take long, on a thread of the runtime or on another.
pub(crate) fn during<T>(doing: Doing, work: impl FnOnce() -> T) -> T {
    // What is inside of something else belongs to that.
    let mut outermost = false;
    with_pulse(|pulse| {
        let mut state = lock(&pulse.state);
        outermost = matches!(*state, Standing::Rests);
        if outermost {
            *state = Standing::At(doing, Instant::now());
        }
    });
    let done = work();
    if outermost {
        with_pulse(|pulse| *lock(&pulse.state) = Standing::Rests);
    }
    done
}

/// The database has answered this thread of the runtime, or was away.
pub(crate) fn answered(answered: bool) {
    with_pulse(|pulse| {
        let mut away = lock(&pulse.signs.away);
        *away = match answered {
            true => None,
            false => away.or_else(|| Some(Instant::now())),
        };
    });
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::{Doing, Facts, Signs, answered, attach, during};
    use crate::{HealthLimits, Problem};

    const FACTS: Facts = Facts {
        stopping: false,
        stuck_handlers: 0,
        threads: 2,
        not_renewed: 0,
    };

    #[test]
    fn a_thread_that_panics_takes_the_life_and_one_that_ends_does_not() {
        let signs = Arc::new(Signs::default());
        let run = |name: &str, work: fn()| {
            let pulse = signs.enlist(name);
            let run = move || {
                let _attached = attach(pulse);
                work();
            };
            std::thread::spawn(run).join()
        };
        assert!(run("settler", || {}).is_ok());
        assert!(signs.health(&HealthLimits::default(), &FACTS).is_ready());
        assert!(run("claimer", || panic!("on purpose")).is_err());
        let health = signs.health(&HealthLimits::default(), &FACTS);
        let thread = "claimer".to_owned();
        assert_eq!(health.problems(), [Problem::ThreadDied { thread }]);
        assert!(!health.is_live());
        assert_eq!(health.to_string(), "the thread claimer has panicked");
    }

    #[test]
    fn what_takes_long_is_told_while_it_lasts() {
        let signs = Arc::new(Signs::default());
        let _attached = attach(signs.enlist("heartbeat"));
        let at_once = HealthLimits::default().database(Duration::ZERO).thread(Duration::ZERO);
        let names = |limits: &HealthLimits| -> Vec<&str> {
            let health = signs.health(limits, &FACTS);
            health.problems().iter().map(Problem::name).collect()
        };
        assert!(names(&at_once).is_empty());
        during(Doing::Statement, || {
            assert_eq!(names(&at_once), ["thread_stuck", "database_silent"]);
            // What is inside belongs to it.
            during(Doing::Waiting, || {});
            assert_eq!(names(&at_once), ["thread_stuck", "database_silent"]);
            assert!(names(&HealthLimits::default()).is_empty());
        });
        during(Doing::Hook, || assert_eq!(names(&at_once), ["thread_stuck"]));
        answered(false);
        assert_eq!(names(&at_once), ["database_away"]);
        assert!(names(&HealthLimits::default()).is_empty(), "it may be back in a moment");
        answered(true);
        assert!(names(&at_once).is_empty());
    }

    #[test]
    fn what_can_pass_leaves_the_life() {
        let signs = Arc::new(Signs::default());
        let told = |facts: &Facts| {
            let health = signs.health(&HealthLimits::default(), facts);
            let names: Vec<&str> = health.problems().iter().map(Problem::name).collect();
            (names.join(" "), health.is_live(), health.is_ready())
        };
        let stopping = Facts {
            stopping: true,
            ..FACTS
        };
        assert_eq!(told(&stopping), ("stopping".to_owned(), true, false));
        let not_renewed = Facts {
            not_renewed: 3,
            ..FACTS
        };
        assert_eq!(told(&not_renewed), ("leases_not_renewed".to_owned(), true, false));
        for (stuck_handlers, expected) in [(1, ""), (2, "handlers_stuck")] {
            let facts = Facts {
                stuck_handlers,
                ..FACTS
            };
            assert_eq!(
                told(&facts),
                (expected.to_owned(), expected.is_empty(), expected.is_empty())
            );
        }
    }
}
