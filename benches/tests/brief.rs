//! Each bench runs, for about a second, on every backend that is to be had: the figures mean nothing, but it cannot rot.

use std::path::Path;
use std::process::Command;

/// Runs a bench briefly, and returns the rows of its report.
fn brief(bench: &str, program: &str) -> String {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(bench);
    let output = Command::new(program)
        .args(["--extent", "brief", "--seconds", "0.05", "--runs", "1"])
        .env("LEASEHOLD_BENCH_DIRECTORY", &directory)
        .output()
        .expect("the bench can be run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{bench} ended with {}:\n{said}", output.status);
    let read = |ending: &str| {
        let file = directory.join(bench).with_extension(ending);
        std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    };
    assert!(read("svg").contains("</svg>"), "{bench} has drawn nothing");
    assert!(read("md").contains("- rustc: "), "{bench} does not say what it ran on");
    read("csv")
}

/// Every backend that was asked for has figures of ours and of the reference, and all of them are above zero.
fn assert_measured(rows: &str) {
    let wanted = std::env::var_os("LEASEHOLD_TEST_DATABASE_URL").filter(|_| cfg!(feature = "postgres"));
    let backends = [("sqlite", true), ("postgres", wanted.is_some())];
    for (backend, _) in backends.iter().filter(|(_, wanted)| *wanted) {
        for system in ["leasehold", "raw"] {
            let named = format!(",{system},{backend},");
            assert!(rows.contains(&named), "nothing of {system} on {backend}:\n{rows}");
        }
    }
    for row in rows.lines().skip(1) {
        let median = row.split(',').nth(6).and_then(|median| median.parse::<f64>().ok());
        assert!(median.is_some_and(|median| median >= 0.0), "no figure: {row}");
    }
}

#[test]
fn throughput_is_measured_on_every_backend() {
    assert_measured(&brief("throughput", env!("CARGO_BIN_EXE_throughput")));
}

#[test]
fn cost_is_measured_on_every_backend() {
    assert_measured(&brief("cost", env!("CARGO_BIN_EXE_cost")));
}

#[test]
fn latency_is_measured_on_every_backend() {
    assert_measured(&brief("latency", env!("CARGO_BIN_EXE_latency")));
}

#[test]
fn growth_is_measured_on_every_backend() {
    assert_measured(&brief("growth", env!("CARGO_BIN_EXE_growth")));
}

#[test]
fn heartbeats_are_measured_on_every_backend() {
    assert_measured(&brief("heartbeat", env!("CARGO_BIN_EXE_heartbeat")));
}

#[test]
fn the_bar_is_printed_with_all_its_lines() {
    let output = Command::new(env!("CARGO_BIN_EXE_bars"))
        .args(["--seconds", "0.02", "--runs", "1", "--only", "batch=50"])
        .env(
            "LEASEHOLD_BENCH_DIRECTORY",
            Path::new(env!("CARGO_TARGET_TMPDIR")).join("bars"),
        )
        .output()
        .expect("the bars can be run");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let measured = said
        .lines()
        .find(|line| line.contains("no-op finish(), SQLite: of raw"));
    assert!(
        measured.is_some_and(|line| !line.contains("not measured")),
        "the bar of SQLite is not measured:\n{said}"
    );
}
