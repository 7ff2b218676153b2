//! The counter-examples: how each weaker protocol breaks, kept as the checker found them or told a little more plainly.

use crate::action::Action::{self, Claim, Commit, Crash, Expire, Fail, Land, Resolve, SendCommit, Sweep};
use crate::judgement::Answer;
use crate::rules::{DURABILITY_LOSS, LOST_ANSWER, OWNERS_COMMIT};
use crate::variants::{Durability, Fence, Protocol, Resolve as How};

/// How a protocol breaks. Workers 0 and 1 are threads of one process, worker 2 is in another; there is one job, 0.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) name: &'static str,
    pub(crate) protocol: Protocol,
    /// The rule that is broken at the end, and not before.
    pub(crate) breaks: &'static str,
    pub(crate) actions: &'static [Action],
    /// What worker 0 is told by our protocol, after the same actions.
    pub(crate) ours: Answer,
}

pub(crate) const TRACES: [Trace; 6] = [
    Trace {
        name: "the id alone: a worker whose lease was swept completes the job of the next one",
        protocol: Protocol {
            fence: Fence::IdOnly,
            ..Protocol::OURS
        },
        breaks: OWNERS_COMMIT,
        actions: &[Claim(0, 0), Expire(0), Sweep(0), Claim(2, 0), Commit(0, 0)],
        ours: Answer::Refused,
    },
    Trace {
        name: "the generation alone: a claim that the database forgot has its generation given out again",
        protocol: Protocol {
            fence: Fence::Generation,
            durability: Durability::Nothing,
            ..Protocol::OURS
        },
        breaks: OWNERS_COMMIT,
        actions: &[Claim(0, 0), Crash, Claim(2, 0), Commit(0, 0)],
        ours: Answer::DurabilityLoss,
    },
    Trace {
        name: "generation and process: the second claim is of another thread of the same process",
        protocol: Protocol {
            fence: Fence::GenerationAndProcess,
            durability: Durability::Nothing,
            ..Protocol::OURS
        },
        breaks: OWNERS_COMMIT,
        actions: &[Claim(0, 0), Crash, Claim(1, 0), Commit(0, 0)],
        ours: Answer::DurabilityLoss,
    },
    Trace {
        name: "generation reset on retry: it comes round to a stale worker without any crash",
        protocol: Protocol {
            fence: Fence::Generation,
            resets_generation: true,
            ..Protocol::OURS
        },
        breaks: OWNERS_COMMIT,
        actions: &[
            Claim(0, 0),
            Expire(0),
            Sweep(0),
            Claim(1, 0),
            Fail(1, 0),
            Claim(2, 0),
            Commit(0, 0),
        ],
        ours: Answer::Refused,
    },
    Trace {
        name: "generation reset on retry, with the token: safe, but it looks like a durability loss",
        protocol: Protocol {
            resets_generation: true,
            ..Protocol::OURS
        },
        breaks: DURABILITY_LOSS,
        actions: &[Claim(0, 0), Expire(0), Sweep(0), Claim(1, 0), Fail(1, 0)],
        ours: Answer::Refused,
    },
    Trace {
        name: "a lost answer resolved by a plain read: the transaction in doubt commits after the verdict",
        protocol: Protocol {
            resolve: How::PlainRead,
            ..Protocol::OURS
        },
        breaks: LOST_ANSWER,
        actions: &[Claim(0, 0), SendCommit(0, 0), Resolve(0, 0), Land(0, 0)],
        ours: Answer::Committed,
    },
];

impl Trace {
    /// Our protocol where the database forgets as much.
    pub(crate) fn ours(&self) -> Protocol {
        Protocol {
            durability: self.protocol.durability,
            ..Protocol::OURS
        }
    }
}
