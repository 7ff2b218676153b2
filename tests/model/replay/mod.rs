//! The model and PostgreSQL, taken through the same actions: each answer and each row must be the same.

mod database;
mod library;
mod naive;

mod traces;
mod walks;

use database::Database;

use crate::action::Action;
use crate::judgement::{Answer, diagnosed, resolved};
use crate::state::{Stage, System};
use crate::step::step;
use crate::variants::{Durability, Fence, Protocol};

pub(crate) struct Replay {
    protocol: Protocol,
    model: System,
    real: Database,
}

impl Replay {
    pub(crate) fn new(protocol: Protocol) -> Self {
        let model = System::new(protocol.jobs, protocol.processes.len());
        let mut real = Database::new(protocol.jobs, protocol.processes);
        real.save();
        Self { protocol, model, real }
    }

    /// Does the same on both sides; what the worker is told, `None` while it is told nothing.
    #[track_caller]
    pub(crate) fn take(&mut self, action: Action) -> Option<Answer> {
        let expected = self.expected(action);
        let after = step(&self.protocol, &self.model, action);
        let before = std::mem::replace(&mut self.model, after);
        let makes_durable = match self.protocol.durability {
            Durability::Durable => true,
            Durability::ClaimsAlone => action.is_a_claim() || action == Action::Flush,
            Durability::Nothing => action == Action::Flush,
        };
        let told = if self.is_ours() {
            library::take(&mut self.real, action)
        } else {
            naive::take(&mut self.real, &self.protocol, action)
        };
        if makes_durable {
            self.real.save();
        }
        assert_eq!(told, expected, "{action:?} in {before:?}");
        self.compare(action);
        told
    }

    fn is_ours(&self) -> bool {
        let Protocol {
            fence,
            resolve,
            resets_generation,
            ..
        } = self.protocol;
        (fence, resolve, resets_generation) == (Fence::GenerationAndToken, Protocol::OURS.resolve, false)
    }

    /// What the model says that the worker will be told.
    fn expected(&self, action: Action) -> Option<Answer> {
        let (worker, job) = match action {
            Action::Heartbeat(worker, job)
            | Action::Commit(worker, job)
            | Action::SendCommit(worker, job)
            | Action::Fail(worker, job)
            | Action::Discard(worker, job)
            | Action::Release(worker, job)
            | Action::TakeAway(worker, job)
            | Action::Resolve(worker, job) => (worker, job),
            _ => return None,
        };
        let row = &self.model.db[job];
        let lease = self.model.workers[worker].leases[job].expect("the worker has a lease");
        match action {
            Action::Resolve(..) => {
                let is_over = lease.stage == Stage::InDoubt || self.protocol.resolve != Protocol::OURS.resolve;
                is_over.then(|| resolved(&self.protocol, row, worker, &lease))
            }
            Action::SendCommit(..) if self.protocol.opens(row, worker, &lease) => None,
            Action::Commit(..) if self.protocol.opens(row, worker, &lease) => Some(Answer::Committed),
            _ if self.protocol.opens(row, worker, &lease) => Some(Answer::Ours),
            _ => Some(diagnosed(row, &lease)),
        }
    }

    /// Tokens are random in the one and numbers in the other: equal where they are equal.
    #[track_caller]
    fn compare(&mut self, action: Action) {
        let leases = self.model.leases().count();
        assert_eq!(self.real.leases().count(), leases, "leases after {action:?}");
        for (job, row) in self.model.db.iter().enumerate() {
            let real = self.real.row(job);
            let rest = (row.effects.into(), row.effects > 0 && row.effect_by == row.token);
            assert_eq!(
                (real.state, real.generation, real.expired, real.cancel_requested),
                (row.state, row.generation.into(), row.expired, row.cancel_requested),
                "after {action:?}: {row:?}"
            );
            assert_eq!(
                (real.effects, real.effect_is_owners),
                rest,
                "effects after {action:?}: {row:?}"
            );
            for (worker, of, lease) in self.model.leases().filter(|(_, of, _)| *of == job) {
                let fence = self.real.lease(worker, of);
                assert_eq!(fence.generation, i64::from(lease.generation), "after {action:?}");
                let same = real.lease_token == Some(fence.lease_token);
                assert_eq!(same, row.token == lease.token, "after {action:?}: {row:?}, {lease:?}");
            }
        }
    }
}
