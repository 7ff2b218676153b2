//! The mutants, one test each.

use std::sync::OnceLock;

use uuid::Uuid;

use crate::bench::Bench;
use crate::killed;
use crate::rules::*;

const ALL_WRITES: &str = "begin, heartbeat, complete, complete strictly, finish, release, put back, end";

#[test]
fn without_the_generation() {
    let noticed = killed(
        &[
            ("AND generation = $", "AND 0 <> $"),
            ("AND j.generation = $", "AND 0 <> $"),
            ("AND j.generation = asked.generation", ""),
            (
                "(j.id, j.generation, j.lease_token) IN (SELECT id, generation, lease_token",
                "(j.id, j.lease_token) IN (SELECT id, lease_token",
            ),
        ],
        a_row_at_another_generation_is_left_alone,
    );
    assert_eq!(noticed, ALL_WRITES);
}

#[test]
fn without_the_lease_token() {
    let noticed = killed(
        &[
            ("AND lease_token = $", "AND pg_catalog.gen_random_uuid() <> $"),
            ("AND j.lease_token = $", "AND pg_catalog.gen_random_uuid() <> $"),
            ("AND j.lease_token = asked.lease_token", ""),
            (
                "(j.id, j.generation, j.lease_token) IN (SELECT id, generation, lease_token",
                "(j.id, j.generation) IN (SELECT id, generation",
            ),
        ],
        a_row_with_another_token_is_left_alone,
    );
    assert_eq!(noticed, ALL_WRITES);
}

#[test]
fn without_the_state() {
    let noticed = killed(
        &[("AND state = 'running'", ""), ("AND j.state = 'running'", "")],
        a_row_that_is_not_running_is_left_alone,
    );
    assert_eq!(noticed, ALL_WRITES);
}

#[test]
fn any_generation_from_ours_on() {
    let noticed = killed(
        &[
            ("generation = $", "generation >= $"),
            ("j.generation = asked.generation", "j.generation >= asked.generation"),
            (
                "(j.id, j.generation, j.lease_token) IN (SELECT id, generation, lease_token\n",
                "(j.id, true, j.lease_token) IN (SELECT id, j.generation >= generation, lease_token\n",
            ),
        ],
        a_row_at_another_generation_is_left_alone,
    );
    assert_eq!(noticed, ALL_WRITES);
}

#[test]
fn a_row_count_that_nobody_reads() {
    let mut bench = Bench::new(&[]);
    assert_eq!(a_refused_commit_leaves_nothing(&mut bench, RIGHTLY), Ok(()));
    let driven = Driven {
        reads_count: false,
        ..RIGHTLY
    };
    a_refused_commit_leaves_nothing(&mut Bench::new(&[]), driven).expect_err("the mutant lives");
}

#[test]
fn the_fence_before_the_writes() {
    let mut bench = Bench::new(&[]);
    assert_eq!(a_commit_that_is_told_is_done(&mut bench, RIGHTLY), Ok(()));
    let driven = Driven {
        writes_first: false,
        ..RIGHTLY
    };
    a_commit_that_is_told_is_done(&mut Bench::new(&[]), driven).expect_err("the mutant lives");
}

#[test]
fn a_heartbeat_without_a_fence() {
    killed(
        &[(
            "AND j.generation = asked.generation AND j.lease_token = asked.lease_token",
            "",
        )],
        another_ones_lease_is_not_extended,
    );
}

#[test]
fn a_sweep_of_leases_that_stand() {
    killed(
        &[("AND lease_until <= pg_catalog.clock_timestamp()", "")],
        a_lease_that_stands_is_not_swept,
    );
}

#[test]
fn a_claim_without_a_new_generation() {
    killed(
        &[(
            "generation = j.generation + 1, lease_token",
            "generation = j.generation, lease_token",
        )],
        a_claim_has_a_generation_of_its_own,
    );
}

#[test]
fn a_requeue_that_begins_again_at_zero() {
    killed(
        &[(
            "max_attempts, generation + 1, lease_token",
            "max_attempts, 0, lease_token",
        )],
        a_requeue_keeps_the_generation,
    );
}

#[test]
fn the_time_of_the_transaction_for_the_clock() {
    killed(
        &[(
            "l.lease_until > pg_catalog.clock_timestamp()",
            "l.lease_until > pg_catalog.now()",
        )],
        a_strict_commit_is_judged_after_its_wait,
    );
}

#[test]
fn a_resolution_without_the_lock() {
    killed(
        &[("WHERE id = $1 FOR NO KEY UPDATE", "WHERE id = $1")],
        a_doubt_ends_under_the_lock,
    );
}

#[test]
fn for_update() {
    killed(&[("FOR NO KEY UPDATE", "FOR UPDATE")], a_resolve_blocks_no_reference);
}

/// Without the sort, too, which would keep the rows of its first run by itself.
#[test]
fn a_limit_in_a_sub_select() {
    killed(
        &[
            (
                "j.id = ANY (ARRAY(\n        SELECT best.id",
                "j.id IN (\n        SELECT best.id",
            ),
            (
                "\n    )) AND j.state = 'ready'\n    RETURNING",
                "\n    ) AND j.state = 'ready'\n    RETURNING",
            ),
            ("ORDER BY best.rank, best.run_at, best.id LIMIT", "LIMIT"),
        ],
        a_limit_is_exact,
    );
}

#[test]
fn one_token_for_a_process() {
    let mut bench = Bench::new(&[]);
    assert_eq!(
        a_claim_that_a_crash_forgot_cannot_commit(&mut bench, Uuid::new_v4),
        Ok(())
    );
    static TOKEN: OnceLock<Uuid> = OnceLock::new();
    let tokens = || *TOKEN.get_or_init(Uuid::new_v4);
    a_claim_that_a_crash_forgot_cannot_commit(&mut Bench::new(&[]), tokens).expect_err("the mutant lives");
}

#[test]
fn the_later_of_two_ends_of_a_lease() {
    killed(
        &[(
            "lease_until = pg_catalog.clock_timestamp() + j.lease_ms * INTERVAL '1 millisecond'\n        WHERE j.id = ANY",
            "lease_until = greatest(j.lease_until, pg_catalog.clock_timestamp() + j.lease_ms * INTERVAL '1 millisecond')\n        WHERE j.id = ANY",
        )],
        a_heartbeat_counts_from_now,
    );
}

#[test]
fn a_batch_in_any_order() {
    killed(
        &[(
            "AS given (id, generation, lease_token) ORDER BY id)",
            "AS given (id, generation, lease_token))",
        )],
        rows_are_locked_in_the_order_of_their_ids,
    );
}
