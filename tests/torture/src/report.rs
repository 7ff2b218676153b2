//! What a run was and what it has shown.

use std::fmt;
use std::time::Duration;

use crate::check::Findings;
use crate::faults::Counts;
use crate::settings::{Kind, Settings};

/// The report of one run.
#[derive(Debug)]
pub struct Report {
    settings: Settings,
    seed: u64,
    /// The faults that happened.
    pub faults: Counts,
    processes: usize,
    drained: Duration,
    findings: Findings,
    /// What broke; nothing if the promise held.
    pub violations: Vec<String>,
}

impl Report {
    pub(crate) fn new(
        settings: &Settings,
        seed: u64,
        faults: Counts,
        processes: usize,
        drained: Duration,
        mut findings: Findings,
    ) -> Self {
        Self {
            settings: settings.clone(),
            seed,
            faults,
            processes,
            drained,
            violations: std::mem::take(&mut findings.violations),
            findings,
        }
    }

    /// How many jobs have ended.
    #[must_use]
    pub fn jobs(&self) -> usize {
        self.findings.jobs
    }

    /// How often one generation of a job was told to two claims.
    #[must_use]
    pub fn told_twice(&self) -> usize {
        self.findings.told_twice
    }

    /// Commits that were told as done, and undone by a crash.
    #[must_use]
    pub fn undone(&self) -> usize {
        self.findings.undone
    }

    /// Commits that were refused.
    #[must_use]
    pub fn refusals(&self) -> usize {
        self.findings.refusals.values().sum()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            settings,
            faults,
            findings,
            ..
        } = self;
        let database = match settings.database {
            Kind::Sqlite => "SQLite",
            Kind::Postgres => "PostgreSQL",
        };
        let lazy = match (settings.lazy_commits, settings.lazy_claims) {
            (_, true) => ", lazy commits and claims",
            (true, _) => ", lazy commits",
            _ => "",
        };
        writeln!(f, "{database}{lazy}, {} s, seed {}", settings.seconds, self.seed)?;
        writeln!(
            f,
            "faults: {} kills, {} stops, {} terminations, {} statements lost or late, {} crashes, {} jumps of the clock, \
             {} deaths by poison",
            faults.kills, faults.stops, faults.terminations, faults.losses, faults.crashes, faults.jumps, faults.deaths
        )?;
        writeln!(
            f,
            "jobs: {} ended, {} commits told, {} that landed unseen, {} changes, {} worker processes; drained in {:.1?}",
            findings.jobs, findings.commits, findings.landed_unseen, findings.history, self.processes, self.drained
        )?;
        let mut refusals: Vec<_> = findings.refusals.iter().collect();
        refusals.sort();
        let refusals: Vec<String> = refusals
            .iter()
            .map(|(reason, times)| format!("{times} {reason}"))
            .collect();
        writeln!(f, "refused: {}", refusals.join(", "))?;
        writeln!(
            f,
            "after crashes: {} enqueues and {} commits undone, {} generations told twice",
            findings.forgotten, findings.undone, findings.told_twice
        )?;
        write!(f, "violations: {}", self.violations.len())?;
        for violation in self.violations.iter().take(50) {
            write!(f, "\n  {violation}")?;
        }
        Ok(())
    }
}
