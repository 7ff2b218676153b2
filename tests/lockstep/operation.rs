//! What can happen to a queue.

use leasehold::OnConflict;
use leasehold::inspect::State;
use proptest::prelude::*;

/// An operation; which job and which fences it is about is chosen when its turn comes.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub(crate) what: What,
    pub(crate) job: u8,
    pub(crate) fences: Vec<Pick>,
}

/// Chooses among the fences that workers were told.
#[derive(Debug, Clone)]
pub(crate) struct Pick {
    pub(crate) place: u8,
    /// Among those of jobs that run under them now.
    pub(crate) fresh: bool,
    pub(crate) twist: Twist,
}

/// What is wrong with a fence that was never told.
#[derive(Debug, Clone)]
pub(crate) enum Twist {
    None,
    Above,
    Below,
    OtherToken,
}

#[derive(Debug, Clone)]
pub(crate) enum What {
    Enqueue(New),
    Claim {
        serves: Serves,
        limit: i64,
        begun: bool,
        oldest: bool,
    },
    /// By the token of a claim whose answer was lost.
    FindClaimed,
    Look(Serves),
    Begin,
    Heartbeat,
    Finish,
    Release,
    Complete {
        strict: bool,
    },
    PutBack {
        later: bool,
        uses_attempt: bool,
        takes_away: bool,
        error: bool,
    },
    End {
        state: State,
        takes_away: bool,
        error: bool,
    },
    Sweep {
        limit: i64,
    },
    SweepKeys,
    DiscardExpired,
    Promote(Serves),
    Admit,
    LeaseEnds,
    ComesDue,
    GrowsTooOld,
    KeyExpires {
        unique: bool,
    },
    Cancel {
        hard: bool,
    },
    Requeue,
    Edit {
        /// How far the generation lies back that was seen.
        behind: i64,
        priority: Option<i16>,
        later: Option<bool>,
        payload: Option<Payload>,
    },
    Pause(Scope),
    Resume(Scope),
    Purge(State),
}

#[derive(Debug, Clone)]
pub(crate) struct New {
    pub(crate) kind: Kind,
    pub(crate) queue: u8,
    pub(crate) payload: Payload,
    pub(crate) priority: i16,
    pub(crate) later: bool,
    pub(crate) max_attempts: i32,
    pub(crate) expires: bool,
    pub(crate) idempotency_key: Option<u8>,
    pub(crate) on_conflict: OnConflict,
    /// Whether the unique key has a period.
    pub(crate) within: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Payload {
    pub(crate) key: u8,
    pub(crate) text: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Plain,
    /// Unique by its key.
    Only,
    /// Two at a time with one key.
    Narrow,
    /// Unique by its key, and one at a time with one text.
    Both,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Plain, Self::Only, Self::Narrow, Self::Both];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Only => "only",
            Self::Narrow => "narrow",
            Self::Both => "both",
        }
    }

    pub(crate) fn is_unique(self) -> bool {
        matches!(self, Self::Only | Self::Both)
    }

    /// What its limit counts by, and how many it lets through.
    pub(crate) fn limit(self, payload: Payload) -> Option<(u8, usize)> {
        match self {
            Self::Narrow => Some((payload.key, 2)),
            Self::Both => Some((payload.text, 1)),
            Self::Plain | Self::Only => None,
        }
    }
}

/// The name of a queue.
pub(crate) fn queue_name(queue: u8) -> &'static str {
    ["here", "there"][usize::from(queue)]
}

/// A bit for each queue and kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Serves(pub(crate) u8);

impl Serves {
    pub(crate) fn all(self) -> impl Iterator<Item = (u8, Kind)> {
        let each = (0..2).flat_map(|queue| Kind::ALL.map(|kind| (queue, kind)));
        each.enumerate()
            .filter(move |(bit, _)| self.0 >> bit & 1 == 1)
            .map(|(_, served)| served)
    }

    pub(crate) fn has(self, queue: u8, kind: Kind) -> bool {
        self.all().any(|served| served == (queue, kind))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    All,
    Queue(u8),
    Kind(Kind),
}

fn kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(&Kind::ALL[..])
}

fn payload() -> impl Strategy<Value = Payload> {
    (0..2_u8, 0..2_u8).prop_map(|(key, text)| Payload { key, text })
}

fn on_conflict() -> impl Strategy<Value = OnConflict> {
    prop::sample::select(
        &[
            OnConflict::Keep,
            OnConflict::Replace,
            OnConflict::Reschedule,
            OnConflict::ReplaceAndReschedule,
            OnConflict::Reject,
        ][..],
    )
}

