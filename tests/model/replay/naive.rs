//! What weaker protocols would do instead, in SQL of the tests' own.

use diesel::RunQueryDsl;
use leasehold::__private::Verdict;

use super::database::Database;
use super::library::{self, diagnose, judge};
use crate::action::Action;
use crate::judgement::Answer;
use crate::variants::{Fence, Protocol, Resolve};

const KEPT: &str = "id, queue, kind, version, payload, priority, run_at, attempt, max_attempts, generation, lease_token, lease_ms, \
    idempotency_key, created_at";

/// The writes that a weaker fence lets through; all else is the library's.
pub(super) fn take(real: &mut Database, protocol: &Protocol, action: Action) -> Option<Answer> {
    let (worker, job) = match action {
        Action::Commit(worker, job) | Action::Fail(worker, job) | Action::Resolve(worker, job) => (worker, job),
        Action::Heartbeat(..) | Action::Discard(..) | Action::Release(..) | Action::TakeAway(..) => {
            unreachable!("no trace of a weaker fence has it")
        }
        _ => return library::take(real, action),
    };
    if let Action::Resolve(..) = action {
        assert_eq!(protocol.resolve, Resolve::PlainRead);
        let (lease, row) = (real.lease(worker, job), real.ownership(job));
        return Some(judge(&Verdict::of(&lease, row.as_ref())));
    }
    let fence = condition(real, protocol.fence, worker, job);
    let lease_token = real.lease(worker, job).lease_token;
    let text = match action {
        Action::Commit(..) => format!(
            "WITH ended AS (DELETE FROM leasehold.jobs WHERE {fence} RETURNING *),
                moved AS (INSERT INTO leasehold.finished_jobs ({KEPT}, state) SELECT {KEPT}, 'completed' FROM ended RETURNING id)
             INSERT INTO effects SELECT id, '{lease_token}' FROM moved"
        ),
        _ => format!(
            "UPDATE leasehold.jobs SET state = 'ready', generation = {}, lease_until = NULL, worker = NULL, begun = false
             WHERE {fence}",
            if protocol.resets_generation { "0" } else { "generation" }
        ),
    };
    let rows = diesel::sql_query(text).execute(&mut real.conn).unwrap();
    Some(match (rows, action) {
        (0, _) => diagnose(real, worker, job),
        (_, Action::Commit(..)) => Answer::Committed,
        _ => Answer::Ours,
    })
}

fn condition(real: &Database, fence: Fence, worker: usize, job: usize) -> String {
    let lease = real.lease(worker, job);
    let (id, generation, lease_token) = (lease.id, lease.generation, lease.lease_token);
    let running = format!("state = 'running' AND id = {id}");
    match fence {
        Fence::IdOnly => running,
        Fence::Generation => format!("{running} AND generation = {generation}"),
        Fence::GenerationAndProcess => {
            let process = real.processes[worker];
            format!("{running} AND generation = {generation} AND worker = '{process}'")
        }
        Fence::GenerationAndToken => {
            format!("{running} AND generation = {generation} AND lease_token = '{lease_token}'")
        }
    }
}
