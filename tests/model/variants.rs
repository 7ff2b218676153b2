//! What the checker is asked about: our fence and weaker ones, and how much a database may forget.

use crate::state::{Lease, Row, State};

/// What a write of a worker compares besides the job's id and `running`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fence {
    IdOnly,
    Generation,
    /// The generation and a number that each process draws at its start.
    GenerationAndProcess,
    /// Ours.
    GenerationAndToken,
}

/// Which commits a crash cannot take back once they were answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// All.
    Durable,
    /// `synchronous_commit = off`: claims, which ask for it themselves, and with each of them all that was before it.
    ClaimsAlone,
    /// A replica that lagged is promoted, or an older file comes back: none.
    Nothing,
}

/// How a worker finds out what became of a COMMIT whose answer was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resolve {
    /// Ours: waits for the row's lock, so that the transaction in doubt is over.
    UnderLock,
    PlainRead,
}

/// Which actions are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    All,
    /// Without those that touch one row alone and neither claim nor complete it, but for failures: they are looked at with
    /// one job.
    ClaimsCommitsFailures,
    /// Without failures, too.
    ClaimsAndCommits,
}

/// The protocol, and the bounds within which it is looked at.
#[derive(Debug, Clone)]
pub(crate) struct Protocol {
    pub(crate) fence: Fence,
    pub(crate) durability: Durability,
    pub(crate) resolve: Resolve,
    /// A failed attempt begins again at generation 0.
    pub(crate) resets_generation: bool,
    pub(crate) scope: Scope,
    pub(crate) jobs: usize,
    /// The process of each worker.
    pub(crate) processes: &'static [u8],
    pub(crate) max_generation: u8,
    pub(crate) max_crashes: u8,
    /// The one rule to look at; else all that the protocol has to keep.
    pub(crate) rule: Option<&'static str>,
}

impl Protocol {
    /// Ours, with one job and three workers, of which two are threads of one process.
    pub(crate) const OURS: Self = Self {
        fence: Fence::GenerationAndToken,
        durability: Durability::Durable,
        resolve: Resolve::UnderLock,
        resets_generation: false,
        scope: Scope::All,
        jobs: 1,
        processes: &[1, 1, 2],
        max_generation: 3,
        max_crashes: 1,
        rule: None,
    };

    /// Whether a lease fits the fence of a row, whatever state that is in.
    pub(crate) fn fits(&self, row: &Row, worker: usize, lease: &Lease) -> bool {
        match self.fence {
            Fence::IdOnly => true,
            Fence::Generation => row.generation == lease.generation,
            Fence::GenerationAndProcess => row.generation == lease.generation && row.process == self.process(worker),
            Fence::GenerationAndToken => row.generation == lease.generation && row.token == lease.token,
        }
    }

    /// Whether a write under this lease changes the row.
    pub(crate) fn opens(&self, row: &Row, worker: usize, lease: &Lease) -> bool {
        row.state == State::Running && self.fits(row, worker, lease)
    }

    /// Ours, with two jobs, which one claim may take, and two workers.
    pub(crate) const OURS_IN_BATCHES: Self = Self {
        scope: Scope::ClaimsCommitsFailures,
        jobs: 2,
        processes: &[1, 2],
        max_generation: 2,
        ..Self::OURS
    };

    /// What a claim writes of the process.
    pub(crate) fn process(&self, worker: usize) -> u8 {
        match self.fence {
            Fence::GenerationAndProcess => self.processes[worker],
            _ => 0,
        }
    }
}