/// Mostly everything.
fn serves() -> impl Strategy<Value = Serves> {
    prop_oneof![4 => Just(u8::MAX), 1 => any::<u8>()].prop_map(Serves)
}

fn scope() -> impl Strategy<Value = Scope> {
    prop_oneof![
        1 => Just(Scope::All),
        2 => (0..2_u8).prop_map(Scope::Queue),
        4 => kind().prop_map(Scope::Kind)
    ]
}

fn seldom() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.2)
}

fn new() -> impl Strategy<Value = New> {
    let row = (
        kind(),
        prop_oneof![4 => Just(0_u8), 1 => Just(1)],
        payload(),
        -1..2_i16,
        seldom(),
    );
    let options = (
        1..3_i32,
        seldom(),
        prop::option::weighted(0.2, 0..2_u8),
        on_conflict(),
        seldom(),
    );
    (row, options).prop_map(
        |((kind, queue, payload, priority, later), (max_attempts, expires, idempotency_key, on_conflict, within))| {
            New {
                kind,
                queue,
                payload,
                priority,
                later,
                max_attempts,
                expires,
                idempotency_key,
                on_conflict,
                within,
            }
        },
    )
}

fn of_workers() -> impl Strategy<Value = What> {
    prop_oneof![
        9 => (serves(), 1..5_i64, any::<bool>(), seldom())
            .prop_map(|(serves, limit, begun, oldest)| What::Claim { serves, limit, begun, oldest }),
        1 => Just(What::FindClaimed),
        2 => Just(What::Begin),
        2 => Just(What::Heartbeat),
        2 => Just(What::Finish),
        2 => Just(What::Release),
        2 => any::<bool>().prop_map(|strict| What::Complete { strict }),
        3 => any::<[bool; 4]>().prop_map(|[later, uses_attempt, takes_away, error]| What::PutBack {
            later, uses_attempt, takes_away, error,
        }),
        3 => any::<[bool; 3]>().prop_map(|[discards, takes_away, error]| What::End {
            state: if discards { State::Discarded } else { State::Cancelled }, takes_away, error,
        }),
    ]
}

fn of_maintenance() -> impl Strategy<Value = What> {
    prop_oneof![
        6 => (1..4_i64).prop_map(|limit| What::Sweep { limit }),
        1 => Just(What::SweepKeys),
        2 => Just(What::DiscardExpired),
        2 => serves().prop_map(What::Promote),
        4 => Just(What::Admit),
        1 => serves().prop_map(What::Look),
        12 => Just(What::LeaseEnds),
        2 => Just(What::ComesDue),
        2 => Just(What::GrowsTooOld),
        1 => any::<bool>().prop_map(|unique| What::KeyExpires { unique }),
    ]
}

fn of_people() -> impl Strategy<Value = What> {
    let edit = (
        prop_oneof![5 => Just(0_i64), 1 => -1..2_i64],
        prop::option::of(-1..2_i16),
        prop::option::of(any::<bool>()),
        prop::option::of(payload()),
    );
    let ends = prop::sample::select(&[State::Completed, State::Discarded, State::Cancelled][..]);
    prop_oneof![
        3 => any::<bool>().prop_map(|hard| What::Cancel { hard }),
        3 => Just(What::Requeue),
        2 => edit.prop_map(|(behind, priority, later, payload)| What::Edit { behind, priority, later, payload }),
        1 => scope().prop_map(What::Pause),
        4 => scope().prop_map(What::Resume),
        1 => ends.prop_map(What::Purge),
    ]
}

fn pick() -> impl Strategy<Value = Pick> {
    let twist = prop_oneof![
        9 => Just(Twist::None), 1 => Just(Twist::Above), 1 => Just(Twist::Below), 1 => Just(Twist::OtherToken)
    ];
    let fresh = prop::bool::weighted(0.7);
    (any::<u8>(), fresh, twist).prop_map(|(place, fresh, twist)| Pick { place, fresh, twist })
}

pub(crate) fn operation() -> impl Strategy<Value = Operation> {
    let what =
        prop_oneof![5 => new().prop_map(What::Enqueue), 9 => of_workers(), 6 => of_maintenance(), 3 => of_people()];
    let fences = prop::collection::vec(pick(), 1..4);
    (what, any::<u8>(), fences).prop_map(|(what, job, fences)| Operation { what, job, fences })
}
