//! How the cost of a job grows: with what lies in the tables, and with time. Ours and the reference take turns.

mod bare;
mod fill;
mod jobs;
mod load;
mod sizes;
mod time;

use std::time::Duration;

use clap::Args;
use fill::Full;
use time::Burden;

use crate::report::{OURS, Row};
use crate::{Answer, Bar, Bench, Database, Extent, Options, Place, Report, Setting, statements};

const BENCH: &str = "growth";

/// Threads of the library's worker.
const THREADS: usize = 8;

/// What is measured beside rows that lie there, as the report calls it.
pub mod what {
    /// Of jobs that do nothing.
    pub const RATE: &str = "finish beside what lies there";
    /// How long the worker's claims take.
    pub const CLAIM_P50: &str = "claim p50";
    /// The same for the slowest of a hundred.
    pub const CLAIM_P99: &str = "claim p99";
    /// How many jobs a claim takes.
    pub const BATCH: &str = "jobs in a claim";
}

/// How much lies there, and how long it goes on.
#[derive(Debug, Clone, Args)]
pub struct Lengths {
    /// The most ready jobs; of others there are a tenth.
    #[arg(long)]
    largest: Option<usize>,
    /// How long each load over time goes on; none for 0.
    #[arg(long)]
    minutes: Option<f64>,
    /// The same for the reference.
    #[arg(long)]
    raw_minutes: Option<f64>,
}

impl Lengths {
    /// As the extent has it.
    #[must_use]
    pub fn usual() -> Self {
        Self {
            largest: None,
            minutes: None,
            raw_minutes: None,
        }
    }

    fn of(&self, options: &Options) -> Chosen {
        let (largest, minutes, raw_minutes) = match options.extent {
            Extent::Brief => (2_000, options.seconds / 60.0, options.seconds / 60.0),
            Extent::Bars => (1_000_000, 2.0, 0.0),
            Extent::Full => (10_000_000, 10.0, 3.0),
        };
        Chosen {
            extent: options.extent,
            largest: self.largest.unwrap_or(largest),
            minutes: self.minutes.unwrap_or(minutes),
            raw_minutes: self.raw_minutes.unwrap_or(raw_minutes),
        }
    }
}

struct Chosen {
    extent: Extent,
    largest: usize,
    minutes: f64,
    raw_minutes: f64,
}

impl Chosen {
    /// The first is the one that the others are compared with.
    fn cases(&self) -> Vec<Full> {
        let sizes = match self.extent {
            Extent::Bars => &[100_000, 1_000_000][..],
            _ => &[10_000, 100_000, 1_000_000, 10_000_000],
        };
        let ready = sizes
            .iter()
            .filter(|jobs| **jobs <= self.largest)
            .copied()
            .map(Full::Ready);
        let (million, few) = (self.largest.min(1_000_000), self.largest.min(100_000));
        let others: &[Full] = match self.extent {
            Extent::Bars => &[Full::Finished(million), Full::Blocked(few)],
            _ => &[
                Full::Finished(million),
                Full::Scheduled(few),
                Full::Blocked(few),
                Full::BlockedKeys(few),
                Full::Paused(few),
            ],
        };
        let first = [Full::Ready(1000)].into_iter();
        first.chain(ready).chain(others.iter().copied()).collect()
    }
}

/// Measures on both backends.
///
/// # Errors
///
/// A database's.
pub fn measure(options: &Options, lengths: &Lengths, place: &Place, report: &mut Report) -> Answer {
    statements::record()?;
    let mut growth = Growth {
        options,
        lengths: lengths.of(options),
        place,
        report,
    };
    #[cfg(feature = "postgres")]
    if options.wants("postgres") {
        growth.measure_on::<diesel::PgConnection>()?;
    }
    #[cfg(feature = "sqlite")]
    if options.wants("sqlite") {
        growth.measure_on::<diesel::SqliteConnection>()?;
    }
    statements::record_no_more()?;
    Ok(())
}

/// The lines of the bar that this bench measures.
#[must_use]
pub fn bars(report: &Report) -> Vec<Bar> {
    let ours = |setting: &Setting| report.best(OURS, "postgres", what::RATE, setting);
    let first = ours(&Setting::new().with("ready", 1000));
    // The least of what was measured, each of the first.
    let least = |name: &'static str| {
        let all = report.rows().iter().filter(|row| {
            (row.bench, row.what.as_str(), row.backend) == (BENCH, what::RATE, "postgres") && row.system == OURS
        });
        all.filter_map(|row| Some((row.setting.get(name)?, row.times(first?))))
            .min_by(|one, other| one.1.total_cmp(&other.1))
    };
    let over_time = |burden: Burden, of: &str| {
        let what = format!("{}: {of}", burden.name());
        report.best(OURS, "postgres", &what, &Setting::new()).map(Row::median)
    };
    let mut bars: Vec<Bar> = [
        ("ready", "1e3 to 1e7 ready rows"),
        ("finished", "1e6 finished rows"),
        ("blocked", "1e5 blocked rows"),
    ]
    .into_iter()
    .map(|(name, words)| {
        let (size, ratio) = least(name).unzip();
        let note = size.map(|size| format!("least at {size}")).unwrap_or_default();
        Bar::at_least(format!("{words}: of 1e3 ready rows"), 0.85, ratio).note(note)
    })
    .collect();
    for burden in [Burden::OldTransaction, Burden::NoAutovacuum] {
        let name = burden.name();
        let rate = over_time(burden, "jobs/s at the end of the start");
        let claim = over_time(burden, "claim p99 at the end of the start");
        bars.push(Bar::at_least(format!("{name}: jobs/s, of the start"), 0.8, rate));
        bars.push(Bar::at_most(format!("{name}: claim p99, of the start"), 3.0, claim));
    }
    bars
}

/// Clients of the reference. Where one writer keeps the others waiting, more add nothing.
fn clients<C: Bench>() -> usize {
    if C::ONE_WRITER { 1 } else { 4 }
}

struct Growth<'g> {
    options: &'g Options,
    lengths: Chosen,
    place: &'g Place,
    report: &'g mut Report,
}

impl Growth<'_> {
    fn measure_on<C: Bench>(&mut self) -> Answer {
        Database::<C>::new(self.place)?.conn.describe(self.report)?;
        sizes::run::<C>(self)?;
        time::run::<C>(self)
    }

    fn wants(&self, name: &str) -> bool {
        self.options
            .only
            .as_ref()
            .is_none_or(|only| name.contains(only.as_str()))
    }

    fn time(&self) -> Duration {
        Duration::from_secs_f64(self.options.seconds)
    }

    fn record<C: Bench>(&mut self, what: &str, system: &str, setting: &Setting, unit: &'static str, value: f64) {
        // Nothing was done in a time that was too short.
        if !value.is_finite() {
            return;
        }
        let row = Row {
            bench: BENCH,
            what: what.to_owned(),
            system: system.to_owned(),
            backend: C::NAME,
            setting: setting.clone(),
            unit,
            values: Vec::new(),
        };
        self.report.record(&row, value);
    }
}
