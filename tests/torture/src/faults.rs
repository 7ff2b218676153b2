//! Which faults happen, and when: decided by the seed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::crew::Crew;
use crate::settings::Settings;
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

/// Lets faults happen for as long as the settings say.
pub(crate) fn happen<S: Site>(shared: &Shared<S>, crew: &mut Crew, settings: &Settings, rng: &mut Rng) -> Counts {
    let mut counts = Counts::default();
    let end = Instant::now() + settings.time();
    let mut next_crash = Instant::now() + Duration::from_secs(1);
    while Instant::now() < end {
        std::thread::sleep(Duration::from_millis(rng.u64(20..160)));
        counts.deaths += crew.tend(|name, proxy| shared.site().worker_url(name, proxy));
        if settings.crashes && Instant::now() >= next_crash {
            counts.crashes += usize::from(crash(shared, rng));
            next_crash = Instant::now() + Duration::from_millis(rng.u64(1200..3000));
            continue;
        }
        let place = rng.usize(0..crew.places());
        match rng.u32(0..100) {
            0..28 => {
                crew.kill(place, |name, proxy| shared.site().worker_url(name, proxy));
                counts.kills += 1;
            }
            28..68 => {
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
