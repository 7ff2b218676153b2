//! The claimer: claims as many jobs as there are free threads (and some ahead, if asked to) and hands them over.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, select};
use uuid::Uuid;

use super::control::{Control, Failure, spread};
use super::executor::Claimed;
use super::{Shared, Stop};
use crate::backend::{Backend, ClaimRequest, ClaimedRow};
use crate::claim::{self, Found};
use crate::lease::{Held, Refusal};

/// Rows that one statement makes claimable.
const PROMOTE_LIMIT: i64 = 1000;
/// How long to wait when everything is locked by others: they commit soon.
const LOCKED_WAIT: Duration = Duration::from_millis(10);

pub(crate) struct Claimer<'a, C: Backend, A> {
    shared: &'a Shared<C, A>,
    control: Control<C>,
    jobs: Sender<Claimed>,
    free: Receiver<()>,
    wake: Receiver<()>,
    /// Threads that wait for a job.
    idle: usize,
    /// Claimed ahead; no handler has begun.
    ahead: VecDeque<Claimed>,
    /// A claim whose answer was lost: its token, and when it was sent.
    in_doubt: Option<(Uuid, Instant)>,
    promote_at: Instant,
}

impl<'a, C: Backend, A: Send + Sync + 'static> Claimer<'a, C, A> {
    pub(crate) fn new(
        shared: &'a Shared<C, A>,
        control: Control<C>,
        jobs: Sender<Claimed>,
        free: Receiver<()>,
        wake: Receiver<()>,
    ) -> Self {
        Self { shared, control, jobs, free, wake, idle: 0, ahead: VecDeque::new(), in_doubt: None, promote_at: Instant::now() }
    }

    /// Claims until the worker stops.
    pub(crate) fn run(mut self) {
        while self.wait_for_idle_thread() {
            if !self.hand_over_from_ahead() {
                continue;
            }
            match self.claim() {
                Ok(Found::Claimed(_)) => {}
                Ok(Found::AllLocked(_)) => self.pause(spread(LOCKED_WAIT)),
                Ok(Found::NotDue { next, .. }) => self.rest(Some(next)),
                Ok(Found::Empty(_)) => self.rest(None),
                Err(_) => self.back_off(),
            }
        }
        self.shared.unbegun.lock().extend(self.ahead.drain(..).map(|job| job.held));
    }

    /// Waits for a thread without a job; false once the worker stops.
    fn wait_for_idle_thread(&mut self) -> bool {
        self.idle += self.free.try_iter().count();
        while self.idle == 0 && !self.shared.stop.is_stopping() {
            select! {
                recv(self.free) -> _ => self.idle += 1 + self.free.try_iter().count(),
                recv(self.shared.stop.stopped()) -> _ => {}
            }
        }
        !self.shared.stop.is_stopping()
    }

    /// Gives idle threads what was claimed ahead, once it is recorded that their handlers begin; false when threads got
    /// jobs and none is idle, or when the database did not answer.
    fn hand_over_from_ahead(&mut self) -> bool {
        let now = self.idle.min(self.ahead.len());
        if now == 0 {
            return true;
        }
        let jobs: Vec<Claimed> = self.ahead.drain(..now).collect();
        let fences: Vec<_> = jobs.iter().map(|job| job.held.fence).collect();
        let begun = self.control.run(|conn| conn.begin(&self.shared.schema, &fences));
        let Ok(begun) = begun else {
            jobs.into_iter().rev().for_each(|job| self.ahead.push_front(job));
            self.back_off();
            return false;
        };
        for job in jobs {
            if !begun.contains(&job.held.fence.id) {
                job.held.mark_lost(Refusal::Lost { generation: job.held.fence.generation + 1 });
            }
            self.hand_over(job);
        }
        self.idle > 0
    }

    fn hand_over(&mut self, job: Claimed) {
        self.idle -= 1;
        let _ = self.jobs.send(job);
    }

    /// One claim, for the idle threads and `prefetch` more, with its rows handed over.
    fn claim(&mut self) -> Result<Found, Failure> {
        self.find_claimed()?;
        let shared = self.shared;
        if Instant::now() >= self.promote_at {
            let promoted = self.control.run(|conn| conn.promote(&shared.schema, &shared.queues, PROMOTE_LIMIT))?;
            let more = i64::try_from(promoted) == Ok(PROMOTE_LIMIT);
            self.promote_at = Instant::now() + if more { Duration::ZERO } else { shared.poll };
        }
        let wanted = self.idle + shared.prefetch;
        let request = ClaimRequest {
            serves: &shared.serves,
            limit: i64::try_from(wanted).unwrap_or(i64::MAX),
            lease_token: Uuid::new_v4(),
            worker: shared.worker.id,
            begun: shared.prefetch == 0,
        };
        let sent = Instant::now();
        let found = self.control.run(|conn| claim::claim(conn, &shared.schema, &request));
        if matches!(found, Err(Failure::Away)) {
            self.in_doubt = Some((request.lease_token, sent));
        }
        let found = found?;
        match &found {
            Found::Claimed(rows) => self.take(rows, request.lease_token, sent),
            Found::AllLocked(waiting) | Found::NotDue { waiting, .. } | Found::Empty(waiting) => shared.look.publish(*waiting),
        }
        if let Found::NotDue { next, .. } = found {
            self.promote_at = self.promote_at.min(Instant::now() + next);
        }
        Ok(found)
    }

    /// Registers claimed rows, so that they are renewed from now on, and hands them over.
    fn take(&mut self, rows: &[ClaimedRow], lease_token: Uuid, sent: Instant) {
        for row in rows {
            let held = Arc::new(Held::new(row, lease_token, self.shared.registry.timeout(&row.kind), sent));
            self.shared.leases.add(&held);
            let job = Claimed { row: row.clone(), held };
            if self.shared.prefetch == 0 && self.idle > 0 {
                self.hand_over(job);
            } else {
                self.ahead.push_back(job);
            }
        }
    }

    /// Looks for the rows of a claim whose answer was lost, by its token. Those whose lease has not run out are as good
    /// as if the answer had come.
    fn find_claimed(&mut self) -> Result<(), Failure> {
        let Some((token, sent)) = self.in_doubt else { return Ok(()) };
        let shared = self.shared;
        let rows = self.control.run(|conn| conn.find_claimed(&shared.schema, token))?;
        self.in_doubt = None;
        let alive = |row: &ClaimedRow| sent.elapsed() < Duration::from_millis(row.lease_ms.unsigned_abs());
        let rows: Vec<ClaimedRow> = rows.into_iter().filter(alive).collect();
        if !rows.is_empty() {
            log::info!("found {} jobs of a claim whose answer was lost", rows.len());
        }
        self.take(&rows, token, sent);
        Ok(())
    }

    /// Waits until something may be due: a wake-up, the next run time, or the poll that bounds a missed wake-up.
    fn rest(&mut self, next: Option<Duration>) {
        let poll = spread(self.shared.poll);
        let timeout = next.map_or(poll, |next| next.min(poll));
        match self.control.connection() {
            Some(conn) => conn.wait_for_change(&self.wake, timeout),
            None => self.pause(timeout),
        }
    }

    fn back_off(&mut self) {
        let wait = self.control.next_wait();
        self.pause(wait);
    }

    fn pause(&self, timeout: Duration) {
        let stop: &Stop = &self.shared.stop;
        select! {
            recv(stop.stopped()) -> _ => {}
            default(timeout) => {}
        }
    }
}
