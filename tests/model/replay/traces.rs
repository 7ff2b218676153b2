//! The kept traces against PostgreSQL: what passes with a weaker protocol, and is refused by ours.

use super::Replay;
use super::library::diagnose;
use crate::action::Action;
use crate::judgement::Answer;
use crate::rules::{DURABILITY_LOSS, LOST_ANSWER, OWNERS_COMMIT};
use crate::state::{Stage, State};
use crate::traces::TRACES;

#[test]
fn each_trace_breaks_its_rule_on_postgresql_with_the_weaker_protocol() {
    for trace in &TRACES {
        let mut replay = Replay::new(trace.protocol.clone());
        let told: Vec<_> = trace.actions.iter().map(|&action| replay.take(action)).collect();
        let row = replay.real.row(0);
        match trace.breaks {
            OWNERS_COMMIT => {
                assert_eq!(told.last(), Some(&Some(Answer::Committed)), "{}", trace.name);
                assert_eq!((row.effects, row.effect_is_owners), (1, false), "{}", trace.name);
            }
            // Nothing was lost, and yet the library's own judgement cannot but say so.
            DURABILITY_LOSS => assert_eq!(
                diagnose(&mut replay.real, 0, 0),
                Answer::DurabilityLoss,
                "{}",
                trace.name
            ),
            LOST_ANSWER => {
                assert!(
                    told.contains(&Some(Answer::Ours)),
                    "{}: told as not committed",
                    trace.name
                );
                assert_eq!((row.state, row.effects), (State::Completed, 1), "{}", trace.name);
            }
            other => panic!("{}: nothing looks whether {other} is broken", trace.name),
        }
    }
}

#[test]
fn our_statements_refuse_what_passed_there_and_let_the_owner_through() {
    for trace in &TRACES {
        let mut replay = Replay::new(trace.ours());
        for &action in trace.actions {
            replay.take(action);
        }
        let last = replay.model.workers[0].leases[0].unwrap().stage;
        let told = replay.take(match last {
            Stage::InDoubt => Action::Resolve(0, 0),
            _ => Action::Commit(0, 0),
        });
        assert_eq!(told, Some(trace.ours), "{}", trace.name);
        let row = replay.model.db[0];
        let mut leases = replay.model.leases();
        let owner = leases.find(|(_, _, lease)| row.state == State::Running && lease.token == row.token);
        if let Some((owner, job, _)) = owner {
            drop(leases);
            assert_eq!(
                replay.take(Action::Commit(owner, job)),
                Some(Answer::Committed),
                "{}",
                trace.name
            );
        }
        let row = replay.real.row(0);
        assert_eq!(row.effect_is_owners, row.state == State::Completed, "{}", trace.name);
        assert_eq!(row.effects, i64::from(row.state == State::Completed), "{}", trace.name);
    }
}
