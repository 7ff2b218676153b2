//! What the model makes of an enqueue and of its keys.

use leasehold::OnConflict;
use leasehold::inspect::State;

use crate::answer::Answer;
use crate::model::{Age, Holder, Job, Key, Model, bit};
use crate::operation::{Kind, New, Payload};

impl Model {
    pub(crate) fn enqueue(&mut self, new: &New) -> Answer {
        let before = self.clone();
        let id = self.enqueued;
        let answer = match self.take_idempotency_key(new, id) {
            Some(answer) => answer,
            None => self.take_unique_key(new, id).unwrap_or(Answer::New(id)),
        };
        match answer {
            Answer::New(_) => {
                self.enqueued += 1;
                self.jobs.insert(id, Job::new(new, self.step));
            }
            // A transaction that is rolled back.
            Answer::KeyConflict(_) | Answer::UniqueConflict(_) => self.keys = before.keys,
            // Its job is withdrawn, and its keys with it.
            _ => self.keys.retain(|_, holder| holder.job != id),
        }
        answer
    }

    fn take_idempotency_key(&mut self, new: &New, id: usize) -> Option<Answer> {
        let key = Key::Idempotency(new.idempotency_key?);
        let used_for = (new.kind, new.payload);
        match self.keys.get(&key) {
            Some(holder) if !holder.expired => Some(match holder.used_for == used_for {
                true => Answer::Existing(holder.job),
                false => Answer::KeyConflict(holder.job),
            }),
            _ => {
                self.keys.insert(key, Holder::new(id, 31, used_for, true));
                None
            }
        }
    }

    fn take_unique_key(&mut self, new: &New, id: usize) -> Option<Answer> {
        let key = new.kind.is_unique().then_some(Key::Unique(new.kind, new.payload.key))?;
        let Some((other, ready)) = self.keys.get(&key).and_then(|holder| self.keeper(holder)) else {
            let holder = Holder::new(id, key_states(new), (new.kind, new.payload), new.within);
            self.keys.insert(key, holder);
            return None;
        };
        Some(match new.on_conflict {
            OnConflict::Reject => Answer::UniqueConflict(other),
            OnConflict::Keep => Answer::Existing(other),
            _ if !ready => Answer::Existing(other),
            action => {
                let job = self.jobs.get_mut(&other).unwrap();
                job.generation += 1;
                let replaces = matches!(action, OnConflict::Replace | OnConflict::ReplaceAndReschedule);
                let reschedules = matches!(action, OnConflict::Reschedule | OnConflict::ReplaceAndReschedule);
                job.change(
                    replaces.then_some(new.payload),
                    reschedules.then_some(new.later),
                    self.step,
                );
                Answer::Updated(other)
            }
        })
    }

    /// The job that keeps a key, and whether it can still be changed.
    fn keeper(&self, holder: &Holder) -> Option<(usize, bool)> {
        let job = self.jobs.get(&holder.job).filter(|_| !holder.expired)?;
        let gone = job.state == State::Ready && job.age == Age::TooOld;
        let state = if gone { State::Discarded } else { job.state };
        (holder.states & bit(state) != 0).then_some((holder.job, state == State::Ready))
    }
}

pub(crate) fn key_states(new: &New) -> u8 {
    match new.on_conflict {
        OnConflict::Keep | OnConflict::Reject if new.within => 7,
        OnConflict::Keep | OnConflict::Reject => 3,
        _ => 1,
    }
}

impl Holder {
    pub(crate) fn new(job: usize, states: u8, used_for: (Kind, Payload), has_period: bool) -> Self {
        Self {
            job,
            states,
            used_for,
            expired: false,
            has_period,
        }
    }
}
