//! Throughput and the length of claims by what lies in the tables.

use std::time::Duration;

use diesel::Connection;
use leasehold_benches::samples::median;
use leasehold_benches::work::{Answer, Database};

use super::fill::Full;
use super::load::{Feeder, Figures, Library, Team, measure};
use super::reference::Bare;
use super::{CLIENTS, Options, THREADS, tell};

/// The two databases of a case, filled alike, and what was measured in each run.
struct Case {
    full: Full,
    library: Database,
    reference: Database,
    ours: Vec<Figures>,
    theirs: Vec<Figures>,
}

/// The cases take turns, and in each the library and the reference.
pub(crate) fn run(options: &Options) -> Answer {
    let mut cases = Vec::new();
    for (place, full) in options.cases().into_iter().enumerate() {
        let filled = |purpose: &str| -> Answer<Database> {
            let database = Database::make(&format!("{purpose}_{place}"))?;
            let mut conn = diesel::PgConnection::establish(&database.url())?;
            full.write(&mut conn)?;
            Ok(database)
        };
        cases.push(Case {
            full,
            library: filled("library")?,
            reference: filled("reference")?,
            ours: Vec::new(),
            theirs: Vec::new(),
        });
        tell(&format!("filled: {}", full.name()));
    }
    for _ in 0..options.runs {
        for case in &mut cases {
            let library = Library::<diesel::PgConnection>::start(&case.library.url(), THREADS)?;
            let figures = slice(options, case.full, &case.library.url(), library)?;
            case.ours.push(figures);
            let bare = Bare::start(&case.reference.url(), CLIENTS)?;
            let figures = slice(options, case.full, &case.reference.url(), bare)?;
            case.theirs.push(figures);
        }
    }
    report(&cases);
    Ok(())
}

fn slice(options: &Options, full: Full, url: &str, mut team: impl Team) -> Answer<Figures> {
    let there = match full {
        // What the last run left.
        Full::Ready(jobs) => jobs,
        _ => 0,
    };
    let _feeder = Feeder::start::<diesel::PgConnection>(url, there, full.backlog(), team.done())?;
    std::thread::sleep(Duration::from_secs_f64(options.seconds / 4.0));
    Ok(measure(&mut team, Duration::from_secs_f64(options.seconds)))
}

fn report(cases: &[Case]) {
    let rates = |figures: &[Figures]| figures.iter().map(Figures::rate).collect::<Vec<_>>();
    let first = cases.first().map(|case| (rates(&case.ours), rates(&case.theirs)));
    for case in cases {
        for (who, figures, base) in [
            ("library", &case.ours, first.as_ref().map(|first| &first.0)),
            ("reference", &case.theirs, first.as_ref().map(|first| &first.1)),
        ] {
            let rates = rates(figures);
            let of_first: Vec<f64> = rates
                .iter()
                .zip(base.into_iter().flatten())
                .map(|(rate, base)| rate / base)
                .collect();
            let mut all = Figures::default();
            figures.iter().for_each(|figures| all.merge(figures.clone()));
            tell(&format!(
                "{:<34} {who:<10} {:>8.0}/s  batch {:>5.1}  {:.2} of the first  claim p50 {:>7.2} p99 {:>7.2} max {:>7.1} ms  finish p50 {:>6.2} p99 {:>6.2} ms",
                case.full.name(),
                median(&rates),
                all.batch(),
                median(&of_first),
                all.claims.ms(0.5),
                all.claims.ms(0.99),
                all.claims.max_ms(),
                all.finishes.ms(0.5),
                all.finishes.ms(0.99),
            ));
        }
    }
}
