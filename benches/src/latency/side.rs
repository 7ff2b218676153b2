//! One side of a comparison: who works, and the connection on which jobs are enqueued.

use std::thread;
use std::time::{Duration, Instant};

use leasehold::Job;
use uuid::Uuid;

use super::serve::{Probe, Who};
use super::team::{Begun, Place, Team};
use crate::clock::now_ns;
use crate::samples::Samples;
use crate::{Answer, Bench, Database};

/// How long one side is measured before the other has its turn.
const SLICE: Duration = Duration::from_secs(1);

pub(super) struct Side<C: Bench> {
    team: Team<C>,
    conn: C,
    work: Duration,
    /// How many handlers can run at a time.
    handlers: u32,
    /// From the call of the enqueue to the handler's begin.
    pub(super) waits: Samples,
    /// Of the enqueue itself.
    pub(super) enqueues: Samples,
    pub(super) heard: Vec<Heard>,
}

/// A job with the times of its enqueue.
#[derive(Debug, Clone)]
pub(super) struct Heard {
    pub(super) called: u64,
    pub(super) returned: u64,
    pub(super) begun: Begun,
}

#[derive(Debug, Clone, Copy)]
struct Enqueued {
    id: i64,
    called: u64,
    returned: u64,
}

impl<C: Bench> Side<C> {
    pub(super) fn start(
        who: Who,
        database: &Database<C>,
        place: Place,
        threads: usize,
        work: Duration,
    ) -> Answer<Self> {
        let processes = match place {
            Place::Here => 1,
            Place::Processes(processes) => processes,
        };
        let mut conn = C::establish(&database.url)?;
        if C::ONE_WRITER {
            conn.batch_execute("PRAGMA busy_timeout = 10000; PRAGMA synchronous = FULL")?;
        }
        Ok(Self {
            team: Team::start(who, &database.url, place, threads, work)?,
            conn,
            work,
            handlers: u32::try_from(threads * processes)?,
            waits: Samples::default(),
            enqueues: Samples::default(),
            heard: Vec::new(),
        })
    }

    fn enqueue(&mut self) -> Answer<Enqueued> {
        let called = now_ns();
        let id = Probe {}.enqueue(&mut self.conn)?.id();
        self.team.enqueued();
        let returned = now_ns();
        Ok(Enqueued { id, called, returned })
    }

    fn wait(&mut self, job: Enqueued) -> Answer {
        let Enqueued { id, called, returned } = job;
        let begun = self.team.wait(id)?;
        self.waits.add(Duration::from_nanos(begun.at.saturating_sub(called)));
        self.enqueues.add(Duration::from_nanos(returned.saturating_sub(called)));
        if !begun.statements.is_empty() {
            self.heard.push(Heard {
                called,
                returned,
                begun,
            });
        }
        Ok(())
    }

    /// One job, when everybody has been idle for a moment.
    pub(super) fn one(&mut self) -> Answer {
        thread::sleep(Duration::from_millis(5) + Duration::from_millis(15).mul_f64(share()));
        let job = self.enqueue()?;
        self.wait(job)
    }

    /// Jobs that come at random and keep half of the handlers at work.
    pub(super) fn half_load(&mut self, time: Duration) -> Answer {
        let mean = self.work * 2 / self.handlers;
        let began = Instant::now();
        let (mut next, mut jobs) = (began, Vec::new());
        while began.elapsed() < time.min(SLICE) {
            thread::sleep(next.saturating_duration_since(Instant::now()));
            jobs.push(self.enqueue()?);
            // The times between events that come at random are distributed so.
            next += mean.mul_f64(-(1.0 - share()).ln());
        }
        jobs.into_iter().try_for_each(|job| self.wait(job))
    }

    /// Processor time of the worker processes while nothing happens, as a share of a core.
    pub(super) fn idle_cpu(&mut self, time: Duration) -> Answer<f64> {
        let (before, began) = (self.team.cpu_time()?, Instant::now());
        thread::sleep(time);
        let used = self.team.cpu_time()?.saturating_sub(before);
        Ok(used.as_secs_f64() / began.elapsed().as_secs_f64())
    }
}

/// At random, from zero to below one.
fn share() -> f64 {
    #[expect(clippy::cast_possible_truncation, reason = "some bits of it")]
    let bits = Uuid::new_v4().as_u128() as u32;
    f64::from(bits) / (f64::from(u32::MAX) + 1.0)
}
