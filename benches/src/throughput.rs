//! Jobs per second: enqueued, finished without a write, and committed with one insert; ours and the reference in turn.

mod cases;
use cases::Cases;

use crate::report::OURS;
use crate::rounds::run;
use crate::{Answer, Bar, Bench, Database, Extent, Options, Place, Report, Setting};

const BENCH: &str = "throughput";

/// What is measured, as the report calls it.
pub mod what {
    /// One by one.
    pub const ENQUEUE: &str = "enqueue one by one";
    /// A thousand in a statement.
    pub const BULK: &str = "enqueue in bulk";
    /// Handlers that do nothing.
    pub const FINISH: &str = "finish";
    /// The same in several processes of eight threads.
    pub const PROCESSES: &str = "finish by processes";
    /// The same without any batching.
    pub const UNBATCHED: &str = "finish unbatched";
    /// Handlers that insert a row.
    pub const COMMIT: &str = "commit with one insert";
    /// How many jobs a claim took, where handlers do nothing.
    pub const FINISH_CLAIM: &str = "finish: jobs per claim";
    /// How many jobs a transaction completed.
    pub const COMPLETION: &str = "finish: jobs per completion";
    /// How many jobs a claim took, where handlers insert a row.
    pub const COMMIT_CLAIM: &str = "commit: jobs per claim";
}

/// What a measurement goes through, by the extent that was asked for.
struct Choices {
    enqueuing: &'static [usize],
    threads: &'static [usize],
    processes: &'static [usize],
    batches: &'static [usize],
    connections: &'static [usize],
    unbatched: &'static [usize],
}

fn choices(extent: Extent) -> Choices {
    match extent {
        Extent::Brief => Choices {
            enqueuing: &[2],
            threads: &[2],
            processes: &[2],
            batches: &[10],
            connections: &[2],
            unbatched: &[2],
        },
        Extent::Bars => Choices {
            enqueuing: &[1, 8],
            threads: &[8],
            processes: &[],
            batches: &[50],
            connections: &[2, 4],
            unbatched: &[4, 8],
        },
        Extent::Full => Choices {
            enqueuing: &[1, 8],
            threads: &[1, 2, 4, 8, 16],
            processes: &[1, 2, 4, 8, 16, 32],
            batches: &[10, 50, 200],
            connections: &[1, 2, 4, 8],
            unbatched: &[1, 2, 4, 8, 16],
        },
    }
}

/// Measures on both backends.
///
/// # Errors
///
/// A database's, or when a job was not completed.
pub fn measure(options: &Options, place: &Place, report: &mut Report) -> Answer {
    #[cfg(feature = "postgres")]
    if options.wants("postgres") {
        measure_on::<diesel::PgConnection>(options, place, report)?;
    }
    #[cfg(feature = "sqlite")]
    if options.wants("sqlite") {
        measure_on::<diesel::SqliteConnection>(options, place, report)?;
    }
    Ok(())
}

fn measure_on<C: Bench>(options: &Options, place: &Place, report: &mut Report) -> Answer {
    Database::<C>::new(place)?.conn.describe(report)?;
    let choices = choices(options.extent);
    let cases = Cases::<C>::new(place)
        .enqueue(&choices)
        .finish(&choices)
        .unbatched(&choices)
        .commit(&choices);
    run(report, options, &cases.cases)
}

/// The lines of the bar that this bench measures.
#[must_use]
pub fn bars(report: &Report) -> Vec<Bar> {
    let ratio = |backend, what, setting: &Setting| report.ours_to_raw(backend, what, setting);
    let (any, batch) = (Setting::new(), Setting::new().with("batch", 50));
    let eight = Setting::new().with("threads", 8);
    let peers = "benches/peers";
    vec![
        Bar::at_least("no-op finish(), PostgreSQL: of the fastest peer", 1.3, None).note(peers),
        Bar::at_least("no-op finish(), PostgreSQL: of fang", 20.0, None).note(peers),
        Bar::at_least(
            "no-op finish(), PostgreSQL: of raw at the same batch",
            0.85,
            ratio("postgres", what::FINISH, &batch),
        )
        .note(batches(report, "postgres")),
        Bar::at_least(
            "commit() with one insert, PostgreSQL, 8 threads: of raw",
            0.85,
            ratio("postgres", what::COMMIT, &eight),
        ),
        Bar::at_least("commit() with one insert, PostgreSQL: of fang's no-op", 1.5, None).note(peers),
        Bar::at_least("no batching at all: of the best peer", 1.0, None).note(peers),
        Bar::at_least("enqueue one by one, 8 threads: of fang", 1.0, None).note(peers),
        Bar::at_least("enqueue in bulk: of the fastest peer", 2.0, None).note(peers),
        Bar::at_least(
            "no-op finish(), SQLite: of raw at the same batch",
            0.8,
            ratio("sqlite", what::FINISH, &batch),
        )
        .note(batches(report, "sqlite")),
        Bar::at_least(
            "commit() with one insert, SQLite: of raw with the same commits",
            0.9,
            ratio("sqlite", what::COMMIT, &any),
        ),
    ]
}

/// What a claim took in fact, and what the library does by itself.
fn batches(report: &Report, backend: &str) -> String {
    let median = |what, setting: &Setting| {
        let row = report.best(OURS, backend, what, setting)?;
        Some(crate::report::figure(row.median()))
    };
    let of_both = |setting: &Setting| Some((median(what::FINISH, setting)?, median(what::FINISH_CLAIM, setting)?));
    let fixed = of_both(&Setting::new().with("threads", 8).with("batch", 50));
    let adaptive = of_both(&Setting::new().with("threads", 8).with("batch", 0));
    match (fixed, adaptive) {
        (Some((_, fixed)), Some((rate, adaptive))) => {
            format!("50 wanted, {fixed} in a claim; by itself {rate} jobs/s with {adaptive} in a claim")
        }
        _ => String::new(),
    }
}
