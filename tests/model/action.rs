//! The actions: what workers, people, time and crashes do, one committed statement each.

use crate::state::{NONE, Stage, State, System};
use crate::variants::{Protocol, Resolve, Scope};

/// Workers and jobs are named by their numbers, the worker first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Claims this job; one of several that are ready, where others have locked the rest.
    Claim(usize, usize),
    /// Claims all that is ready, in one call with one token.
    ClaimBatch(usize),
    /// The same, and the answer is lost.
    ClaimUnanswered(usize),
    /// Looks for what that claim took, by its token.
    FindClaimed(usize),
    /// Time: the lease runs out.
    Expire(usize),
    Sweep(usize),
    Heartbeat(usize, usize),
    /// Business row and completion in one transaction, answered.
    Commit(usize, usize),
    /// The same up to the COMMIT, which is sent; its answer will not come.
    SendCommit(usize, usize),
    /// What was sent is committed.
    Land(usize, usize),
    /// What was sent is rolled back.
    Abort(usize, usize),
    /// Reads the row again, after the answer to a COMMIT was lost.
    Resolve(usize, usize),
    /// A failed attempt: put back, or cancelled if that was asked for.
    Fail(usize, usize),
    /// A failed last attempt.
    Discard(usize, usize),
    /// Put back unharmed.
    Release(usize, usize),
    /// Put back while the handler still runs: its timeout, or the end of its process's patience.
    TakeAway(usize, usize),
    SoftCancel(usize),
    HardCancel(usize),
    /// Discarded and cancelled jobs go back to ready by hand.
    Requeue(usize),
    /// The worker's process dies, and another begins.
    Die(usize),
    /// All that was committed so far is durable.
    Flush,
    /// The database loses what was not: a suffix of its commits.
    Crash,
}

impl Action {
    #[cfg(feature = "postgres")]
    pub(crate) fn is_a_claim(self) -> bool {
        matches!(self, Self::Claim(..) | Self::ClaimBatch(_) | Self::ClaimUnanswered(_))
    }

    fn is_in(self, scope: Scope) -> bool {
        let of_one_row = matches!(
            self,
            Self::Heartbeat(..)
                | Self::Discard(..)
                | Self::Release(..)
                | Self::TakeAway(..)
                | Self::SoftCancel(_)
                | Self::HardCancel(_)
                | Self::Requeue(_)
        );
        match scope {
            Scope::All => true,
            Scope::ClaimsCommitsFailures => !of_one_row,
            Scope::ClaimsAndCommits => !of_one_row && !matches!(self, Self::Fail(..)),
        }
    }
}

/// All that may be tried in a state. A write that its fence refuses is among it, and changes nothing.
pub(crate) fn attempts(protocol: &Protocol, system: &System, out: &mut Vec<Action>) {
    for worker in 0..system.workers.len() {
        claims(protocol, system, worker, out);
        for job in 0..protocol.jobs {
            with_lease(protocol, system, worker, job, out);
        }
    }
    for (job, row) in system.db.iter().enumerate() {
        let (locked, room) = (system.is_locked(job), row.generation < protocol.max_generation);
        match row.state {
            State::Running if !locked => {
                out.push(if row.expired {
                    Action::Sweep(job)
                } else {
                    Action::Expire(job)
                });
                if !row.cancel_requested {
                    out.push(Action::SoftCancel(job));
                }
                out.push(Action::HardCancel(job));
            }
            State::Ready => out.push(Action::HardCancel(job)),
            State::Discarded | State::Cancelled if room => out.push(Action::Requeue(job)),
            _ => {}
        }
    }
    if system.db != system.disk {
        out.push(Action::Flush);
    }
    if system.crashes < protocol.max_crashes {
        out.push(Action::Crash);
    }
    out.retain(|action| action.is_in(protocol.scope));
}

fn claims(protocol: &Protocol, system: &System, worker: usize, out: &mut Vec<Action>) {
    let it = &system.workers[worker];
    if it.claiming != NONE {
        out.extend([Action::FindClaimed(worker), Action::Die(worker)]);
        return;
    }
    let ready = |&job: &usize| system.db[job].state == State::Ready;
    let takes = |&job: &usize| system.db[job].generation < protocol.max_generation && it.leases[job].is_none();
    let ready: Vec<usize> = (0..protocol.jobs).filter(ready).collect();
    out.extend(
        ready
            .iter()
            .copied()
            .filter(takes)
            .map(|job| Action::Claim(worker, job)),
    );
    if !ready.is_empty() && ready.iter().all(takes) {
        out.push(Action::ClaimUnanswered(worker));
        if ready.len() > 1 {
            out.push(Action::ClaimBatch(worker));
        }
    }
    let mut leases = it.leases.iter().flatten().peekable();
    // A COMMIT that its worker did not outlive lands or does not, whoever looks: as if the worker died afterwards.
    if leases.peek().is_some() && leases.all(|lease| !matches!(lease.stage, Stage::Sent { .. })) {
        out.push(Action::Die(worker));
    }
}

fn with_lease(protocol: &Protocol, system: &System, worker: usize, job: usize, out: &mut Vec<Action>) {
    let Some(lease) = system.workers[worker].leases[job] else {
        return;
    };
    let free = !system.is_locked(job);
    match lease.stage {
        // A heartbeat skips a locked row, and every other write waits for it.
        Stage::Held if free => {
            out.extend([
                Action::Heartbeat(worker, job),
                Action::Commit(worker, job),
                Action::SendCommit(worker, job),
                Action::Fail(worker, job),
                Action::Discard(worker, job),
                Action::Release(worker, job),
                Action::TakeAway(worker, job),
            ]);
        }
        Stage::Sent { given_up } => {
            out.extend([Action::Land(worker, job), Action::Abort(worker, job)]);
            if protocol.resolve == Resolve::PlainRead && !given_up {
                out.push(Action::Resolve(worker, job));
            }
        }
        // Other threads of the process renew the lease meanwhile, or end it by its timeout.
        Stage::InDoubt if free => out.extend([
            Action::Resolve(worker, job),
            Action::Heartbeat(worker, job),
            Action::TakeAway(worker, job),
        ]),
        Stage::Held | Stage::InDoubt | Stage::Acknowledged => {}
    }
}
