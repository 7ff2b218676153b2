//! Every weaker protocol breaks, and the checker finds how.

use stateright::Checker;

use crate::check::{broken, search, walk};
use crate::judgement::{diagnosed, resolved};
use crate::report;
use crate::rules::OWNERS_WRITE;
use crate::state::Stage;
use crate::traces::TRACES;
use crate::variants::{Durability, Fence, Protocol};

#[test]
fn the_checker_finds_how_each_weaker_protocol_breaks() {
    for trace in &TRACES {
        let searched = search(Protocol {
            rule: Some(trace.breaks),
            ..trace.protocol.clone()
        });
        let found = searched.checker.assert_any_discovery(trace.breaks).into_actions();
        report(&format!(
            "model: {}\n    found {found:?}\n    after {}",
            trace.name, searched.figures
        ));
        assert!(found.len() <= trace.actions.len(), "{}: {found:?}", trace.name);
    }
}

#[test]
fn each_kept_trace_breaks_its_rule_with_its_last_action() {
    for trace in &TRACES {
        let way = walk(&trace.protocol, trace.actions);
        let (last, before) = way.split_last().unwrap();
        assert!(broken(&trace.protocol, last).contains(&trace.breaks), "{}", trace.name);
        assert!(
            before
                .iter()
                .all(|system| !broken(&trace.protocol, system).contains(&trace.breaks)),
            "{}",
            trace.name
        );
    }
}

#[test]
fn no_kept_trace_breaks_a_rule_of_our_protocol() {
    for trace in &TRACES {
        let ours = trace.ours();
        let way = walk(&ours, trace.actions);
        for system in &way {
            assert_eq!(broken(&ours, system), [""; 0], "{}: {system:?}", trace.name);
        }
        let last = &way[way.len() - 1];
        let (row, lease) = (&last.db[0], last.workers[0].leases[0].unwrap());
        let told = match lease.stage {
            Stage::InDoubt => resolved(&ours, row, 0, &lease),
            _ => diagnosed(row, &lease),
        };
        assert_eq!(told, trace.ours, "{}", trace.name);
    }
}

/// A claim that makes itself durable is enough for the generation, until a replica is promoted.
#[test]
fn only_generation_and_token_hold_at_every_durability() {
    let holds = |fence, durability| {
        let searched = search(Protocol {
            fence,
            durability,
            rule: Some(OWNERS_WRITE),
            ..Protocol::OURS
        });
        searched.checker.discovery(OWNERS_WRITE).is_none()
    };
    for (fence, expected) in [
        (Fence::IdOnly, [false, false, false]),
        (Fence::Generation, [true, true, false]),
        (Fence::GenerationAndProcess, [true, true, false]),
        (Fence::GenerationAndToken, [true, true, true]),
    ] {
        let levels = [Durability::Durable, Durability::ClaimsAlone, Durability::Nothing];
        assert_eq!(levels.map(|durability| holds(fence, durability)), expected, "{fence:?}");
    }
}
