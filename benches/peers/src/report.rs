//! The table, the bar and the files.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::child::Outcome;
use crate::options::Options;
use crate::order::{Answer, Shape};
use crate::rounds::Results;
use crate::stats::median;
use crate::systems::System;

const OURS: &str = "leasehold";
const FANG: &str = "fang";

/// The medians of one system.
struct Row {
    name: &'static str,
    work: Option<f64>,
    /// With the concurrency at which it is best.
    unbatched: Option<(f64, usize)>,
    single: Option<f64>,
    bulk: Option<f64>,
    pickup: Option<(f64, f64)>,
    is_woken: bool,
}

/// A line of the bar: what ours is compared with, and what it must reach.
struct Bar {
    what: &'static str,
    figure: fn(&Row) -> Option<f64>,
    /// Times the fastest peer.
    fastest: Option<Wanted>,
    /// Times fang.
    fang: Option<Wanted>,
}

#[derive(Clone, Copy)]
enum Wanted {
    AtLeast(f64),
    Above(f64),
}

const BARS: [Bar; 4] = [
    Bar {
        what: "no-op finish",
        figure: |row| row.work,
        fastest: Some(Wanted::AtLeast(1.3)),
        fang: Some(Wanted::AtLeast(20.0)),
    },
    Bar {
        what: "without batching",
        figure: |row| row.unbatched.map(|(rate, _)| rate),
        fastest: Some(Wanted::Above(1.0)),
        fang: None,
    },
    Bar {
        what: "enqueue one by one",
        figure: |row| row.single,
        fastest: None,
        fang: Some(Wanted::Above(1.0)),
    },
    Bar {
        what: "enqueue in bulk",
        figure: |row| row.bulk,
        fastest: Some(Wanted::AtLeast(2.0)),
        fang: None,
    },
];

/// Prints the summary, and writes it and all answers under the repository's `target/bench`.
pub(crate) fn write(results: &Results, options: &Options) -> Outcome<()> {
    let rows: Vec<Row> = results.systems.iter().map(|system| row(results, system)).collect();
    let mut text = heading(results, options)?;
    text += &table(results, &rows)?;
    text += &bars(&rows)?;
    println!("{text}");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bench");
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("peers.md"), text)?;
    fs::write(folder.join("peers.csv"), csv(results)?)?;
    eprintln!("written: target/bench/peers.md and target/bench/peers.csv");
    Ok(())
}

fn row(results: &Results, system: &System) -> Row {
    let name = system.name;
    let of = |shape: Shape, figure: fn(&Answer) -> Option<f64>| {
        let answers = results.answers.get(&(name, shape))?;
        median(&mut answers.iter().filter_map(figure).collect::<Vec<_>>())
    };
    let unbatched = results.answers.keys().filter_map(|&(of_system, shape)| match shape {
        Shape::Unbatched(concurrency) if of_system == name => Some((of(shape, |answer| answer.rate)?, concurrency)),
        _ => None,
    });
    Row {
        name,
        work: of(Shape::Work, |answer| answer.rate),
        unbatched: unbatched.max_by(|(one, _), (other, _)| one.total_cmp(other)),
        single: of(Shape::Single, |answer| answer.rate),
        bulk: system.has_bulk.then(|| of(Shape::Work, |answer| answer.bulk)).flatten(),
        pickup: of(Shape::Pickup, |answer| answer.p50).zip(of(Shape::Pickup, |answer| answer.p99)),
        is_woken: system.is_woken,
    }
}

fn heading(results: &Results, options: &Options) -> Outcome<String> {
    let mut text = String::from("# Peers in one run\n\n");
    if options.smoke {
        text += "A smoke run: it shows that everything works, its figures mean nothing.\n\n";
    }
    let Options {
        jobs,
        rounds,
        samples,
        chunk,
        ..
    } = options;
    let cores = std::thread::available_parallelism()?;
    writeln!(
        text,
        "PostgreSQL {}, fsync, full_page_writes and synchronous_commit on, {cores} cores. Medians of {rounds} rounds, in each \
         of which the systems take turns. No-op jobs with a payload of 200 bytes: {jobs} of them, a tenth of it without \
         batching (at the best of 1, 2, 4, 8 and 16 at a time), an eighth one by one (8 connections), {chunk} a call in \
         bulk; {samples} for an idle worker.\n",
        results.server
    )?;
    Ok(text)
}

