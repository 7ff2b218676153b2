//! The rules: what holds in every state that can be reached. They look at what a write or a read would be answered now, and
//! since each may come at any time, that is what it is answered whenever it comes.

use stateright::Property;

use crate::action::Action;
use crate::judgement::{Answer, diagnosed, resolved};
use crate::state::{Lease, Row, Stage, State, System};
use crate::step::Step;
use crate::variants::{Durability, Fence, Protocol};

pub(crate) const ONE_COMMIT: &str = "a job is completed by one commit, and by no more";
pub(crate) const OWNERS_COMMIT: &str = "a commit is its owner's";
pub(crate) const OWNERS_WRITE: &str = "the owner's write passes, and nobody else's";
pub(crate) const STALE_IS_REFUSED: &str = "a write that does not pass is told as refused, one that passes is not";
pub(crate) const LOST_ANSWER: &str = "a commit whose answer was lost is told as it is";
pub(crate) const DURABILITY_LOSS: &str = "a durability loss is told exactly when the row proves it";
pub(crate) const ACKNOWLEDGED_STAYS: &str = "what was told as committed stays";
pub(crate) const CLAIMS_STAY: &str = "a claim that was told is never forgotten";
pub(crate) const CAN_FINISH: &str = "every job can still be completed, or has ended";

const COMPLETES: &str = "a job is completed";
const RESOLVES: &str = "a commit that landed unanswered is found";
const TAKES_OVER: &str = "a worker believes in a lease that another one has";
const TOLD_TWICE: &str = "the same generation is told to two workers";
const PROVEN: &str = "a durability loss is told";
const NOT_PROVABLE: &str = "a claim was forgotten, and the row has grown beyond the proof";
const UNDONE: &str = "what was told as committed is undone";

type Condition = fn(&Protocol, &System) -> bool;

