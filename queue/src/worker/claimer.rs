//! The claimer: claims for the idle threads, and as many jobs ahead of the others as they get through in a moment.
//!
//! A handler of a job that was claimed ahead begins without a write of its own. Should its worker die before the first
//! heartbeat has recorded it, the sweep takes the job for one that was only prefetched and gives its attempt back. Such a
//! job, and any other that has lost its owner before, begins only after that was recorded: so a job that kills its worker is
//! begun once more than it has attempts, unless those are few, and its neighbours lose none. A last attempt is recorded
//! first, too: a job that may be tried once begins once.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, select};

use super::Shared;
use super::executor::{Claimed, ToSettle};
use super::line::Entry;
use super::pace::BATCH;
use super::source::Source;
use crate::backend::Backend;
use crate::lease::{Fence, Refusal};
use crate::settle;

/// How long a job lies in line while no thread takes any: then others may have it.
const PATIENCE: Duration = Duration::from_millis(250);

/// Jobs of so many attempts, or fewer, are begun no more often than that in any case: for them one more is a lot.
const FEW_ATTEMPTS: i32 = 3;

pub(crate) struct Claimer<'a, C: Backend, A> {
    shared: &'a Shared<C, A>,
    source: Source<'a, C, A>,
    /// Ends the line when the claimer ends.
    _entry: Entry<'a>,
    wanted: Receiver<()>,
    settle: Sender<ToSettle>,
    /// Claimed ahead, and not to begin before that is recorded.
    unrecorded: VecDeque<(Instant, Claimed)>,
    /// The last claim found nothing; there is nothing to be had until the line is empty.
    dry: bool,
    /// How far the threads had come, and when.
    seen: (u64, Instant),
}

