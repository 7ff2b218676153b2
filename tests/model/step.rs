//! What each action does.

use crate::action::Action;
use crate::judgement::{Answer, resolved};
use crate::state::{Lease, NONE, Row, Stage, State, System, Token};
use crate::variants::{Durability, Protocol, Resolve};

/// The state after an action that may be tried in `before`.
pub(crate) fn step(protocol: &Protocol, before: &System, action: Action) -> System {
    let mut step = Step::from(protocol, before);
    step.take(action);
    step.system.canonical()
}

/// Several actions, one after the other.
pub(crate) struct Step<'a> {
    protocol: &'a Protocol,
    pub(crate) system: System,
}

impl<'a> Step<'a> {
    pub(crate) fn from(protocol: &'a Protocol, system: &System) -> Self {
        Self {
            protocol,
            system: system.clone(),
        }
    }

    pub(crate) fn take(&mut self, action: Action) {
        match action {
            Action::Claim(worker, job) => self.claim(worker, &[job], true),
            Action::ClaimBatch(worker) => self.claim(worker, &self.ready(), true),
            Action::ClaimUnanswered(worker) => self.claim(worker, &self.ready(), false),
            Action::FindClaimed(worker) => self.find_claimed(worker),
            Action::Expire(job) => self.write(job, |row| row.expired = true),
            Action::Sweep(job) => self.write(job, |row| take_away(row, back_to(row))),
            Action::Heartbeat(worker, job) => self.fenced(worker, job, |row| row.expired = false),
            Action::Commit(worker, job) => {
                if self.complete(worker, job) {
                    self.come_to(worker, job, Stage::Acknowledged);
                }
            }
            Action::SendCommit(worker, job) => {
                let lease = self.lease(worker, job);
                if self.protocol.opens(&self.system.db[job], worker, &lease) {
                    self.come_to(worker, job, Stage::Sent { given_up: false });
                }
            }
            Action::Land(worker, job) => {
                let given_up = self.lease(worker, job).stage == Stage::Sent { given_up: true };
                self.complete(worker, job);
                self.system.landed_after_all |= given_up;
                self.come_to(worker, job, Stage::InDoubt);
            }
            Action::Abort(worker, job) => self.come_to(worker, job, Stage::InDoubt),
            Action::Resolve(worker, job) => self.resolve(worker, job),
            Action::Fail(worker, job) => self.fail(worker, job),
            Action::Discard(worker, job) => self.fenced(worker, job, |row| leave(row, State::Discarded)),
            Action::Release(worker, job) => self.fenced(worker, job, |row| leave(row, State::Ready)),
            Action::TakeAway(worker, job) => self.fenced(worker, job, |row| take_away(row, back_to(row))),
            Action::SoftCancel(job) => self.write(job, |row| row.cancel_requested = true),
            Action::HardCancel(job) => self.write(job, |row| take_away(row, State::Cancelled)),
            Action::Requeue(job) => self.write(job, |row| take_away(row, State::Ready)),
            Action::Die(worker) => {
                let it = &mut self.system.workers[worker];
                it.claiming = NONE;
                it.leases.fill(None);
            }
            Action::Flush => self.system.disk.clone_from(&self.system.db),
            Action::Crash => self.crash(),
        }
    }

    /// A committed change of one row.
    fn write(&mut self, job: usize, change: impl FnOnce(&mut Row)) {
        change(&mut self.system.db[job]);
        if self.protocol.durability == Durability::Durable {
            self.take(Action::Flush);
        }
    }

    /// A change that a worker makes under its fence, or zero rows.
    fn fenced(&mut self, worker: usize, job: usize, change: impl FnOnce(&mut Row)) {
        let lease = self.lease(worker, job);
        if self.protocol.opens(&self.system.db[job], worker, &lease) {
            self.write(job, change);
        }
    }

    fn lease(&self, worker: usize, job: usize) -> Lease {
        self.system.workers[worker].leases[job].expect("the worker has a lease")
    }

    fn come_to(&mut self, worker: usize, job: usize, stage: Stage) {
        let lease = self.system.workers[worker].leases[job].as_mut();
        lease.expect("the worker has a lease").stage = stage;
    }

    fn ready(&self) -> Vec<usize> {
        let jobs = 0..self.protocol.jobs;
        jobs.filter(|&job| self.system.db[job].state == State::Ready).collect()
    }

    fn claim(&mut self, worker: usize, jobs: &[usize], answered: bool) {
        let token: Token = self.system.fresh_token();
        let process = self.protocol.process(worker);
        for &job in jobs {
            let row = &mut self.system.db[job];
            *row = Row {
                state: State::Running,
                generation: row.generation + 1,
                token,
                process,
                expired: false,
                past: row.past | 1 << token,
                ..*row
            };
        }
        if self.protocol.durability != Durability::Nothing {
            self.take(Action::Flush);
        }
        self.system.workers[worker].claiming = token;
        if answered {
            self.find_claimed(worker);
        }
    }

    fn find_claimed(&mut self, worker: usize) {
        let token = std::mem::replace(&mut self.system.workers[worker].claiming, NONE);
        for (row, lease) in self.system.db.iter().zip(&mut self.system.workers[worker].leases) {
            if row.state == State::Running && row.token == token {
                *lease = Some(Lease {
                    generation: row.generation,
                    token,
                    stage: Stage::Held,
                });
            }
        }
    }

    /// Business row and completion; whether they are committed.
    fn complete(&mut self, worker: usize, job: usize) -> bool {
        let lease = self.lease(worker, job);
        let passes = self.protocol.opens(&self.system.db[job], worker, &lease);
        self.fenced(worker, job, |row| {
            row.effects += 1;
            row.effect_by = lease.token;
            leave(row, State::Completed);
        });
        passes
    }

    fn fail(&mut self, worker: usize, job: usize) {
        let resets = self.protocol.resets_generation;
        self.fenced(worker, job, |row| {
            leave(row, back_to(row));
            if resets && row.state == State::Ready {
                row.generation = 0;
            }
        });
    }

    fn resolve(&mut self, worker: usize, job: usize) {
        let lease = self.lease(worker, job);
        if lease.stage != Stage::InDoubt && self.protocol.resolve == Resolve::UnderLock {
            // Still waits for the lock.
            return;
        }
        let stage = match resolved(self.protocol, &self.system.db[job], worker, &lease) {
            Answer::Committed => Stage::Acknowledged,
            // It may commit again, or find out that it must not.
            _ if lease.stage == Stage::InDoubt => Stage::Held,
            _ => Stage::Sent { given_up: true },
        };
        self.come_to(worker, job, stage);
    }

    /// Workers live on; what they had under way on the server is over.
    fn crash(&mut self) {
        self.system.crashes += 1;
        self.system.db.clone_from(&self.system.disk);
        let leases = self.system.workers.iter_mut().flat_map(|worker| &mut worker.leases);
        for lease in leases.flatten() {
            if matches!(lease.stage, Stage::Sent { .. }) {
                lease.stage = Stage::InDoubt;
            }
        }
    }
}

/// Where a job goes that is not done.
fn back_to(row: &Row) -> State {
    if row.cancel_requested {
        State::Cancelled
    } else {
        State::Ready
    }
}

/// Ownership is taken, if anybody has it.
fn take_away(row: &mut Row, state: State) {
    row.generation += 1;
    leave(row, state);
}

/// The row leaves `running`, or a state outside of it: token and generation stay.
fn leave(row: &mut Row, state: State) {
    *row = Row {
        state,
        process: 0,
        expired: false,
        cancel_requested: row.cancel_requested && !state.is_terminal(),
        ..*row
    };
}