/// What has to hold of a protocol, and what has to happen so that the rules were put to the test.
pub(crate) fn properties(protocol: &Protocol) -> Vec<Property<Protocol>> {
    let mut always: Vec<(&'static str, Condition)> = vec![
        (ONE_COMMIT, one_commit),
        (OWNERS_COMMIT, owners_commit),
        (OWNERS_WRITE, owners_write),
        (LOST_ANSWER, lost_answer),
        (CAN_FINISH, can_finish),
    ];
    if protocol.fence == Fence::GenerationAndToken {
        always.extend([
            (STALE_IS_REFUSED, stale_is_refused as Condition),
            (DURABILITY_LOSS, durability_loss),
        ]);
    }
    let mut sometimes: Vec<(&'static str, Condition)> =
        vec![(COMPLETES, completes), (RESOLVES, resolves), (TAKES_OVER, takes_over)];
    match protocol.durability {
        Durability::Durable => always.extend([
            (ACKNOWLEDGED_STAYS, acknowledged_stays as Condition),
            (CLAIMS_STAY, claims_stay),
        ]),
        Durability::ClaimsAlone => {
            always.push((CLAIMS_STAY, claims_stay));
            sometimes.push((UNDONE, undone));
        }
        Durability::Nothing => sometimes.extend([
            (UNDONE, undone as Condition),
            (TOLD_TWICE, told_twice),
            (PROVEN, proven),
            (NOT_PROVABLE, not_provable),
        ]),
    }
    let always = always.into_iter().map(|(name, holds)| Property::always(name, holds));
    let sometimes = sometimes
        .into_iter()
        .map(|(name, happens)| Property::sometimes(name, happens));
    let all = always.chain(sometimes);
    all.filter(|property| protocol.rule.is_none_or(|rule| rule == property.name))
        .collect()
}

/// Whether the worker with this lease is the one whose claim the row is running under.
fn owns(row: &Row, lease: &Lease) -> bool {
    row.state == State::Running && row.token == lease.token
}

fn is_forgotten(row: &Row, lease: &Lease) -> bool {
    !row.remembers(lease.token)
}

fn every_lease(system: &System, holds: impl Fn(usize, &Row, &Lease) -> bool) -> bool {
    let mut leases = system.leases();
    leases.all(|(worker, job, lease)| holds(worker, &system.db[job], &lease))
}

fn one_commit(_: &Protocol, system: &System) -> bool {
    let mut rows = system.db.iter();
    rows.all(|row| row.effects == u8::from(row.state == State::Completed))
}

fn owners_commit(_: &Protocol, system: &System) -> bool {
    let mut rows = system.db.iter();
    rows.all(|row| row.effects == 0 || row.effect_by == row.token)
}

fn owners_write(protocol: &Protocol, system: &System) -> bool {
    every_lease(system, |worker, row, lease| {
        protocol.opens(row, worker, lease) == owns(row, lease)
    })
}

fn stale_is_refused(protocol: &Protocol, system: &System) -> bool {
    every_lease(system, |worker, row, lease| {
        (diagnosed(row, lease) == Answer::Ours) == protocol.opens(row, worker, lease)
    })
}

fn lost_answer(protocol: &Protocol, system: &System) -> bool {
    let told = every_lease(system, |worker, row, lease| {
        let told = resolved(protocol, row, worker, lease);
        let is_there = row.effects > 0 && row.effect_by == lease.token;
        lease.stage != Stage::InDoubt
            || (told == Answer::Committed) == is_there && (told == Answer::Ours) == owns(row, lease)
    });
    told && !system.landed_after_all
}

fn durability_loss(_: &Protocol, system: &System) -> bool {
    every_lease(system, |_, row, lease| {
        let proven = is_forgotten(row, lease) && row.generation <= lease.generation;
        (diagnosed(row, lease) == Answer::DurabilityLoss) == proven
    })
}

fn acknowledged_stays(_: &Protocol, system: &System) -> bool {
    every_lease(system, |_, row, lease| {
        lease.stage != Stage::Acknowledged || row.effects == 1 && row.effect_by == lease.token
    })
}

fn claims_stay(_: &Protocol, system: &System) -> bool {
    every_lease(system, |_, row, lease| !is_forgotten(row, lease))
}

/// By the way that is always open: the lease runs out, the job is swept, and somebody claims and commits it. Shows more
/// than an "eventually", which a worker that claims and dies for ever would break.
fn can_finish(protocol: &Protocol, system: &System) -> bool {
    let open = |system: &System, job: usize| !system.db[job].state.is_terminal();
    (0..protocol.jobs).filter(|&job| open(system, job)).all(|job| {
        let mut now = Step::from(protocol, system);
        for (worker, of, lease) in system.leases() {
            if of == job && matches!(lease.stage, Stage::Sent { .. }) {
                now.take(Action::Abort(worker, job));
            }
        }
        now.take(Action::Die(0));
        if system.db[job].state == State::Running {
            now.take(Action::Expire(job));
            now.take(Action::Sweep(job));
        }
        // A sweep ends a job that was asked to stop.
        if !now.system.db[job].state.is_terminal() {
            now.take(Action::Claim(0, job));
            now.take(Action::Commit(0, job));
        }
        now.system.db[job].state.is_terminal()
    })
}

fn completes(_: &Protocol, system: &System) -> bool {
    system.db.iter().any(|row| row.state == State::Completed)
}

fn resolves(protocol: &Protocol, system: &System) -> bool {
    !every_lease(system, |worker, row, lease| {
        lease.stage != Stage::InDoubt || resolved(protocol, row, worker, lease) != Answer::Committed
    })
}

fn takes_over(_: &Protocol, system: &System) -> bool {
    !every_lease(system, |_, row, lease| row.state != State::Running || owns(row, lease))
}

fn told_twice(_: &Protocol, system: &System) -> bool {
    let mut pairs = system
        .leases()
        .flat_map(|one| system.leases().map(move |two| (one, two)));
    pairs.any(|((_, job, one), (_, of, two))| job == of && one.generation == two.generation && one.token != two.token)
}

fn proven(_: &Protocol, system: &System) -> bool {
    !every_lease(system, |_, row, lease| diagnosed(row, lease) != Answer::DurabilityLoss)
}

fn not_provable(_: &Protocol, system: &System) -> bool {
    !every_lease(system, |_, row, lease| {
        !is_forgotten(row, lease) || diagnosed(row, lease) == Answer::DurabilityLoss
    })
}

fn undone(_: &Protocol, system: &System) -> bool {
    !every_lease(system, |_, row, lease| {
        lease.stage != Stage::Acknowledged || row.effect_by == lease.token && row.effects > 0
    })
}
