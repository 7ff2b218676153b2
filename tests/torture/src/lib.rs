//! Worker processes under every fault at once, and whether the promise held: see `docs/proof.md`.
//!
//! [`run`] starts a database and worker processes, lets faults happen as a seed says, waits until every job has ended, and
//! checks the invariants I1 to I12 from the workers' append-only logs, a history that triggers keep, and the tables.

#![cfg(any(feature = "sqlite", feature = "postgres"))]
#![expect(
    clippy::missing_panics_doc,
    reason = "a run that cannot go on has failed, and says why"
)]

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

mod check;
mod crew;
mod faults;
pub use faults::Counts;
mod jobs;
mod load;
mod log;
mod report;
pub use report::Report;
mod settings;
pub use settings::{Kind, Settings};
mod site;
pub mod worker;

use crew::Crew;
use faults::Shared;
use site::{Ask, Site};

/// Jobs that kill their process, in a run.
const POISON: u64 = 5;

/// Every job has ended so long after the last fault, or is stuck.
const DRAIN: Duration = Duration::from_secs(120);

/// Runs it; `program` is this package's own, for the worker processes.
#[must_use]
pub fn run(settings: &Settings, program: &Path) -> Report {
    match settings.database {
        #[cfg(feature = "postgres")]
        Kind::Postgres => on(site::Postgres::start(settings), settings, program),
        #[cfg(feature = "sqlite")]
        Kind::Sqlite => on(site::Sqlite::start(), settings, program),
        #[allow(unreachable_patterns, reason = "with both backends there are no others")]
        _ => panic!("this program was built without that database"),
    }
}

fn on<S: Site>(site: S, settings: &Settings, program: &Path) -> Report {
    let seed = settings.seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    eprintln!("torture: seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    prepare(&site);
    let logs = tempfile::tempdir().expect("a temporary directory can be made");
    let mut crew = Crew::start(program, logs.path(), settings.workers, |name, proxy| {
        site.worker_url(name, proxy)
    });
    let shared = Shared::new(site);
    let ((faults, enqueued, drained), stuck) = std::thread::scope(|scope| {
        let enqueue = scope.spawn(|| load::enqueue(&shared, POISON));
        let watch = scope.spawn(|| load::watch(&shared));
        scope.spawn(|| load::operate(&shared));
        scope.spawn(|| load::lock(&shared));
        let faults = faults::happen(&shared, &mut crew, settings, &mut rng);
        let enqueued = enqueue.join().expect("the enqueues come to their end");
        let drained = drain(&shared, &mut crew);
        shared.over.store(true, Ordering::Release);
        (
            (faults, enqueued, drained),
            watch.join().expect("the watch comes to its end"),
        )
    });
    let processes = crew.started();
    drop(crew);
    let mut conn = shared.site().connect().expect("the database is there at the end");
    let findings = check::check(&mut conn, logs.path(), &enqueued, settings);
    let mut findings = findings.expect("the database tells at the end");
    // The server's own time limits, which free what is half open, do not keep when its clock jumps.
    if !settings.clock {
        findings.violations.extend(stuck);
    }
    if !findings.violations.is_empty() {
        eprintln!("torture: the logs are kept in {}", logs.keep().display());
    }
    Report::new(settings, seed, faults, processes, drained, findings)
}

fn prepare<S: Site>(site: &S) {
    let mut conn = site.connect().expect("the new database takes connections");
    leasehold::migrate(&mut conn).expect("an empty database can be migrated");
    // No key: a second row of a job must be seen, not refused.
    conn.run("CREATE TABLE effects (job_id bigint NOT NULL, generation bigint NOT NULL, token text NOT NULL)")
        .and_then(|()| conn.run(S::history()))
        .expect("the tables of the run can be made");
}

/// Waits until every job has ended; how long that took.
fn drain<S: Site>(shared: &Shared<S>, crew: &mut Crew) -> Duration {
    let begin = Instant::now();
    while begin.elapsed() < DRAIN {
        crew.tend(|name, proxy| shared.site().worker_url(name, proxy));
        let left = shared
            .connection()
            .and_then(|mut conn| conn.number("SELECT count(*) FROM leasehold.jobs").ok());
        if left == Some(0) {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    begin.elapsed()
}
