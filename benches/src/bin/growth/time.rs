//! The same load for minutes: alone, beside an old transaction, and without autovacuum.

use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::BigInt;
use leasehold_benches::libpq::Libpq;
use leasehold_benches::work::{Answer, Database};

use super::load::{Feeder, Figures, Library, Team, measure};
use super::reference::Bare;
use super::{CLIENTS, Options, THREADS, tell};

/// Ready jobs that are kept there.
const BACKLOG: usize = 1000;

/// What burdens the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Burden {
    Nothing,
    OldTransaction,
    NoAutovacuum,
}

impl Burden {
    pub(crate) const ALL: [Self; 3] = [Self::Nothing, Self::OldTransaction, Self::NoAutovacuum];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nothing => "sustained load",
            Self::OldTransaction => "an old transaction held open",
            Self::NoAutovacuum => "autovacuum off",
        }
    }
}

/// What the database says of its dead rows.
#[derive(QueryableByName)]
struct Dead {
    #[diesel(sql_type = BigInt)]
    dead: i64,
    #[diesel(sql_type = BigInt)]
    vacuums: i64,
}

const DEAD: &str = "SELECT n_dead_tup AS dead, autovacuum_count AS vacuums FROM pg_catalog.pg_stat_user_tables
    WHERE schemaname = 'leasehold' AND relname = 'jobs'";

const NO_AUTOVACUUM: &str = "
    ALTER TABLE leasehold.jobs SET (autovacuum_enabled = off, toast.autovacuum_enabled = off);
    ALTER TABLE leasehold.finished_jobs SET (autovacuum_enabled = off, toast.autovacuum_enabled = off)";

pub(crate) fn run(options: &Options) -> Answer {
    for burden in Burden::ALL {
        if !options.wants(burden.name()) {
            continue;
        }
        let database = Database::make("library")?;
        let library = Library::<diesel::PgConnection>::start(&database.url(), THREADS)?;
        series(options, burden, "library", &database.url(), library)?;
        drop(database);
        if options.minutes_of_reference > 0.0 {
            let database = Database::make("reference")?;
            let bare = Bare::start(&database.url(), CLIENTS)?;
            let shorter = Options {
                minutes: options.minutes_of_reference,
                ..options.clone()
            };
            series(&shorter, burden, "reference", &database.url(), bare)?;
        }
    }
    Ok(())
}

/// One figure for each interval. The first is measured before the burden.
fn series(options: &Options, burden: Burden, who: &str, url: &str, mut team: impl Team) -> Answer {
    let mut conn = PgConnection::establish(url)?;
    let _feeder = Feeder::start::<PgConnection>(url, 0, BACKLOG, team.done())?;
    std::thread::sleep(Duration::from_secs_f64(options.seconds / 4.0));
    let interval = options.interval();
    let mut figures = vec![measure(&mut team, interval)];
    let mut old = Libpq::connect(url)?;
    match burden {
        Burden::Nothing => {}
        Burden::OldTransaction => {
            old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_catalog.count(*) FROM leasehold.pauses")?;
        }
        Burden::NoAutovacuum => conn.batch_execute(NO_AUTOVACUUM)?,
    }
    let intervals = (options.minutes * 60.0 / interval.as_secs_f64()).ceil();
    let mut place = 0.0;
    while place < intervals {
        figures.push(measure(&mut team, interval));
        place += 1.0;
        let dead: Dead = diesel::sql_query(DEAD).get_result(&mut conn)?;
        if let Some(last) = figures.last() {
            tell(&format!(
                "{:<30} {who:<10} {:>6.0} s {:>8.0}/s  batch {:>5.1}  claim p50 {:>7.2} p99 {:>7.2} max {:>7.1} ms  finish p50 {:>6.2} p99 {:>6.2} ms  dead {:>8} vacuums {}",
                burden.name(),
                place * interval.as_secs_f64(),
                last.rate(),
                last.batch(),
                last.claims.ms(0.5),
                last.claims.ms(0.99),
                last.claims.max_ms(),
                last.finishes.ms(0.5),
                last.finishes.ms(0.99),
                dead.dead,
                dead.vacuums,
            ));
        }
    }
    summary(burden, who, &figures);
    Ok(())
}

fn summary(burden: Burden, who: &str, figures: &[Figures]) {
    let (Some(first), Some(last)) = (figures.first(), figures.last()) else {
        return;
    };
    let least = figures.iter().map(Figures::rate).fold(f64::INFINITY, f64::min);
    tell(&format!(
        "{:<30} {who:<10} last/first: rate {:.2} (least {:.2}), claim p50 {:.2}, p99 {:.2}",
        burden.name(),
        last.rate() / first.rate(),
        least / first.rate(),
        last.claims.ms(0.5) / first.claims.ms(0.5),
        last.claims.ms(0.99) / first.claims.ms(0.99),
    ));
}
