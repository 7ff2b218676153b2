//! Where the time goes between the enqueue and the handler.

use std::collections::BTreeMap;
use std::time::Duration;

use super::side::Heard;
use crate::samples::Samples;
use crate::statements::Which;

/// The steps of the way, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    Enqueue,
    ToFirstStatement,
    BeforeTheClaim,
    Claim,
    ToHandler,
}

impl Step {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Enqueue => "path 1: the enqueue",
            Self::ToFirstStatement => "path 2: from its return to the claimer's first statement",
            Self::BeforeTheClaim => "path 3: other statements before the claim",
            Self::Claim => "path 4: the claim",
            Self::ToHandler => "path 5: from the claim's answer to the handler",
        }
    }
}

/// How long each step took, of all jobs.
pub(super) fn steps(heard: &[Heard]) -> BTreeMap<Step, Samples> {
    let mut steps: BTreeMap<Step, Samples> = BTreeMap::new();
    for job in heard {
        let mut add = |step, from: u64, to: u64| {
            let time = Duration::from_nanos(to.saturating_sub(from));
            steps.entry(step).or_default().add(time);
        };
        // What ran before was of the job before; what its settler does is not on the way.
        let on_the_way = |ran: &&crate::statements::Ran| ran.began >= job.called && ran.which != Which::Finish;
        let first = job
            .begun
            .statements
            .iter()
            .filter(on_the_way)
            .map(|ran| ran.began)
            .min();
        let claims = job.begun.statements.iter().filter(on_the_way);
        let claim = claims
            .filter(|ran| ran.which == Which::Claim)
            .max_by_key(|ran| ran.ended);
        let (Some(first), Some(claim)) = (first, claim) else {
            continue;
        };
        add(Step::Enqueue, job.called, job.returned);
        add(Step::ToFirstStatement, job.returned, first);
        add(Step::BeforeTheClaim, first, claim.began);
        add(Step::Claim, claim.began, claim.ended);
        add(Step::ToHandler, claim.ended, job.begun.at);
    }
    steps
}
