//! What the model makes of the writes of workers, and of the sweep.

use leasehold::inspect::State;

use crate::answer::{Answer, TakenBack, Written};
use crate::model::{Age, Fence, Job, Key, Model, bit};
use crate::operation::What;

impl Model {
    /// A fenced write, for each of the fences.
    pub(crate) fn write(&mut self, what: &What, fences: &[Fence]) -> Answer {
        // A commit is of one job.
        let fences = if matches!(what, What::Complete { .. }) {
            &fences[..1]
        } else {
            fences
        };
        let mut accepted = Vec::new();
        for fence in fences {
            accepted.push(self.holds(fence) && self.write_one(what, fence.job));
        }
        let told = fences.iter().zip(accepted).map(|(fence, accepted)| {
            let asked = self.jobs.get(&fence.job).is_some_and(|job| job.cancel_requested);
            let written = match accepted {
                true if matches!(what, What::Heartbeat) && asked => Written::AskedToStop,
                true => Written::Yes,
                false => Written::Refused(self.refusal(fence)),
            };
            (fence.job, written)
        });
        Answer::Fenced(told.collect())
    }

    /// By its owner; whether it passes.
    fn write_one(&mut self, what: &What, id: usize) -> bool {
        let step = self.step;
        let job = self.jobs.get_mut(&id).unwrap();
        match *what {
            What::Begin => job.begun = true,
            What::Heartbeat => job.lease_ended = false,
            What::Finish => self.end(id, State::Completed, false, None),
            What::Complete { strict } => {
                if strict && job.lease_ended {
                    return false;
                }
                job.effects += 1;
                self.end(id, State::Completed, false, None);
            }
            What::Release => {
                job.attempt = (job.attempt - 1).max(0);
                job.let_go();
            }
            What::PutBack {
                later,
                uses_attempt,
                takes_away,
                error,
            } => {
                if uses_attempt && job.cancel_requested {
                    return false;
                }
                if error {
                    job.note("error");
                }
                job.attempt = (job.attempt - i32::from(!uses_attempt)).max(0);
                job.generation += i64::from(takes_away);
                (job.due, job.scheduled) = ((!later).then_some(step), later);
                job.blocked = !later && job.limit_key().is_some();
                job.let_go();
            }
            What::End {
                state,
                takes_away,
                error,
            } => {
                if error {
                    job.note("panic");
                }
                self.end(id, state, takes_away, Some("by its worker"));
            }
            _ => unreachable!("no fenced write"),
        }
        true
    }

    pub(crate) fn end(&mut self, id: usize, state: State, takes_away: bool, reason: Option<&'static str>) {
        let job = self.jobs.get_mut(&id).unwrap();
        job.generation += i64::from(takes_away);
        job.let_go();
        (job.state, job.reason) = (state, reason);
        (job.scheduled, job.blocked, job.cancel_requested, job.age) = (false, false, false, Age::Any);
        let unique = Key::Unique(job.kind, job.payload.key);
        if let Some(holder) = self.keys.get(&unique)
            && holder.job == id
            && holder.states & bit(state) == 0
        {
            self.keys.remove(&unique);
        }
    }

    pub(crate) fn sweep(&mut self, limit: i64) -> Answer {
        let ended = self
            .jobs
            .iter()
            .filter(|(_, job)| job.state == State::Running && job.lease_ended);
        let ids: Vec<usize> = ended.map(|(id, _)| *id).take(usize::try_from(limit).unwrap()).collect();
        Answer::TakenBack(ids.into_iter().map(|id| self.take_back(id)).collect())
    }

    fn take_back(&mut self, id: usize) -> TakenBack {
        let job = self.jobs.get_mut(&id).unwrap();
        let begun = job.begun;
        if begun {
            job.note("lease expired");
        }
        if job.cancel_requested || (begun && job.attempt >= job.max_attempts) {
            let state = if job.cancel_requested {
                State::Cancelled
            } else {
                State::Discarded
            };
            self.end(id, state, true, Some("lease expired"));
        } else {
            job.generation += 1;
            job.attempt = (job.attempt - i32::from(!begun)).max(0);
            // One that had not begun keeps its admission.
            job.blocked = begun && job.limit_key().is_some();
            job.let_go();
        }
        self.taken_back(id, begun)
    }

    fn taken_back(&self, job: usize, begun: bool) -> TakenBack {
        let Job {
            generation,
            attempt,
            state,
            ..
        } = self.jobs[&job];
        TakenBack {
            job,
            generation,
            attempt,
            begun,
            state: state.to_string(),
        }
    }

    pub(crate) fn discard_expired(&mut self) -> Answer {
        let old = self
            .jobs
            .iter()
            .filter(|(_, job)| job.state == State::Ready && job.age == Age::TooOld);
        let ids: Vec<usize> = old.map(|(id, _)| *id).collect();
        let discarded = ids.into_iter().map(|id| {
            self.end(id, State::Discarded, true, Some("expired"));
            self.taken_back(id, false)
        });
        Answer::TakenBack(discarded.collect())
    }
}

impl Job {
    /// Nobody has it any more. The token stays.
    fn let_go(&mut self) {
        self.state = State::Ready;
        (self.begun, self.lease_ended) = (false, false);
    }

    fn note(&mut self, cause: &'static str) {
        self.errors.push((self.generation, self.attempt, cause));
    }
}
