//! What the model makes of claims and of what goes before them.

use leasehold::inspect::State;

use crate::answer::Answer;
use crate::model::{Fence, Job, Model};
use crate::operation::{Kind, Scope, Serves};

impl Model {
    fn is_paused(&self, queue: u8, kind: Kind) -> bool {
        let scopes = [Scope::All, Scope::Queue(queue), Scope::Kind(kind)];
        scopes.iter().any(|scope| self.pauses.contains(scope))
    }

    pub(crate) fn claim(&mut self, serves: Serves, limit: i64, begun: bool, oldest: bool) -> Answer {
        let token = self.claims;
        self.claims += 1;
        let mut best: Vec<(i16, Option<i64>, usize)> = Vec::new();
        for (id, job) in &self.jobs {
            let served = serves.has(job.queue, job.kind) && !self.is_paused(job.queue, job.kind);
            if served && job.can_be_claimed() {
                best.push((if oldest { 0 } else { -job.priority }, job.due, *id));
            }
        }
        best.sort_unstable();
        best.truncate(usize::try_from(limit).unwrap());
        let mut ids: Vec<usize> = best.into_iter().map(|(_, _, id)| id).collect();
        ids.sort_unstable();
        let mut claimed = Vec::new();
        for id in ids {
            let job = self.jobs.get_mut(&id).unwrap();
            job.state = State::Running;
            job.generation += 1;
            job.attempt += 1;
            job.token = Some(token);
            (job.begun, job.lease_ended) = (begun, false);
            claimed.push((id, job.generation, job.attempt));
            self.told.push(Fence {
                job: id,
                generation: job.generation,
                token: Some(token),
            });
        }
        Answer::Claimed(claimed)
    }

    pub(crate) fn find_claimed(&self, fence: Fence) -> Answer {
        let found = self
            .jobs
            .iter()
            .filter(|(_, job)| job.state == State::Running && fence.token.is_some() && job.token == fence.token);
        Answer::Found(found.map(|(id, _)| *id).collect())
    }

    pub(crate) fn promote(&mut self, serves: Serves) -> Answer {
        let mut promoted = 0;
        for job in self.jobs.values_mut() {
            let waits = job.state == State::Ready && job.scheduled;
            if waits && job.due.is_some() && serves.has(job.queue, job.kind) {
                job.scheduled = false;
                job.blocked = job.limit_key().is_some();
                promoted += 1;
            }
        }
        Answer::Count(promoted)
    }

    /// For each kind and key: as many more as the limit has room for.
    pub(crate) fn admit(&mut self) -> Answer {
        for kind in Kind::ALL {
            if self.pauses.contains(&Scope::All) || self.pauses.contains(&Scope::Kind(kind)) {
                continue;
            }
            for key in 0..2 {
                let counts = |job: &Job| job.kind == kind && job.limit_key() == Some(key) && !job.has_ended();
                let mut waiting: Vec<(i16, usize)> = Vec::new();
                let mut held = 0;
                let mut max = 0;
                for (id, job) in self.jobs.iter().filter(|(_, job)| counts(job)) {
                    max = job.kind.limit(job.payload).unwrap().1;
                    match job.blocked {
                        true => waiting.push((-job.rank, *id)),
                        false => held += usize::from(!job.scheduled),
                    }
                }
                waiting.sort_unstable();
                for (_, id) in waiting.iter().take(max.saturating_sub(held)) {
                    self.jobs.get_mut(id).unwrap().blocked = false;
                }
            }
        }
        Answer::Done
    }

    pub(crate) fn look(&self, serves: Serves) -> Answer {
        let (mut ready, mut running, mut scheduled, mut paused, mut next) = (0, 0, 0, 0, false);
        for job in self.jobs.values().filter(|job| serves.has(job.queue, job.kind)) {
            let is_paused = self.is_paused(job.queue, job.kind);
            running += i64::from(job.state == State::Running);
            if job.state == State::Ready && job.scheduled {
                scheduled += 1;
                next |= !is_paused;
            }
            if job.can_be_claimed() {
                *(if is_paused { &mut paused } else { &mut ready }) += 1;
            }
        }
        let mut blocked = 0;
        for kind in Kind::ALL {
            let mut queues = serves.all().filter(|(_, served)| *served == kind).peekable();
            if queues.peek().is_some() {
                let jobs = self.jobs.values().filter(|job| job.kind == kind && job.blocked);
                let count = i64::try_from(jobs.count()).unwrap();
                let all_paused = queues.all(|(queue, kind)| self.is_paused(queue, kind));
                *(if all_paused { &mut paused } else { &mut blocked }) += count;
            }
        }
        Answer::Waiting {
            ready,
            running,
            scheduled,
            blocked,
            paused,
            next,
        }
    }
}

impl Job {
    fn can_be_claimed(&self) -> bool {
        self.state == State::Ready && !self.scheduled && !self.blocked
    }

    pub(crate) fn has_ended(&self) -> bool {
        !matches!(self.state, State::Ready | State::Running)
    }
}
