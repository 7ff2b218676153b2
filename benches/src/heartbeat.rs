//! One process with ten thousand leases: how long it takes to renew all of them, and whether completions wait for that.

mod bare;
mod beats;
mod jobs;
mod keep;

use std::time::Duration;

use beats::{Beat, chunks, split};
use jobs::{How, Writer};

use crate::report::{OURS, RAW, Row};
use crate::{Answer, Bar, Database, Extent, Options, Place, Report, Setting, statements};

const BENCH: &str = "heartbeat";

/// The library's leases in one statement.
const CHUNK: usize = 500;

/// What is measured, as the report calls it.
pub mod what {
    /// From the first chunk's begin to the last one's end: the middle and the longest.
    pub const ALL: [&str; 2] = ["all leases renewed p50", "all leases renewed max"];
    /// One statement by itself.
    pub const STATEMENT: &str = "one chunk renewed p50";
    /// Leases in a statement, at the most.
    pub const CHUNK: &str = "leases in a chunk";
    /// The slowest of a hundred completions during heartbeats, less the same at other times; of the sort for which it is
    /// the most.
    pub const WAIT: &str = "completions wait for a heartbeat p99";
    /// Of the whole process.
    pub const CPU: &str = "processor time with its completions";
}

/// What a completion is called.
fn name(how: How) -> &'static str {
    match how {
        How::Finish => "finish",
        How::Commit => "commit",
        How::FinishOfKept => "finish of one that is renewed",
        How::CommitOfKept => "commit of one that is renewed",
    }
}

/// Measures on both backends.
///
/// # Errors
///
/// A database's.
pub fn measure(options: &Options, place: &Place, report: &mut Report) -> Answer {
    if options.only.as_ref().is_some_and(|only| !BENCH.contains(only.as_str())) {
        return Ok(());
    }
    statements::record()?;
    #[cfg(feature = "postgres")]
    if options.wants("postgres") {
        measure_on::<diesel::PgConnection>(options, place, report)?;
    }
    #[cfg(feature = "sqlite")]
    if options.wants("sqlite") {
        measure_on::<diesel::SqliteConnection>(options, place, report)?;
    }
    statements::record_no_more()?;
    Ok(())
}

/// The lines of the bar that this bench measures.
#[must_use]
pub fn bars(report: &Report) -> Vec<Bar> {
    let many = Setting::new().with("leases", 10_000);
    let [all, _] = what::ALL;
    let mut bars = Vec::new();
    for (backend, words) in [("postgres", "PostgreSQL"), ("sqlite", "SQLite")] {
        let median = |system, what| report.best(system, backend, what, &many).map(Row::median);
        let raw = median(RAW, all)
            .map(|raw| format!("raw {raw:.0} ms"))
            .unwrap_or_default();
        bars.extend([
            Bar::at_most(
                format!("heartbeat of 10,000 leases, {words}: ms"),
                150.0,
                median(OURS, all),
            )
            .note(raw),
            Bar::at_most(
                format!("heartbeat, {words}: leases in a chunk"),
                500.0,
                median(OURS, what::CHUNK),
            ),
            Bar::at_most(
                format!("heartbeat, {words}: ms that completions wait"),
                10.0,
                median(OURS, what::WAIT),
            )
            .note("p99 during heartbeats, less p99 at other times"),
        ]);
    }
    bars
}

fn measure_on<C: Writer>(options: &Options, place: &Place, report: &mut Report) -> Answer {
    Database::<C>::new(place)?.conn.describe(report)?;
    let brief = options.extent == Extent::Brief;
    let (leases, lease, stretch) = match brief {
        true => (1000, Duration::from_millis(1500), 3.0),
        false => (10_000, Duration::from_secs(6), 10.0),
    };
    // Long enough for a heartbeat.
    let time = Duration::from_secs_f64(options.seconds * stretch).max(lease);
    for _ in 0..options.runs {
        // One alone, for what everything costs without them.
        for leases in [1, leases] {
            let database = Database::<C>::new(place)?;
            let seen = keep::run::<C>(&database.url, leases, lease, time)?;
            Kept { report, leases, lease }.record::<C>(&seen);
        }
        let database = Database::<C>::new(place)?;
        let (times, chunks) = bare::run::<C>(&database.url, leases, time / 4)?;
        let mut kept = Kept { report, leases, lease };
        kept.add::<C>(what::STATEMENT, RAW, "ms", chunks.ms(0.5));
        for (what, share) in what::ALL.into_iter().zip([0.5, 1.0]) {
            kept.add::<C>(what, RAW, "ms", times.ms(share));
        }
    }
    Ok(())
}

struct Kept<'r> {
    report: &'r mut Report,
    leases: usize,
    lease: Duration,
}

impl Kept<'_> {
    fn record<C: Writer>(&mut self, seen: &keep::Seen) {
        self.add::<C>(what::CPU, OURS, "% of a core", seen.cpu * 100.0);
        let beats = Beat::all(&seen.statements, self.leases.div_ceil(2 * CHUNK), self.lease);
        let mut longest_wait: Option<f64> = None;
        for how in [How::Finish, How::Commit, How::FinishOfKept, How::CommitOfKept] {
            let (during, outside) = split(&seen.completions, how, &beats);
            for (when, times) in [("during a heartbeat", &during), ("at other times", &outside)] {
                if times.is_empty() || self.leases == 1 {
                    continue;
                }
                for (share, of) in [(0.5, "p50"), (0.99, "p99")] {
                    let what = format!("{} {when} {of}", name(how));
                    self.add::<C>(&what, OURS, "ms", times.ms(share));
                }
            }
            if self.leases > 1 && !during.is_empty() && !outside.is_empty() {
                let wait = (during.ms(0.99) - outside.ms(0.99)).max(0.0);
                longest_wait = Some(longest_wait.map_or(wait, |longest| longest.max(wait)));
            }
        }
        if self.leases == 1 || beats.is_empty() {
            return;
        }
        let times: crate::samples::Samples = beats.iter().map(Beat::time).collect();
        for (what, share) in what::ALL.into_iter().zip([0.5, 1.0]) {
            self.add::<C>(what, OURS, "ms", times.ms(share));
        }
        let statements = chunks(&seen.statements, &beats);
        self.add::<C>(what::STATEMENT, OURS, "ms", statements.ms(0.5));
        let chunks = beats.iter().map(|beat| beat.chunks).max().unwrap_or(1);
        #[expect(clippy::cast_precision_loss, reason = "a count of leases")]
        self.add::<C>(what::CHUNK, OURS, "leases", self.leases.div_ceil(chunks) as f64);
        if let Some(wait) = longest_wait {
            self.add::<C>(what::WAIT, OURS, "ms", wait);
        }
    }

    fn add<C: Writer>(&mut self, what: &str, system: &str, unit: &'static str, value: f64) {
        let setting = Setting::new().with("leases", self.leases);
        eprintln!("{} {what}, {system}, {setting}: {value:.2} {unit}", C::NAME);
        let row = Row {
            bench: BENCH,
            what: what.to_owned(),
            system: system.to_owned(),
            backend: C::NAME,
            setting,
            unit,
            values: Vec::new(),
        };
        self.report.record(&row, value);
    }
}
