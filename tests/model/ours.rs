//! Our fence keeps every rule, whatever the database forgets.

use stateright::Checker;

use crate::check::search;
use crate::report;
use crate::variants::{Durability, Protocol, Scope};

/// Every state within the bounds, and each property that has to happen did.
fn keeps_every_rule(protocol: Protocol) {
    let Protocol {
        durability,
        scope,
        jobs,
        processes,
        max_generation,
        max_crashes,
        ..
    } = protocol;
    let searched = search(protocol);
    report(&format!(
        "model: generation and token; durable: {durability:?}; actions: {scope:?}; jobs {jobs}, workers {}, claims up to \
         generation {max_generation}, crashes {max_crashes}: {}",
        processes.len(),
        searched.figures
    ));
    searched.checker.assert_properties();
}

fn with_one_job(durability: Durability) {
    keeps_every_rule(Protocol {
        durability,
        ..Protocol::OURS
    });
}

fn with_batches(durability: Durability, scope: Scope) {
    keeps_every_rule(Protocol {
        durability,
        scope,
        ..Protocol::OURS_IN_BATCHES
    });
}

#[test]
fn generation_and_token_keep_every_rule_where_every_commit_is_durable() {
    with_one_job(Durability::Durable);
    with_batches(Durability::Durable, Scope::ClaimsCommitsFailures);
}

#[test]
fn generation_and_token_keep_every_rule_with_synchronous_commit_off() {
    with_one_job(Durability::ClaimsAlone);
    with_batches(Durability::ClaimsAlone, Scope::ClaimsCommitsFailures);
}

#[test]
fn generation_and_token_keep_every_rule_after_the_promotion_of_a_replica_that_lagged() {
    with_one_job(Durability::Nothing);
}

#[test]
fn generation_and_token_keep_every_rule_for_batches_after_such_a_promotion() {
    with_batches(Durability::Nothing, Scope::ClaimsAndCommits);
}

#[test]
#[ignore = "ten million states take minutes"]
fn generation_and_token_keep_every_rule_for_batches_with_failures_after_such_a_promotion() {
    with_batches(Durability::Nothing, Scope::ClaimsCommitsFailures);
}
