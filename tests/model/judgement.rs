//! What a worker is told of a row: by the library's own functions where the fence is ours.

use std::sync::LazyLock;

use leasehold::__private::{Ownership, Verdict, refusal};
use leasehold::Refusal;
use uuid::Uuid;

use crate::state::{Lease, Row, State};
use crate::variants::{Fence, Protocol};

/// What a worker learns about its lease or its commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The commit is in the database.
    Committed,
    /// It is not, and the job is still the worker's.
    Ours,
    /// The database forgot what it had acknowledged.
    DurabilityLoss,
    /// Refused for another reason.
    Refused,
}

impl From<Option<&Refusal>> for Answer {
    fn from(refusal: Option<&Refusal>) -> Self {
        match refusal {
            None => Self::Ours,
            Some(Refusal::DurabilityLoss { .. }) => Self::DurabilityLoss,
            Some(_) => Self::Refused,
        }
    }
}

/// After a write that matched no row.
pub(crate) fn diagnosed(row: &Row, lease: &Lease) -> Answer {
    case(row, lease).0
}

/// After a COMMIT whose answer was lost.
pub(crate) fn resolved(protocol: &Protocol, row: &Row, worker: usize, lease: &Lease) -> Answer {
    if protocol.fence == Fence::GenerationAndToken {
        return case(row, lease).1;
    }
    match row.state {
        State::Completed if protocol.fits(row, worker, lease) => Answer::Committed,
        State::Running if protocol.fits(row, worker, lease) => Answer::Ours,
        _ => Answer::Refused,
    }
}

const STATES: [(State, &str); 5] = [
    (State::Ready, "ready"),
    (State::Running, "running"),
    (State::Completed, "completed"),
    (State::Discarded, "discarded"),
    (State::Cancelled, "cancelled"),
];

/// More than any bound of a search.
const GENERATIONS: usize = 8;

/// The library's answers, asked for once: states are visited by the million.
static CASES: LazyLock<Vec<(Answer, Answer)>> = LazyLock::new(|| {
    let mut cases = Vec::new();
    for (_, state) in STATES {
        for generation in 0..GENERATIONS {
            for of_lease in 0..GENERATIONS {
                for token in [1, 2] {
                    cases.push(ask(state, generation, of_lease, token));
                }
            }
        }
    }
    cases
});

fn case(row: &Row, lease: &Lease) -> (Answer, Answer) {
    let state = STATES.iter().position(|(state, _)| *state == row.state);
    let state = state.expect("each state is listed");
    let numbers = usize::from(row.generation) * GENERATIONS + usize::from(lease.generation);
    CASES[(state * GENERATIONS * GENERATIONS + numbers) * 2 + usize::from(row.token != lease.token)]
}

fn ask(state: &str, generation: usize, of_lease: usize, token: u128) -> (Answer, Answer) {
    let number = |generation| i64::try_from(generation).expect("a small number");
    let fence = leasehold::__private::Fence {
        id: 1,
        generation: number(of_lease),
        lease_token: Uuid::from_u128(1),
    };
    let row = Ownership {
        state: state.to_owned(),
        generation: number(generation),
        lease_token: Some(Uuid::from_u128(token).to_string()),
    };
    let resolved = match Verdict::of(&fence, Some(&row)) {
        Verdict::Committed => Answer::Committed,
        Verdict::NotCommitted => Answer::Ours,
        Verdict::Refused(refusal) => Answer::from(Some(&refusal)),
    };
    (Answer::from(refusal(&fence, Some(&row)).as_ref()), resolved)
}
