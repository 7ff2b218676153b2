//! Each action by the library's own statements.

use diesel::PgConnection;
use diesel::connection::{AnsiTransactionManager, TransactionManager};
use leasehold::__private::{
    AttemptError, ClaimRequest, ClaimStatements, CommitStatements, Completion, Connect, ConnectionSettings, End, Fence,
    InspectStatements, LeaseStatements, ManageStatements, PutBack, SettleStatements, SweepStatements, Verdict, refusal,
};
use leasehold::Schema;
use leasehold::inspect::State;
use uuid::Uuid;

use super::database::{Database, serves};
use crate::action::Action;
use crate::judgement::Answer;

pub(super) fn take(real: &mut Database, action: Action) -> Option<Answer> {
    let schema = &Schema::default();
    match action {
        Action::Claim(worker, job) => claim(real, worker, &[job], true),
        Action::ClaimBatch(worker) => claim(real, worker, &all(real), true),
        Action::ClaimUnanswered(worker) => claim(real, worker, &all(real), false),
        Action::FindClaimed(worker) => find_claimed(real, worker),
        Action::Expire(job) => {
            real.conn.expire_lease(schema, real.ids[job]).unwrap();
        }
        Action::Sweep(job) => {
            real.conn.sweep_one(schema, real.ids[job]).unwrap();
        }
        Action::SoftCancel(job) => {
            real.conn.request_cancel(schema, &[real.ids[job]]).unwrap();
        }
        Action::HardCancel(job) => {
            let ids = [real.ids[job]];
            real.conn
                .end_open(schema, &ids, true, State::Cancelled, "by hand")
                .unwrap();
        }
        Action::Requeue(job) => {
            real.conn.requeue(schema, &[real.ids[job]]).unwrap();
        }
        Action::Die(worker) => real.forget(worker),
        Action::Flush => {}
        Action::Crash => real.crash(),
        Action::SendCommit(worker, job) => return send_commit(real, worker, job),
        Action::Land(worker, job) | Action::Abort(worker, job) => {
            let mut session = real.sent.remove(&(worker, job)).unwrap();
            let end = match action {
                Action::Land(..) => AnsiTransactionManager::commit_transaction(&mut session),
                _ => AnsiTransactionManager::rollback_transaction(&mut session),
            };
            end.unwrap();
            real.idle.push(session);
        }
        Action::Resolve(worker, job) => return resolve(real, worker, job),
        Action::Commit(worker, job) => {
            let told = send_commit(real, worker, job);
            if told.is_some() {
                return told;
            }
            take(real, Action::Land(worker, job));
            return Some(Answer::Committed);
        }
        Action::Heartbeat(worker, job)
        | Action::Fail(worker, job)
        | Action::Discard(worker, job)
        | Action::Release(worker, job)
        | Action::TakeAway(worker, job) => {
            let lease = real.lease(worker, job);
            let passes = fenced(&mut real.conn, action, &lease);
            return Some(if passes {
                Answer::Ours
            } else {
                diagnose(real, worker, job)
            });
        }
    }
    None
}

fn all(real: &Database) -> Vec<usize> {
    (0..real.ids.len()).collect()
}

fn claim(real: &mut Database, worker: usize, jobs: &[usize], answered: bool) {
    let lease_token = Uuid::new_v4();
    let request = ClaimRequest {
        serves: &serves(jobs.iter().copied()),
        limit: 10,
        lease_token,
        worker: real.processes[worker],
        begun: true,
        counted: &[],
        oldest: false,
        behind: &[],
    };
    let rows = real.conn.claim(&Schema::default(), &request).unwrap();
    if !answered {
        real.claiming[worker] = Some(lease_token);
        return;
    }
    for row in rows {
        let (id, generation) = (row.id, row.generation);
        real.told(
            worker,
            Fence {
                id,
                generation,
                lease_token,
            },
        );
    }
}

fn find_claimed(real: &mut Database, worker: usize) {
    let lease_token = real.claiming[worker].take().unwrap();
    for row in real.conn.find_claimed(&Schema::default(), lease_token).unwrap() {
        let (id, generation) = (row.id, row.generation);
        real.told(
            worker,
            Fence {
                id,
                generation,
                lease_token,
            },
        );
    }
}

/// A write under the fence; whether it changed the row. As the runtime settles: a job that was asked to stop ends instead
/// of being put back.
fn fenced(conn: &mut PgConnection, action: Action, lease: &Fence) -> bool {
    let schema = &Schema::default();
    let takes_away = matches!(action, Action::TakeAway(..));
    let error = Some(AttemptError {
        cause: if takes_away { "timeout" } else { "error" },
        error: "why".to_owned(),
    });
    let end = |state, error| End {
        state,
        reason: None,
        takes_away,
        error,
    };
    match action {
        Action::Heartbeat(..) => conn
            .heartbeat(schema, &[*lease])
            .unwrap()
            .iter()
            .any(|beat| beat.renewed),
        Action::Release(..) => !conn.release(schema, &[*lease]).unwrap().is_empty(),
        Action::Discard(..) => conn.end(schema, lease, &end("discarded", error)).unwrap() == 1,
        _ => {
            let how = PutBack {
                delay_ms: 0,
                uses_attempt: true,
                takes_away,
                error: error.clone(),
            };
            conn.put_back(schema, lease, &how).unwrap() == 1
                || refusal(lease, conn.ownership(schema, lease.id).unwrap().as_ref()).is_none()
                    && conn.end(schema, lease, &end("cancelled", error)).unwrap() == 1
        }
    }
}

/// What a worker is told after zero rows.
pub(super) fn diagnose(real: &mut Database, worker: usize, job: usize) -> Answer {
    let lease = real.lease(worker, job);
    Answer::from(refusal(&lease, real.ownership(job).as_ref()).as_ref())
}

/// Business row and completion, in a transaction that stays open; what the worker is told instead if it is refused.
fn send_commit(real: &mut Database, worker: usize, job: usize) -> Option<Answer> {
    let lease = real.lease(worker, job);
    let mut session = real.session();
    session.begin_commit(None, &ConnectionSettings::default()).unwrap();
    Database::write_effect(&mut session, &lease);
    if session.complete(&Schema::default(), &lease, false).unwrap() == Completion::Completed {
        real.sent.insert((worker, job), session);
        return None;
    }
    AnsiTransactionManager::rollback_transaction(&mut session).unwrap();
    real.idle.push(session);
    Some(diagnose(real, worker, job))
}

/// Nothing while the row is locked.
fn resolve(real: &mut Database, worker: usize, job: usize) -> Option<Answer> {
    let (schema, lease) = (Schema::default(), real.lease(worker, job));
    real.conn.begin_resolve().unwrap();
    let row = real.conn.lock_ownership(&schema, lease.id);
    let row = row.and_then(|row| match row {
        None => real.conn.ownership(&schema, lease.id),
        row => Ok(row),
    });
    AnsiTransactionManager::rollback_transaction(&mut real.conn).unwrap();
    Some(judge(&Verdict::of(&lease, row.ok()?.as_ref())))
}

pub(super) fn judge(verdict: &Verdict) -> Answer {
    match verdict {
        Verdict::Committed => Answer::Committed,
        Verdict::NotCommitted => Answer::Ours,
        Verdict::Refused(refusal) => Answer::from(Some(refusal)),
    }
}
