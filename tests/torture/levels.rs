//! The short levels of torture, as every change runs them; longer ones by hand (`CONTRIBUTING.md`).

#![cfg(any(feature = "sqlite", feature = "postgres"))]

use std::path::Path;

use leasehold_torture::{Kind, Report, Settings, run};

/// `LEASEHOLD_TORTURE_SECONDS`, 5 unless it is set.
fn seconds() -> u64 {
    std::env::var("LEASEHOLD_TORTURE_SECONDS").map_or(5, |text| {
        text.parse().expect("LEASEHOLD_TORTURE_SECONDS is a number of seconds")
    })
}

#[track_caller]
fn holds(settings: &Settings) -> Report {
    let report = run(settings, Path::new(env!("CARGO_BIN_EXE_torture")));
    eprintln!("{report}");
    assert!(report.violations.is_empty(), "{report}");
    assert!(report.jobs() > 0, "nothing ran");
    if settings.seconds >= 60 {
        let faults = report.faults;
        assert!(faults.kills >= 75 && faults.stops >= 130, "too few faults: {report}");
        assert!(!settings.crashes || faults.crashes >= 15, "too few crashes: {report}");
        let terminated = settings.database == Kind::Sqlite || faults.terminations >= 70;
        assert!(terminated, "too few terminations: {report}");
    }
    report
}

#[cfg(feature = "sqlite")]
#[test]
fn sqlite_holds_under_kills_and_stops() {
    let report = holds(&Settings::new(Kind::Sqlite, seconds()));
    assert!(report.faults.kills > 0 && report.faults.stops > 0, "{report}");
}

#[cfg(feature = "postgres")]
#[test]
fn postgres_holds_under_kills_stops_terminations_and_lost_answers() {
    let report = holds(&Settings::new(Kind::Postgres, seconds()));
    assert!(report.faults.kills > 0 && report.faults.stops > 0, "{report}");
}

#[cfg(feature = "postgres")]
#[test]
fn postgres_holds_under_crashes() {
    let mut settings = Settings::new(Kind::Postgres, seconds());
    settings.crashes = true;
    let report = holds(&settings);
    assert!(report.faults.crashes > 0, "{report}");
}

#[cfg(feature = "postgres")]
#[test]
fn postgres_holds_while_the_clock_of_the_server_jumps() {
    if leasehold_tests::postgres::cluster_with_clock(&[]).is_none() {
        leasehold_tests::skipped(
            "postgres_holds_while_the_clock_of_the_server_jumps",
            "libfaketime is not installed (Debian: the package libfaketime)",
        );
        return;
    }
    let mut settings = Settings::new(Kind::Postgres, seconds());
    settings.clock = true;
    let report = holds(&settings);
    assert!(report.faults.jumps > 0, "{report}");
}

/// What was acknowledged may be undone by a crash then, and what is fenced holds.
#[cfg(feature = "postgres")]
#[test]
fn postgres_with_lazy_commits_holds_under_crashes() {
    let mut settings = Settings::new(Kind::Postgres, seconds());
    (settings.crashes, settings.lazy_commits) = (true, true);
    let report = holds(&settings);
    assert!(report.faults.crashes > 0, "{report}");
}

/// A claim that a crash takes back was told to a worker all the same, and its generation is given out again: the run finds
/// such pairs, which shows that it would find what they break, and the token keeps the two workers apart.
#[cfg(feature = "postgres")]
#[test]
fn postgres_with_lazy_claims_tells_generations_twice_and_holds() {
    // Whether a crash takes such a claim back is chance, and less than even in a short run.
    let told_twice = |_| {
        let mut settings = Settings::new(Kind::Postgres, seconds().max(10));
        (settings.crashes, settings.lazy_commits, settings.lazy_claims) = (true, true, true);
        holds(&settings).told_twice() > 0
    };
    assert!((0..30).any(told_twice), "no crash took back a claim in thirty runs");
}
