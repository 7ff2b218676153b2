//! Random walks through the model, so that it is faithful wherever it goes, and not only on the kept traces.

use super::Replay;
use crate::action::attempts;
use crate::report;
use crate::variants::{Durability, Protocol, Scope};

const STEPS: usize = 40;

/// The next number of a fixed sequence (a linear congruential generator): the same walks in every run.
fn next(seed: &mut u64) -> usize {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    usize::try_from(*seed >> 33).unwrap_or_default()
}

fn walk(seed: u64, protocol: Protocol) -> usize {
    let mut replay = Replay::new(protocol);
    let (mut random, mut refused) = (seed, 0);
    for _ in 0..STEPS {
        let mut actions = Vec::new();
        attempts(&replay.protocol, &replay.model, &mut actions);
        if actions.is_empty() {
            break;
        }
        let action = actions[next(&mut random) % actions.len()];
        let before = replay.model.clone();
        let told = replay.take(action);
        refused += usize::from(told.is_some() && before == replay.model);
    }
    refused
}

#[test]
fn postgresql_does_what_the_model_does_on_random_walks() {
    let levels = [Durability::Durable, Durability::ClaimsAlone, Durability::Nothing];
    let mut refused = 0;
    for seed in 0..24 {
        let protocol = Protocol {
            durability: levels[usize::try_from(seed).unwrap() % levels.len()],
            scope: Scope::All,
            max_generation: 5,
            max_crashes: 2,
            ..if seed % 2 == 0 {
                Protocol::OURS
            } else {
                Protocol::OURS_IN_BATCHES
            }
        };
        refused += walk(seed, protocol);
    }
    report(&format!(
        "model: 24 walks of {STEPS} steps on PostgreSQL, {refused} writes refused or without effect"
    ));
    assert!(refused > 20, "the walks meet the fence: {refused}");
}
