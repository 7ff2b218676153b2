//! The claimer: claims as many jobs as there are idle threads (and some ahead, if asked to) and hands them over.

use std::collections::VecDeque;

use crossbeam_channel::{Receiver, Sender, select};

use super::Shared;
use super::executor::Claimed;
use super::source::Source;
use crate::backend::Backend;
use crate::lease::{Fence, Refusal};

pub(crate) struct Claimer<'a, C: Backend, A> {
    shared: &'a Shared<C, A>,
    source: Source<'a, C, A>,
    jobs: Sender<Claimed>,
    free: Receiver<()>,
    /// Threads that wait for a job.
    idle: usize,
    /// Claimed ahead; no handler has begun.
    ahead: VecDeque<Claimed>,
}

impl<'a, C: Backend, A: Send + Sync + 'static> Claimer<'a, C, A> {
    pub(crate) fn new(shared: &'a Shared<C, A>, jobs: Sender<Claimed>, free: Receiver<()>, wake: Receiver<()>) -> Self {
        let source = Source::new(shared, "claim", wake);
        Self {
            shared,
            source,
            jobs,
            free,
            idle: 0,
            ahead: VecDeque::new(),
        }
    }

    /// Claims until the worker stops. Jobs on which no handler has begun are then left to be released.
    pub(crate) fn run(mut self) {
        while self.wait_for_idle_thread() {
            self.pass_on_handed_over();
            self.hand_over_from_ahead();
            if self.idle > 0 && self.ahead.is_empty() {
                self.claim();
            }
        }
        self.shared
            .unbegun
            .lock()
            .extend(self.ahead.drain(..).map(|job| job.held));
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

    /// One claim, for the idle threads and `prefetch` more. Without prefetch every handler begins at once, and the claim
    /// records that.
    fn claim(&mut self) {
        let begun = self.shared.prefetch == 0;
        let limit = self.idle.saturating_add(self.shared.prefetch);
        for job in self.source.claim(limit, begun) {
            if begun && self.idle > 0 {
                self.hand_over(job);
            } else {
                self.ahead.push_back(job);
            }
        }
    }

    /// Gives idle threads what others have chosen and handed over.
    fn pass_on_handed_over(&mut self) {
        while self.idle > 0
            && let Some(job) = self.shared.choosing.take_handed()
        {
            self.hand_over(job);
        }
    }

    /// Gives idle threads what was claimed ahead, once it is recorded that their handlers begin: from then on a crash
    /// costs those jobs an attempt, and only those.
    fn hand_over_from_ahead(&mut self) {
        let now = self.idle.min(self.ahead.len());
        if now == 0 {
            return;
        }
        let mut fences: Vec<Fence> = self.ahead.iter().take(now).map(|job| job.held.fence).collect();
        fences.sort_unstable();
        let Some(begun) = self.source.begin(&fences) else {
            return;
        };
        let jobs: Vec<Claimed> = self.ahead.drain(..now).collect();
        for job in jobs {
            if !begun.contains(&job.held.fence.id) {
                job.held.mark_lost(Refusal::Expired);
            }
            self.hand_over(job);
        }
    }

    fn hand_over(&mut self, job: Claimed) {
        self.idle -= 1;
        let _ = self.jobs.send(job);
    }
}
