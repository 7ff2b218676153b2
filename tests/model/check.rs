//! The checker at work, and what it says of its work.

use std::time::Instant;

use stateright::{Checker, Model, Property};

use crate::action::{Action, attempts};
use crate::rules::properties;
use crate::state::System;
use crate::step::step;
use crate::variants::Protocol;

impl Model for Protocol {
    type State = System;
    type Action = Action;

    fn init_states(&self) -> Vec<System> {
        vec![System::new(self.jobs, self.processes.len())]
    }

    fn actions(&self, system: &System, out: &mut Vec<Action>) {
        attempts(self, system, out);
    }

    fn next_state(&self, before: &System, action: Action) -> Option<System> {
        let after = step(self, before, action);
        (after != *before).then_some(after)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties(self)
    }
}

/// A search that has ended.
pub(crate) struct Searched<C> {
    pub(crate) checker: C,
    /// `12,345 states and 67,890 steps in 1.2 s, to a depth of 20`.
    pub(crate) figures: String,
}

/// Visits every state within the bounds, or the shortest way to one that breaks the protocol's one rule.
pub(crate) fn search(protocol: Protocol) -> Searched<impl Checker<Protocol>> {
    let begin = Instant::now();
    let checker = protocol.checker().spawn_bfs().join();
    let figures = format!(
        "{} states and {} steps in {:.1} s, to a depth of {}",
        grouped(checker.unique_state_count()),
        grouped(checker.state_count()),
        begin.elapsed().as_secs_f32(),
        checker.max_depth()
    );
    Searched { checker, figures }
}

fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The states on the way of `actions`, the first one before them. Also goes where the search does not: a refused write
/// leads nowhere.
pub(crate) fn walk(protocol: &Protocol, actions: &[Action]) -> Vec<System> {
    let mut way = protocol.init_states();
    for &action in actions {
        let last = &way[way.len() - 1];
        way.push(step(protocol, last, action));
    }
    way
}

/// The rules of the protocol that a state breaks.
pub(crate) fn broken(protocol: &Protocol, system: &System) -> Vec<&'static str> {
    let always = |property: &Property<Protocol>| property.expectation == stateright::Expectation::Always;
    let broken = properties(protocol)
        .into_iter()
        .filter(|property| always(property) && !(property.condition)(protocol, system));
    broken.map(|property| property.name).collect()
}
