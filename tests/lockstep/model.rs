//! The queue as a plain value: what each operation should do to it.
//!
//! There is no clock. What waits for its time does so until an operation lets the time come; and whatever may run at once
//! has the number of the step that let it as its run time.

use std::collections::{BTreeMap, BTreeSet};

use leasehold::Refusal;
use leasehold::inspect::State;

use crate::answer::Answer;
use crate::enqueuing::key_states;
use crate::operation::{Kind, New, Operation, Payload, Pick, Scope, Twist, What};

#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    pub(crate) step: i64,
    pub(crate) jobs: BTreeMap<usize, Job>,
    /// Jobs so far, those that are gone included.
    pub(crate) enqueued: usize,
    pub(crate) keys: BTreeMap<Key, Holder>,
    pub(crate) pauses: BTreeSet<Scope>,
    /// Claims so far, each of which has a token.
    pub(crate) claims: usize,
    /// What workers were told, the latest last.
    pub(crate) told: Vec<Fence>,
}

#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) kind: Kind,
    pub(crate) queue: u8,
    pub(crate) payload: Payload,
    pub(crate) priority: i16,
    pub(crate) rank: i16,
    pub(crate) state: State,
    /// `None`: later.
    pub(crate) due: Option<i64>,
    pub(crate) scheduled: bool,
    /// By a limit.
    pub(crate) blocked: bool,
    pub(crate) attempt: i32,
    pub(crate) max_attempts: i32,
    pub(crate) generation: i64,
    /// The number of the claim.
    pub(crate) token: Option<usize>,
    pub(crate) begun: bool,
    pub(crate) lease_ended: bool,
    pub(crate) cancel_requested: bool,
    pub(crate) age: Age,
    /// The states in which it keeps its unique key.
    pub(crate) key_states: u8,
    /// Generation and attempt of each that failed, and how.
    pub(crate) errors: Vec<(i64, i32, &'static str)>,
    pub(crate) reason: Option<&'static str>,
    /// Business rows that were written with its completion.
    pub(crate) effects: usize,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Age {
    Any,
    Limited,
    TooOld,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Unique(Kind, u8),
    Idempotency(u8),
}

#[derive(Debug, Clone)]
pub(crate) struct Holder {
    pub(crate) job: usize,
    pub(crate) states: u8,
    pub(crate) used_for: (Kind, Payload),
    pub(crate) expired: bool,
    pub(crate) has_period: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Fence {
    pub(crate) job: usize,
    pub(crate) generation: i64,
    /// `None`: one that no claim had.
    pub(crate) token: Option<usize>,
}

/// What an operation is about, now that its turn has come.
#[derive(Debug, Clone, Default)]
pub(crate) struct Target {
    pub(crate) job: usize,
    pub(crate) fences: Vec<Fence>,
}

/// The bit by which the tables know a state.
pub(crate) fn bit(state: State) -> u8 {
    match state {
        State::Ready => 1,
        State::Running => 2,
        State::Completed => 4,
        State::Discarded => 8,
        _ => 16,
    }
}

impl Model {
    /// What the operation is about; `None` if there is nothing.
    pub(crate) fn target(&self, operation: &Operation) -> Option<Target> {
        if matches!(operation.what, What::Enqueue(_)) {
            return Some(Target::default());
        }
        let place = usize::from(operation.job);
        let concerned: Vec<usize> = self.concerned(&operation.what);
        // Mostly one that it makes a difference to.
        let job = match place.checked_rem(concerned.len()) {
            Some(of_concerned) if !place.is_multiple_of(4) => concerned[of_concerned],
            None if matches!(operation.what, What::LeaseEnds | What::ComesDue | What::GrowsTooOld) => return None,
            _ => place.checked_rem(self.enqueued)?,
        };
        let mut fences: Vec<Fence> = Vec::new();
        for fence in operation.fences.iter().filter_map(|pick| self.fence(pick)) {
            // Answers name jobs, so one fence of each.
            if fences.iter().all(|other| other.job != fence.job) {
                fences.push(fence);
            }
        }
        let fenced = matches!(
            operation.what,
            What::Begin
                | What::Heartbeat
                | What::Finish
                | What::Release
                | What::Complete { .. }
                | What::PutBack { .. }
                | What::End { .. }
                | What::FindClaimed
        );
        (!fenced || !fences.is_empty()).then_some(Target { job, fences })
    }

    fn concerned(&self, what: &What) -> Vec<usize> {
        let is_concerned = |(id, job): &(&usize, &Job)| match what {
            What::LeaseEnds => job.state == State::Running && !job.lease_ended,
            What::ComesDue => job.scheduled && job.due.is_none(),
            What::GrowsTooOld => job.age == Age::Limited,
            What::Requeue => matches!(job.state, State::Discarded | State::Cancelled),
            What::Edit { .. } => job.state == State::Ready,
            What::Cancel { .. } => !job.has_ended(),
            What::KeyExpires { .. } => self
                .keys
                .values()
                .any(|holder| holder.job == **id && holder.has_period && !holder.expired),
            _ => false,
        };
        let concerned = self.jobs.iter().filter(is_concerned);
        concerned.map(|(id, _)| *id).collect()
    }

    fn fence(&self, pick: &Pick) -> Option<Fence> {
        let choice = self.told.iter().filter(|fence| !pick.fresh || self.holds(fence));
        let choice: Vec<&Fence> = choice.collect();
        let place = usize::from(pick.place).checked_rem(choice.len())?;
        let mut fence = *choice[place];
        match pick.twist {
            Twist::None => {}
            Twist::Above => fence.generation += 1,
            Twist::Below => fence.generation -= 1,
            Twist::OtherToken => fence.token = None,
        }
        Some(fence)
    }

    /// Whether the job runs under this very fence.
    pub(crate) fn holds(&self, fence: &Fence) -> bool {
        self.jobs.get(&fence.job).is_some_and(|job| {
            job.state == State::Running
                && job.generation == fence.generation
                && job.token.is_some()
                && job.token == fence.token
        })
    }

    pub(crate) fn refusal(&self, fence: &Fence) -> Option<Refusal> {
        let Some(job) = self.jobs.get(&fence.job) else {
            return Some(Refusal::Missing);
        };
        let generation = job.generation;
        let other_token = fence.token.is_none() || job.token != fence.token;
        match job.state {
            _ if generation < fence.generation => Some(Refusal::DurabilityLoss { generation }),
            _ if generation == fence.generation && other_token => Some(Refusal::DurabilityLoss { generation }),
            State::Running if generation == fence.generation => None,
            State::Running | State::Ready => Some(Refusal::Lost { generation }),
            State::Cancelled => Some(Refusal::Cancelled),
            state => Some(Refusal::AlreadyFinished { state }),
        }
    }

    pub(crate) fn apply(&mut self, what: &What, target: &Target) -> Answer {
        self.step += 1;
        let job = target.job;
        match what {
            What::Enqueue(new) => self.enqueue(new),
            What::Claim {
                serves,
                limit,
                begun,
                oldest,
            } => self.claim(*serves, *limit, *begun, *oldest),
            What::FindClaimed => self.find_claimed(target.fences[0]),
            What::Look(serves) => self.look(*serves),
            What::Begin | What::Heartbeat | What::Finish | What::Release | What::Complete { .. } => {
                self.write(what, &target.fences)
            }
            What::PutBack { .. } | What::End { .. } => self.write(what, &target.fences[..1]),
            What::Sweep { limit } => self.sweep(*limit),
            What::SweepKeys => self.sweep_keys(),
            What::DiscardExpired => self.discard_expired(),
            What::Promote(serves) => self.promote(*serves),
            What::Admit => self.admit(),
            What::LeaseEnds | What::ComesDue | What::GrowsTooOld | What::KeyExpires { .. } => self.passes(what, job),
            What::Cancel { hard } => self.cancel(job, *hard),
            What::Requeue => self.requeue(job),
            What::Edit {
                behind,
                priority,
                later,
                payload,
            } => self.edit(job, *behind, *priority, *later, *payload),
            What::Pause(scope) => {
                self.pauses.insert(*scope);
                Answer::Done
            }
            What::Resume(scope) => Answer::Was(self.pauses.remove(scope)),
            What::Purge(state) => self.purge(*state),
        }
    }
}

impl Job {
    pub(crate) fn new(new: &New, step: i64) -> Self {
        let limited = new.kind.limit(new.payload).is_some();
        Self {
            kind: new.kind,
            queue: new.queue,
            payload: new.payload,
            priority: new.priority,
            rank: new.priority,
            state: State::Ready,
            due: (!new.later).then_some(step),
            scheduled: new.later,
            blocked: limited && !new.later,
            attempt: 0,
            max_attempts: new.max_attempts,
            generation: 0,
            token: None,
            begun: false,
            lease_ended: false,
            cancel_requested: false,
            age: if new.expires { Age::Limited } else { Age::Any },
            key_states: key_states(new),
            errors: Vec::new(),
            reason: None,
            effects: 0,
        }
    }

    pub(crate) fn limit_key(&self) -> Option<u8> {
        self.kind.limit(self.payload).map(|(key, _)| key)
    }

    /// Another payload or run time, by an edit or a conflict: a limit looks at it again if either says so.
    pub(crate) fn change(&mut self, payload: Option<Payload>, later: Option<bool>, step: i64) {
        let limited_by = self.limit_key();
        self.payload = payload.unwrap_or(self.payload);
        if let Some(later) = later {
            (self.due, self.scheduled) = ((!later).then_some(step), later);
        }
        self.blocked = match self.limit_key() {
            None => false,
            Some(_) if self.scheduled => false,
            Some(key) => self.blocked || later.is_some() || Some(key) != limited_by,
        };
    }
}
