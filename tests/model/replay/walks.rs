//! Random walks through the model, so that it is faithful wherever it goes, and not only on the kept traces.

use super::Replay;
use crate::action::{Action, attempts};
use crate::judgement::Answer;
use crate::report;
use crate::step::step;
use crate::variants::{Durability, Protocol, Scope};

const WALKS: u64 = 12;
const STEPS: usize = 40;

/// The next number of a fixed sequence (a linear congruential generator): the same walks in every run.
fn next(seed: &mut u64) -> usize {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    usize::try_from(*seed >> 33).unwrap_or_default()
}

/// What may be tried next: the commits that will be refused, and all.
fn choices(replay: &Replay) -> (Vec<Action>, Vec<Action>) {
    let mut actions = Vec::new();
    attempts(&replay.protocol, &replay.model, &mut actions);
    let is_refused = |action: &Action| {
        matches!(action, Action::Commit(..)) && step(&replay.protocol, &replay.model, *action) == replay.model
    };
    let refused = actions.iter().copied().filter(is_refused).collect();
    (refused, actions)
}

/// Every worker whose lease is stale tries to commit before each step. How often one was told that the database forgot its
/// claim.
fn walk(seed: u64, protocol: Protocol) -> usize {
    let mut replay = Replay::new(protocol);
    let (mut random, mut losses) = (seed, 0);
    for _ in 0..STEPS {
        let (refused, actions) = choices(&replay);
        for action in refused {
            losses += usize::from(replay.take(action) == Some(Answer::DurabilityLoss));
        }
        if actions.is_empty() {
            break;
        }
        replay.take(actions[next(&mut random) % actions.len()]);
    }
    losses
}

#[test]
fn postgresql_does_what_the_model_does_on_random_walks() {
    let levels = [
        Durability::Durable,
        Durability::ClaimsAlone,
        Durability::Nothing,
        Durability::Nothing,
    ];
    let mut losses = 0;
    for seed in 0..WALKS {
        let durability = levels[usize::try_from(seed).unwrap() % levels.len()];
        let told = walk(
            seed,
            Protocol {
                durability,
                scope: Scope::All,
                max_generation: 5,
                max_crashes: 3,
                ..if seed % 8 < 4 {
                    Protocol::OURS
                } else {
                    Protocol::OURS_IN_BATCHES
                }
            },
        );
        assert!(
            told == 0 || durability == Durability::Nothing,
            "walk {seed}: {told} losses"
        );
        losses += told;
    }
    report(&format!(
        "model: {WALKS} walks of {STEPS} steps on PostgreSQL, {losses} durability losses told"
    ));
    assert!(losses > 0, "the walks meet one");
}