impl<'a, C: Backend, A: Send + Sync + 'static> Claimer<'a, C, A> {
    pub(crate) fn new(
        shared: &'a Shared<C, A>,
        wanted: Receiver<()>,
        settle: Sender<ToSettle>,
        wake: Receiver<()>,
    ) -> Self {
        let source = Source::new(shared, "claim", wake);
        Self {
            shared,
            source,
            _entry: Entry(&shared.line),
            wanted,
            settle,
            unrecorded: VecDeque::new(),
            dry: false,
            seen: (0, Instant::now()),
        }
    }

    /// Claims until the worker stops. Jobs on which no handler has begun are then left to be released.
    pub(crate) fn run(mut self) {
        while !self.shared.stop.is_stopping() {
            self.pass_on_handed_over();
            self.hand_over_recorded();
            match self.room() {
                0 => self.wait(),
                limit => self.claim(limit),
            }
        }
        let unbegun = self.unbegun();
        self.shared
            .unbegun
            .lock()
            .extend(unbegun.into_iter().map(|job| job.held));
    }

    /// Takes out what no thread has.
    fn unbegun(&mut self) -> Vec<Claimed> {
        let unrecorded = self.unrecorded.drain(..).map(|(_, job)| job);
        unrecorded
            .chain(std::iter::from_fn(|| self.shared.line.take_back()))
            .collect()
    }

    /// Jobs to claim now: for the idle threads, and to fill up the line once half of it is gone.
    fn room(&self) -> usize {
        let line = &self.shared.line;
        let ahead = self.shared.pace.ahead();
        let low = self.shared.pace.low();
        line.tell_below(low.saturating_add(1));
        let (idle, claimed) = (line.idle(), line.len() + self.unrecorded.len());
        let nothing_there = self.dry && line.len() > 0;
        let enough = claimed > low || ahead == 0;
        // Handlers may be faster than the database; the settler tells when it has caught up.
        let unsettled = self.settle.len() > 2 * BATCH;
        if idle == 0 && (nothing_there || enough || self.others_wait()) || unsettled {
            return 0;
        }
        let idle = idle.saturating_sub(self.unrecorded.len());
        match self.shared.pace.is_adaptive() {
            true => idle.saturating_add(ahead.saturating_sub(claimed)),
            false => idle.max(ahead),
        }
    }

    /// Whether jobs wait that are given to idle threads only: then the line must run out, or there might never be one.
    fn others_wait(&self) -> bool {
        let unrecorded = self.unrecorded.front();
        unrecorded.is_some_and(|(since, _)| since.elapsed() >= PATIENCE) || self.shared.choosing.has_handed()
    }

    /// Until a thread wants a job, or the worker stops.
    fn wait(&mut self) {
        let lies_for = self.lies_for();
        if lies_for >= PATIENCE {
            return self.put_back();
        }
        select! {
            recv(self.wanted) -> _ => {}
            recv(self.shared.stop.stopped()) -> _ => {}
            default(PATIENCE - lies_for) => {}
        }
    }

    /// How long no thread has taken a job from the line, if there is one in it.
    fn lies_for(&mut self) -> Duration {
        let taken = self.shared.line.taken();
        let lies = self.shared.line.len() > 0 || !self.unrecorded.is_empty();
        if self.seen.0 != taken || !lies || !self.shared.pace.is_adaptive() {
            self.seen = (taken, Instant::now());
        }
        self.seen.1.elapsed()
    }

    /// Every thread is at a long job: what lies in line is for others, too.
    fn put_back(&mut self) {
        self.shared
            .pace
            .ran(self.seen.1.elapsed() * u32::try_from(BATCH).unwrap_or(u32::MAX));
        for job in self.unbegun() {
            let settlement = settle::give_back(&job.held);
            let _ = self.settle.send(ToSettle::new(&job.held, settlement));
        }
    }

    /// One claim. For idle threads alone it records that their handlers begin.
    fn claim(&mut self, limit: usize) {
        let begun = limit <= self.shared.line.idle();
        let rest = self.shared.line.len() == 0 && self.unrecorded.is_empty();
        let jobs = self.source.claim(limit.min(self.most()), begun, rest);
        self.dry = jobs.is_empty();
        let (at_once, later): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|job| begun || !self.must_be_recorded(job));
        self.shared.line.put(at_once);
        let now = Instant::now();
        self.unrecorded.extend(later.into_iter().map(|job| (now, job)));
    }

    fn most(&self) -> usize {
        let fixed = if self.shared.pace.is_adaptive() {
            0
        } else {
            self.shared.pace.ahead()
        };
        BATCH.max(self.shared.threads).max(fixed)
    }

    /// Whether its handler begins only after that was recorded: its starts are counted, or it was taken from an owner
    /// before, who may have died of it, or it has few attempts, or none after this one.
    fn must_be_recorded(&self, job: &Claimed) -> bool {
        let counted = self.shared.counted.iter().any(|counted| counted.kind == job.row.kind);
        let few = job.row.max_attempts <= FEW_ATTEMPTS || job.row.attempt >= job.row.max_attempts;
        counted || few || job.row.generation > i64::from(job.row.attempt)
    }

    /// Gives idle threads what others have chosen and handed over.
    fn pass_on_handed_over(&mut self) {
        while self.shared.line.idle() > 0
            && let Some(job) = self.shared.choosing.take_handed()
        {
            self.shared.line.put([job]);
        }
    }

    /// Gives idle threads jobs of whose handlers it is recorded first that they begin: from then on a crash costs those
    /// jobs an attempt, and only those.
    fn hand_over_recorded(&mut self) {
        let now = self.shared.line.idle().min(self.unrecorded.len());
        if now == 0 {
            return;
        }
        let mut fences: Vec<Fence> = self
            .unrecorded
            .iter()
            .take(now)
            .map(|(_, job)| job.held.fence)
            .collect();
        fences.sort_unstable();
        let Some(begun) = self.source.begin(&fences) else {
            return;
        };
        for (_, job) in self.unrecorded.drain(..now) {
            if begun.contains(&job.held.fence.id) {
                job.held.mark_recorded();
            } else {
                job.held.mark_lost(Refusal::Expired);
            }
            self.shared.line.put([job]);
        }
    }
}
