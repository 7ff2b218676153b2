//! Which faults happen, and when: decided by the seed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::crew::Crew;
use crate::settings::{Kind, Settings};
use crate::site::Site;

/// How often each fault happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// `kill -9` of a worker process.
    pub kills: usize,
    /// `SIGSTOP` of a worker process for longer than a lease, then `SIGCONT`.
    pub stops: usize,
    /// Connections ended by the server.
    pub terminations: usize,
    /// Statements lost, cut or held up on their way.
    pub losses: usize,
    /// Crashes of the server, and kills of one of its processes, which make it recover.
    pub crashes: usize,
    /// Jumps of the server's clock.
    pub jumps: usize,
    /// Worker processes that a job killed.
    pub deaths: usize,
}

/// A site that the faults change while others look at it.
#[derive(Debug)]
pub(crate) struct Shared<S> {
    site: Mutex<S>,
    /// Faults have ended.
    pub(crate) calm: AtomicBool,
    /// The server is down or was until a moment ago.
    pub(crate) down: AtomicBool,
    /// The run is over.
    pub(crate) over: AtomicBool,
}

impl<S: Site> Shared<S> {
    pub(crate) fn new(site: S) -> Self {
        Self {
            site: Mutex::new(site),
            calm: AtomicBool::new(false),
            down: AtomicBool::new(false),
            over: AtomicBool::new(false),
        }
    }

    pub(crate) fn site(&self) -> MutexGuard<'_, S> {
        self.site.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// A connection, as soon as there is one; `None` when the run is over.
    pub(crate) fn connection(&self) -> Option<S::Connection> {
        while !self.is_over() {
            let connected = self.site().connect();
            match connected {
                Ok(conn) => return Some(conn),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
        None
    }
}

impl Counts {
    /// Whether there have been as many as a run of this length should have. A busy machine takes longer for them.
    fn suffice(self, settings: &Settings) -> bool {
        let in_a_minute = |count: usize, least: usize| count as u64 * 60 >= settings.seconds * least as u64;
        let is_sqlite = settings.database == Kind::Sqlite;
        in_a_minute(self.kills, 75)
            && in_a_minute(self.stops, 130)
            && (is_sqlite || in_a_minute(self.terminations, 70))
            && (!settings.crashes || in_a_minute(self.crashes, 15))
    }
}

/// Lets faults happen for as long as the settings say, and until there were enough of them.
pub(crate) fn happen<S: Site>(shared: &Shared<S>, crew: &mut Crew, settings: &Settings, rng: &mut Rng) -> Counts {
    let mut counts = Counts::default();
    let begin = Instant::now();
    let mut next_crash = Instant::now() + Duration::from_secs(1);
    while begin.elapsed() < settings.time() || !counts.suffice(settings) && begin.elapsed() < settings.time() * 5 {
        std::thread::sleep(Duration::from_millis(rng.u64(20..160)));
        counts.deaths += crew.tend(|name, proxy| shared.site().worker_url(name, proxy));
        if settings.crashes && Instant::now() >= next_crash {
            counts.crashes += usize::from(crash(shared, rng));
            next_crash = Instant::now() + Duration::from_millis(rng.u64(1200..3000));
            continue;
        }
        if settings.clock && rng.u32(0..20) == 0 {
            counts.jumps += usize::from(shared.site().jump());
            continue;
        }
        let place = rng.usize(0..crew.places());
        match rng.u32(0..100) {
            0..24 => {
                crew.kill(place, |name, proxy| shared.site().worker_url(name, proxy));
                counts.kills += 1;
            }
            24..68 => {
                let time = Duration::from_millis(rng.u64(1100..2200));
                counts.stops += usize::from(crew.stop(place, time));
            }
            68..86 => counts.terminations += shared.site().terminate(crew.name(place)),
            _ => counts.losses += usize::from(shared.site().lose()),
        }
    }
    crew.go_on();
    shared.site().heal();
    shared.calm.store(true, Ordering::Release);
    counts
}

fn crash<S: Site>(shared: &Shared<S>, rng: &mut Rng) -> bool {
    shared.down.store(true, Ordering::Release);
    let crashed = if rng.bool() {
        shared.site().crash()
    } else {
        shared.site().kill_backend()
    };
    shared.down.store(false, Ordering::Release);
    crashed
}
