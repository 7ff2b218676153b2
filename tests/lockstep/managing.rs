//! What the model makes of the passing of time, and of what people do by hand.

use leasehold::inspect::State;

use crate::answer::Answer;
use crate::model::{Age, Holder, Key, Model};
use crate::operation::{Payload, What};

impl Model {
    pub(crate) fn passes(&mut self, what: &What, id: usize) -> Answer {
        let step = self.step;
        if let Some(job) = self.jobs.get_mut(&id) {
            match what {
                What::LeaseEnds if job.state == State::Running => job.lease_ended = true,
                What::ComesDue if job.scheduled => job.due = Some(step),
                What::GrowsTooOld if job.age == Age::Limited => job.age = Age::TooOld,
                _ => {}
            }
        }
        if let What::KeyExpires { unique } = what {
            for (key, holder) in &mut self.keys {
                let is_unique = matches!(key, Key::Unique(..));
                holder.expired |= holder.job == id && *unique == is_unique && holder.has_period;
            }
        }
        Answer::Done
    }

    pub(crate) fn sweep_keys(&mut self) -> Answer {
        let before = self.keys.len();
        self.keys.retain(|_, holder| !holder.expired);
        Answer::Count(before - self.keys.len())
    }

    pub(crate) fn cancel(&mut self, id: usize, hard: bool) -> Answer {
        let Some(job) = self.jobs.get_mut(&id).filter(|job| !job.has_ended()) else {
            return Answer::Was(false);
        };
        match job.state {
            State::Running if !hard => job.cancel_requested = true,
            _ => self.end(id, State::Cancelled, true, Some("by hand")),
        }
        Answer::Was(true)
    }

    pub(crate) fn requeue(&mut self, id: usize) -> Answer {
        let Some(job) = self.jobs.get(&id) else {
            return Answer::Missing;
        };
        if !matches!(job.state, State::Discarded | State::Cancelled) {
            return Answer::State(job.state);
        }
        if job.kind.is_unique() && !self.take_key_again(id) {
            return Answer::KeyTaken;
        }
        let step = self.step;
        let job = self.jobs.get_mut(&id).unwrap();
        job.state = State::Ready;
        job.generation += 1;
        (job.attempt, job.reason, job.due) = (0, None, Some(step));
        job.blocked = job.limit_key().is_some();
        Answer::Done
    }

    /// One that it still has stays as it is, and one that it takes anew goes with its end.
    fn take_key_again(&mut self, id: usize) -> bool {
        let job = &self.jobs[&id];
        let key = Key::Unique(job.kind, job.payload.key);
        match self.keys.get(&key) {
            Some(holder) if !holder.expired => holder.job == id,
            _ => {
                let holder = Holder::new(id, job.key_states & 3, (job.kind, job.payload), false);
                self.keys.insert(key, holder);
                true
            }
        }
    }

    pub(crate) fn edit(
        &mut self,
        id: usize,
        behind: i64,
        priority: Option<i16>,
        later: Option<bool>,
        payload: Option<Payload>,
    ) -> Answer {
        let step = self.step;
        let Some(job) = self.jobs.get_mut(&id) else {
            return Answer::Missing;
        };
        if job.state != State::Ready {
            return Answer::State(job.state);
        }
        if behind != 0 {
            return Answer::Conflict(job.generation);
        }
        if payload.is_some_and(|new| job.kind.is_unique() && new.key != job.payload.key) {
            return Answer::Identity;
        }
        job.priority = priority.unwrap_or(job.priority);
        job.generation += 1;
        job.change(payload, later, step);
        Answer::Edited(job.generation)
    }

    pub(crate) fn purge(&mut self, state: State) -> Answer {
        let before = self.jobs.len();
        let keys = &mut self.keys;
        self.jobs.retain(|id, job| {
            let stays = job.state != state;
            if !stays {
                keys.retain(|key, holder| holder.job != *id || matches!(key, Key::Idempotency(_)));
            }
            stays
        });
        Answer::Count(before - self.jobs.len())
    }
}
