//! The same load for minutes: alone, beside an old transaction, and without autovacuum.

use std::fmt::Write;
use std::thread;
use std::time::Duration;

use diesel::Connection;

use super::bare::Bare;
use super::load::{Feeder, Figures, Library, Team, measure};
use super::{Growth, THREADS, clients};
use crate::report::{self, OURS, RAW, lines};
use crate::{Answer, Bench, Database, Setting};

/// Ready jobs that are kept there.
const BACKLOG: usize = 1000;

/// What burdens the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Burden {
    Nothing,
    OldTransaction,
    NoAutovacuum,
}

impl Burden {
    pub(super) const ALL: [Self; 3] = [Self::Nothing, Self::OldTransaction, Self::NoAutovacuum];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Nothing => "sustained load",
            Self::OldTransaction => "old transaction open",
            Self::NoAutovacuum => "autovacuum off",
        }
    }

    /// What makes it so on PostgreSQL; SQLite has no vacuum that could come late, and there a reader keeps the log.
    fn statements(self, backend: &str) -> Option<&'static str> {
        match (self, backend) {
            (Self::Nothing, _) => Some("SELECT 1"),
            (Self::OldTransaction, "postgres") => {
                Some("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_catalog.count(*) FROM leasehold.pauses")
            }
            (Self::OldTransaction, _) => Some("BEGIN; SELECT count(*) FROM leasehold_pauses"),
            (Self::NoAutovacuum, "postgres") => Some(
                "ALTER TABLE leasehold.jobs SET (autovacuum_enabled = off, toast.autovacuum_enabled = off);
                 ALTER TABLE leasehold.finished_jobs SET (autovacuum_enabled = off, toast.autovacuum_enabled = off)",
            ),
            (Self::NoAutovacuum, _) => None,
        }
    }
}

/// Each burden by itself, on fresh databases.
pub(super) fn run<C: Bench>(growth: &mut Growth<'_>) -> Answer {
    for burden in Burden::ALL {
        let Some(burdens) = burden.statements(C::NAME).filter(|_| growth.wants(burden.name())) else {
            continue;
        };
        let mut all = Vec::new();
        if growth.lengths.minutes > 0.0 {
            let database = Database::<C>::new(growth.place)?;
            let library = Library::<C>::start(&database.url, THREADS)?;
            let minutes = growth.lengths.minutes;
            all.push((
                OURS,
                series::<C>(burden, burdens, &database.url, (minutes, OURS), library)?,
            ));
        }
        if growth.lengths.raw_minutes > 0.0 {
            let database = Database::<C>::new(growth.place)?;
            let bare = Bare::start::<C>(&database.url, clients::<C>())?;
            let minutes = growth.lengths.raw_minutes;
            all.push((RAW, series::<C>(burden, burdens, &database.url, (minutes, RAW), bare)?));
        }
        plot::<C>(burden, &all)?;
        for (system, series) in &all {
            summary::<C>(growth, burden, system, series);
        }
    }
    Ok(())
}

/// A figure for each interval, and when it ended.
type Series = Vec<(f64, Figures)>;

/// The first interval is measured before the burden.
fn series<C: Bench>(
    burden: Burden,
    burdens: &str,
    url: &str,
    (minutes, system): (f64, &str),
    mut team: impl Team,
) -> Answer<Series> {
    let interval = Duration::from_secs_f64((minutes * 10.0).clamp(0.1, 10.0));
    let _feeder = Feeder::start::<C>(url, 0, BACKLOG, team.done())?;
    thread::sleep(interval / 4);
    let mut series = vec![(0.0, measure(&mut team, interval))];
    let mut conn = <C as Connection>::establish(url)?;
    conn.batch_execute(burdens)?;
    let mut time = 0.0;
    while time < minutes * 60.0 {
        let figures = measure(&mut team, interval);
        time += figures.seconds;
        eprintln!(
            "{} {}, {system}, {time:.0} s: {:.0}/s, {:.0} a claim, which takes {:.2}, p99 {:.2}, max {:.1} ms",
            C::NAME,
            burden.name(),
            figures.rate(),
            figures.batch(),
            figures.claims.ms(0.5),
            figures.claims.ms(0.99),
            figures.claims.max_ms(),
        );
        series.push((time, figures));
    }
    Ok(series)
}

fn plot<C: Bench>(burden: Burden, all: &[(&str, Series)]) -> Answer {
    let name = format!("growth-{}-{}", C::NAME, burden.name().replace(' ', "-"));
    let mut csv = "system,seconds,jobs/s,jobs a claim,claim p50 ms,claim p99 ms,claim max ms\n".to_owned();
    let (mut rates, mut claims) = (Vec::new(), Vec::new());
    for (system, series) in all {
        for (time, figures) in series {
            let (p50, p99) = (figures.claims.ms(0.5), figures.claims.ms(0.99));
            let (rate, batch, most) = (figures.rate(), figures.batch(), figures.claims.max_ms());
            writeln!(
                csv,
                "{system},{time:.1},{rate:.0},{batch:.1},{p50:.3},{p99:.3},{most:.3}"
            )?;
        }
        let points =
            |value: fn(&Figures) -> f64| series.iter().map(|(time, figures)| (*time, value(figures))).collect();
        rates.push(((*system).to_owned(), points(Figures::rate)));
        claims.push((format!("{system}, p50"), points(|figures| figures.claims.ms(0.5))));
        claims.push((format!("{system}, p99"), points(|figures| figures.claims.ms(0.99))));
    }
    std::fs::write(report::directory()?.join(&name).with_extension("csv"), csv)?;
    lines(&name, "seconds", "jobs/s", &rates)?;
    lines(&format!("{name}-claims"), "seconds", "ms", &claims)
}

fn summary<C: Bench>(growth: &mut Growth<'_>, burden: Burden, system: &str, series: &Series) {
    let (Some((_, first)), Some((_, last))) = (series.first(), series.last()) else {
        return;
    };
    let least = series
        .iter()
        .map(|(_, figures)| figures.rate())
        .fold(f64::INFINITY, f64::min);
    for (of, value) in [
        ("jobs/s at the end of the start", last.rate() / first.rate()),
        ("jobs/s at worst of the start", least / first.rate()),
        (
            "claim p99 at the end of the start",
            last.claims.ms(0.99) / first.claims.ms(0.99),
        ),
    ] {
        let what = format!("{}: {of}", burden.name());
        growth.record::<C>(&what, system, &Setting::new(), "times", value);
    }
}
