//! One process with ten thousand leases: how long all their heartbeats take, and whether completions wait for them.
//!
//! `heartbeat [--seconds N] [--leases N] [--database postgres|sqlite]`

mod beats;
mod jobs;
mod keep;

use std::time::Duration;

use beats::{Beat, split};
use diesel::connection::SimpleConnection;
use jobs::{How, Writer};
use leasehold_benches::samples::Samples;
use leasehold_benches::statements;
use leasehold_benches::work::Answer;

#[derive(Debug, Clone)]
struct Options {
    seconds: f64,
    leases: usize,
    postgres: bool,
    sqlite: bool,
}

impl Options {
    fn read() -> Answer<Self> {
        let mut options = Self {
            seconds: 30.0,
            leases: 10_000,
            postgres: true,
            sqlite: true,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
            match name.as_str() {
                "--seconds" => options.seconds = value.parse()?,
                "--leases" => options.leases = value.parse()?,
                "--database" => {
                    options.postgres = value == "postgres";
                    options.sqlite = value == "sqlite";
                }
                _ => return Err(format!("unknown option {name}").into()),
            }
        }
        Ok(options)
    }
}

fn main() -> Answer {
    env_logger::init();
    let options = Options::read()?;
    statements::record()?;
    #[cfg(feature = "postgres")]
    if options.postgres {
        let database = leasehold_benches::work::Database::make("heartbeat")?;
        let table =
            "CREATE TABLE bench_writes (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, job bigint NOT NULL)";
        measure::<diesel::PgConnection>(&options, &database.url(), table)?;
        reference(&options)?;
    }
    #[cfg(feature = "sqlite")]
    if options.sqlite {
        let directory = tempfile::tempdir()?;
        let file = directory.path().join("heartbeat.db");
        let url = file.to_str().ok_or("a path that is no text")?;
        let mut conn = <diesel::SqliteConnection as diesel::Connection>::establish(url)?;
        leasehold::migrate(&mut conn)?;
        let table = "CREATE TABLE bench_writes (id INTEGER PRIMARY KEY, job INTEGER NOT NULL)";
        measure::<diesel::SqliteConnection>(&options, url, table)?;
    }
    Ok(())
}

fn measure<C: Writer + SimpleConnection>(options: &Options, url: &str, table: &str) -> Answer {
    let mut conn = <C as diesel::Connection>::establish(url)?;
    conn.batch_execute(table)?;
    for leases in [1, options.leases] {
        let seen = keep::run::<C>(url, leases, Duration::from_secs_f64(options.seconds))?;
        let beats = Beat::all(&seen.statements, leases.div_ceil(1000));
        let times: Samples = beats.iter().map(Beat::time).collect();
        tell(&format!(
            "{} {leases:>6} leases: {} heartbeats of {} chunks, all leases in p50 {:.1} max {:.1} ms; process {:.1}% of a core",
            C::NAME,
            beats.len(),
            beats.iter().map(|beat| beat.chunks).max().unwrap_or_default(),
            times.ms(0.5),
            times.max_ms(),
            seen.cpu * 100.0
        ));
        for how in [How::Finish, How::Commit, How::FinishOfKept, How::CommitOfKept] {
            let (during, outside) = split(&seen.completions, how, &beats);
            tell(&format!(
                "{} {leases:>6} leases: {how:<14?} during n={:<5} p50 {:>6.2} p99 {:>6.2} max {:>6.2}  outside n={:<5} p50 {:>6.2} p99 {:>6.2} max {:>6.2} ms",
                C::NAME,
                during.len(),
                during.ms(0.5),
                during.ms(0.99),
                during.max_ms(),
                outside.len(),
                outside.ms(0.5),
                outside.ms(0.99),
                outside.max_ms(),
            ));
        }
    }
    Ok(())
}

/// The same heartbeats on bare libpq.
#[cfg(feature = "postgres")]
fn reference(options: &Options) -> Answer {
    use leasehold::{EnqueueOptions, Job};
    use leasehold_benches::reference::Reference;
    let database = leasehold_benches::work::Database::make("reference")?;
    let mut conn = <diesel::PgConnection as diesel::Connection>::establish(&database.url())?;
    let quick = vec![jobs::Quick {}; options.leases];
    jobs::Quick::enqueue_all(&quick, &mut conn, &EnqueueOptions::new())?;
    let mut client = Reference::connect(&database.url(), jobs::Quick::KIND)?;
    let mut chunks = Vec::new();
    for _ in 0..options.leases.div_ceil(500) {
        chunks.push(client.claim(500)?);
    }
    let mut times = Samples::default();
    let began = std::time::Instant::now();
    while began.elapsed().as_secs_f64() < options.seconds {
        let beat = std::time::Instant::now();
        for chunk in &chunks {
            client.heartbeat(chunk)?;
        }
        times.add(beat.elapsed());
        std::thread::sleep(Duration::from_millis(500));
    }
    tell(&format!(
        "reference {} leases: {} heartbeats, all leases in p50 {:.1} max {:.1} ms",
        options.leases,
        times.len(),
        times.ms(0.5),
        times.max_ms()
    ));
    Ok(())
}

#[expect(clippy::print_stdout, reason = "a bench prints its figures")]
fn tell(line: &str) {
    println!("{line}");
}
