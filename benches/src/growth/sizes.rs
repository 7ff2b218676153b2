//! Throughput and the length of claims by what lies in the tables.

use std::marker::PhantomData;
use std::thread;

use super::bare::Bare;
use super::fill::Full;
use super::load::{Feeder, Figures, Library, Team, measure};
use super::{Growth, THREADS, clients, what};
use crate::report::{OURS, RAW};
use crate::{Answer, Bench, Database};

/// The two databases of a case, filled alike.
struct Case<C> {
    full: Full,
    ours: Database<C>,
    theirs: Database<C>,
    backend: PhantomData<C>,
}

/// The cases take turns, and in each the library and the reference.
pub(super) fn run<C: Bench>(growth: &mut Growth<'_>) -> Answer {
    let mut cases = Vec::new();
    for full in growth.lengths.cases() {
        if !growth.wants(&full.setting().to_string()) {
            continue;
        }
        let filled = || -> Answer<Database<C>> {
            let mut database = Database::<C>::new(growth.place)?;
            full.write(&mut database.conn)?;
            Ok(database)
        };
        cases.push(Case {
            full,
            ours: filled()?,
            theirs: filled()?,
            backend: PhantomData::<C>,
        });
        eprintln!("{}: filled, {}", C::NAME, full.setting());
    }
    for run in 0..growth.options.runs {
        for case in &cases {
            let library = Library::<C>::start(&case.ours.url, THREADS)?;
            let ours = slice::<C>(growth, case.full, &case.ours.url, library)?;
            let bare = Bare::start::<C>(&case.theirs.url, clients::<C>())?;
            let theirs = slice::<C>(growth, case.full, &case.theirs.url, bare)?;
            for (system, figures) in [(OURS, ours), (RAW, theirs)] {
                record::<C>(growth, case.full, system, &figures, run);
            }
        }
    }
    Ok(())
}

fn slice<C: Bench>(growth: &Growth<'_>, full: Full, url: &str, mut team: impl Team) -> Answer<Figures> {
    let time = growth.time();
    let there = match full {
        // What is worked off is made up for, so as many are there after each run.
        Full::Ready(jobs) => jobs,
        _ => 0,
    };
    let _feeder = Feeder::start::<C>(url, there, full.backlog(), team.done())?;
    thread::sleep(time / 4);
    Ok(measure(&mut team, time))
}

fn record<C: Bench>(growth: &mut Growth<'_>, full: Full, system: &str, figures: &Figures, run: usize) {
    let setting = full.setting();
    let (p50, p99) = (figures.claims.ms(0.5), figures.claims.ms(0.99));
    eprintln!(
        "{} of {}: {} {system} beside {setting}: {:.0}/s, {:.0} a claim, which takes {p50:.2}, p99 {p99:.2}, max {:.1} ms; finish {:.2}, p99 {:.2} ms",
        run + 1,
        growth.options.runs,
        C::NAME,
        figures.rate(),
        figures.batch(),
        figures.claims.max_ms(),
        figures.finishes.ms(0.5),
        figures.finishes.ms(0.99),
    );
    for (what, unit, value) in [
        (what::RATE, "jobs/s", figures.rate()),
        (what::CLAIM_P50, "ms", p50),
        (what::CLAIM_P99, "ms", p99),
        (what::BATCH, "jobs", figures.batch()),
    ] {
        growth.record::<C>(what, system, &setting, unit, value);
    }
}
