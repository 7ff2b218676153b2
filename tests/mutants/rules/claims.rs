//! What a claim gives out.

use leasehold::__private::{ClaimRequest, ClaimStatements, Completion, Fence, ManageStatements, SweepStatements};
use leasehold::Schema;
use leasehold_tests::TestDb;
use uuid::Uuid;

use crate::bench::Bench;
use crate::jobs::{claim, complete, enqueue, serves};

pub(crate) fn a_claim_has_a_generation_of_its_own(bench: &mut Bench) -> Result<(), String> {
    enqueue(&mut bench.direct, 1);
    let first = claim(&mut bench.mutant);
    if first.generation > 0 {
        return Ok(());
    }
    Err(format!("it is at {}, as before the claim", first.generation))
}

pub(crate) fn a_requeue_keeps_the_generation(bench: &mut Bench) -> Result<(), String> {
    let id = enqueue(&mut bench.direct, 1)[0];
    bench
        .db
        .sql(&format!("UPDATE leasehold.jobs SET max_attempts = 1 WHERE id = {id}"));
    let first = claim(&mut bench.direct);
    bench
        .db
        .set_time("leasehold.jobs", "lease_until", -1000, "state = 'running'");
    let swept = bench.direct.sweep(&Schema::default(), 1).unwrap();
    assert_eq!(swept[0].state, "discarded");
    bench.mutant.requeue(&Schema::default(), &[id]).unwrap();
    let again = claim(&mut bench.direct);
    if again.generation > first.generation + 1 {
        return Ok(());
    }
    Err(format!("generation {} was given out before", again.generation))
}

/// Draws the tokens of a process: a fresh one for each claim, or one at its start.
pub(crate) type Tokens = fn() -> Uuid;

/// The database forgets the claim of a worker that was told of it, and gives the job to another.
pub(crate) fn a_claim_that_a_crash_forgot_cannot_commit(bench: &mut Bench, tokens: Tokens) -> Result<(), String> {
    let id = enqueue(&mut bench.direct, 1)[0];
    let forgotten = claim_with(bench, tokens());
    let before = "state = 'ready', generation = generation - 1, attempt = attempt - 1, lease_token = NULL, \
                  lease_until = NULL, worker = NULL, begun = false";
    bench
        .db
        .sql(&format!("UPDATE leasehold.jobs SET {before} WHERE id = {id}"));
    let owner = claim_with(bench, tokens());
    assert_eq!(owner.generation, forgotten.generation);
    match complete(&mut bench.mutant, &forgotten, false) {
        Completion::Completed => Err("it committed in place of the owner".to_owned()),
        _ => Ok(()),
    }
}

fn claim_with(bench: &mut Bench, lease_token: Uuid) -> Fence {
    let request = ClaimRequest {
        serves: &serves(),
        limit: 1,
        lease_token,
        worker: Uuid::new_v4(),
        begun: true,
        counted: &[],
        oldest: false,
        behind: &[],
    };
    let rows = bench.mutant.claim(&Schema::default(), &request).unwrap();
    Fence {
        id: rows[0].id,
        generation: rows[0].generation,
        lease_token,
    }
}
