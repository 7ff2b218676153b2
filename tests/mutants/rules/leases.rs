//! Heartbeat and sweep.

use leasehold::__private::{LeaseStatements, SweepStatements};
use leasehold::Schema;
use leasehold_tests::TestDb;

use crate::bench::Bench;
use crate::jobs::{claim, enqueue, lease_until_ms, take_over};

pub(crate) fn another_ones_lease_is_not_extended(bench: &mut Bench) -> Result<(), String> {
    enqueue(&mut bench.direct, 1);
    let stale = claim(&mut bench.direct);
    let owner = take_over(&mut bench.direct, stale.id);
    // In its last second, so that an extension shows.
    bench
        .db
        .set_time("leasehold.jobs", "lease_until", 1000, "state = 'running'");
    let before = lease_until_ms(&mut bench.db, owner.id);
    bench.mutant.heartbeat(&Schema::default(), &[stale]).unwrap();
    if lease_until_ms(&mut bench.db, owner.id) == before {
        return Ok(());
    }
    Err("a stale worker extended it".to_owned())
}

pub(crate) fn a_heartbeat_counts_from_now(bench: &mut Bench) -> Result<(), String> {
    enqueue(&mut bench.direct, 1);
    let fence = claim(&mut bench.direct);
    // As after a clock that was an hour ahead.
    bench
        .db
        .set_time("leasehold.jobs", "lease_until", 3_600_000, "state = 'running'");
    let wrong = lease_until_ms(&mut bench.db, fence.id);
    bench.mutant.heartbeat(&Schema::default(), &[fence]).unwrap();
    if lease_until_ms(&mut bench.db, fence.id) < wrong - 1_000_000 {
        return Ok(());
    }
    Err("the wrong end stayed".to_owned())
}

pub(crate) fn a_lease_that_stands_is_not_swept(bench: &mut Bench) -> Result<(), String> {
    enqueue(&mut bench.direct, 1);
    claim(&mut bench.direct);
    let swept = bench.mutant.sweep(&Schema::default(), 10).unwrap();
    if swept.is_empty() {
        return Ok(());
    }
    Err(format!("{swept:?}"))
}