fn table(results: &Results, rows: &[Row]) -> Outcome<String> {
    let mut text = String::from(
        "| system | work, jobs/s | without batching | enqueue one by one | in bulk | idle pick-up p50 / p99 |\n\
         |---|---|---|---|---|---|\n",
    );
    let dash = || "-".to_owned();
    for row in rows {
        let version = results.versions.get(row.name).map(String::as_str).unwrap_or_default();
        writeln!(
            text,
            "| {} {version} | {} | {} | {} | {} | {} |",
            row.name,
            row.work.map_or_else(dash, figure),
            row.unbatched
                .map_or_else(dash, |(rate, at)| format!("{} (at {at})", figure(rate))),
            row.single.map_or_else(dash, figure),
            row.bulk.map_or_else(dash, figure),
            match row.pickup {
                Some((p50, p99)) => format!("{p50:.1} / {p99:.1} ms"),
                None if row.is_woken => dash(),
                None => "polls".to_owned(),
            },
        )?;
    }
    for (name, reason) in &results.skipped {
        writeln!(text, "| {name} | skipped: {reason} | | | | |")?;
    }
    text.push('\n');
    Ok(text)
}

fn bars(rows: &[Row]) -> Outcome<String> {
    let find = |name| rows.iter().find(|row| row.name == name);
    let Some(ours) = find(OURS) else {
        return Ok(String::new());
    };
    let mut text =
        String::from("| the bar | ours | over | theirs | ratio | must reach | met |\n|---|---|---|---|---|---|---|\n");
    for bar in &BARS {
        let Some(mine) = (bar.figure)(ours) else { continue };
        let peers = rows.iter().filter(|row| row.name != OURS);
        let fastest = peers
            .filter_map(|row| Some((row.name, (bar.figure)(row)?)))
            .max_by(|(_, one), (_, other)| one.total_cmp(other));
        let fang = find(FANG).and_then(|row| Some((row.name, (bar.figure)(row)?)));
        let compared = [("the fastest peer", fastest, bar.fastest), ("fang", fang, bar.fang)];
        for (over, theirs, wanted) in compared {
            let Some((name, theirs)) = theirs else { continue };
            let ratio = mine / theirs;
            let over = if name == over {
                over.to_owned()
            } else {
                format!("{over}, {name}")
            };
            let (must, met) = match wanted {
                Some(Wanted::AtLeast(least)) => (format!("at least {least}"), answer(ratio >= least)),
                Some(Wanted::Above(limit)) => (format!("above {limit}"), answer(ratio > limit)),
                None => ("-".to_owned(), "-"),
            };
            let (what, mine, theirs) = (bar.what, figure(mine), figure(theirs));
            writeln!(
                text,
                "| {what} | {mine} | {over} | {theirs} | {ratio:.2} | {must} | {met} |"
            )?;
        }
    }
    Ok(text)
}

fn answer(met: bool) -> &'static str {
    if met { "yes" } else { "**no**" }
}

/// A rate with a comma between the thousands: three digits count, the others are noise.
fn figure(rate: f64) -> String {
    let digits = format!("{rate:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn csv(results: &Results) -> Outcome<String> {
    let mut text =
        String::from("system,version,shape,concurrency,round,jobs_per_second,bulk_per_second,p50_ms,p99_ms\n");
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.3}"));
    for ((name, shape), answers) in &results.answers {
        let (shape, concurrency) = match shape {
            Shape::Prepare => continue,
            Shape::Work => ("work", String::new()),
            Shape::Unbatched(concurrency) => ("unbatched", concurrency.to_string()),
            Shape::Single => ("single", String::new()),
            Shape::Pickup => ("pickup", String::new()),
        };
        let version = results.versions.get(name).map(String::as_str).unwrap_or_default();
        for (round, answer) in (1..).zip(answers) {
            let bulk = answer.bulk.filter(|_| shape == "work" && *name != FANG);
            let figures = [answer.rate, bulk, answer.p50, answer.p99].map(number).join(",");
            writeln!(text, "{name},\"{version}\",{shape},{concurrency},{round},{figures}")?;
        }
    }
    Ok(text)
}
