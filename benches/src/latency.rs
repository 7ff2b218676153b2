//! How long a job that is enqueued waits for its handler to begin.
//!
//! With nothing else to do and under half load, for one process and for many; and what a worker costs that has nothing to
//! do. Ours and the reference take turns.

mod path;
mod serve;
mod side;
mod team;

use std::time::{Duration, Instant};

use serve::Who;
pub use serve::is_worker;
use side::Side;
use team::Place as At;

use crate::report::{OURS, RAW, Row};
use crate::{Answer, Bar, Bench, Database, Extent, Options, Place, Report, Setting};

const BENCH: &str = "latency";

/// Threads of a worker process.
const THREADS: usize = 4;
/// How long a handler works under half load.
const WORK: Duration = Duration::from_millis(10);

/// What is measured, as the report calls it: the middle, the slowest of a hundred, and the slowest.
pub mod what {
    /// With nothing else to do.
    pub const IDLE: [&str; 3] = ["idle pick-up p50", "idle pick-up p99", "idle pick-up max"];
    /// The same where enqueues and handlers are in one process.
    pub const HERE: [&str; 3] = [
        "pick-up inside a process p50",
        "pick-up inside a process p99",
        "pick-up inside a process max",
    ];
    /// While half of the handlers work.
    pub const HALF: [&str; 3] = [
        "pick-up under half load p50",
        "pick-up under half load p99",
        "pick-up under half load max",
    ];
    /// Of worker processes without work.
    pub const CPU: &str = "idle processor time";
}

/// What a measurement goes through, by the extent that was asked for.
struct Choices {
    processes: &'static [usize],
    half_load: &'static [usize],
    idle: Duration,
}

fn choices(options: &Options) -> Choices {
    match options.extent {
        Extent::Brief => Choices {
            processes: &[1, 2],
            half_load: &[1],
            idle: Duration::from_secs_f64(options.seconds),
        },
        Extent::Bars => Choices {
            processes: &[1],
            half_load: &[],
            idle: Duration::from_secs(10),
        },
        Extent::Full => Choices {
            processes: &[1, 2, 4, 8],
            half_load: &[1, 2],
            idle: Duration::from_secs(20),
        },
    }
}

/// Measures on both backends.
///
/// # Errors
///
/// A database's, or when a job is not picked up.
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

/// The lines of the bar that this bench measures.
#[must_use]
pub fn bars(report: &Report) -> Vec<Bar> {
    let one = Setting::new().with("processes", 1);
    let [p50, p99, _] = what::IDLE;
    let times = |what| {
        let of = |system| report.best(system, "postgres", what, &one);
        Some(of(OURS)?.times(of(RAW)?))
    };
    let cpu = report.best(OURS, "postgres", what::CPU, &one).map(Row::median);
    vec![
        Bar::at_most("idle pick-up, PostgreSQL: p50 of raw poll(2)", 1.2, times(p50)),
        Bar::at_most("idle pick-up, PostgreSQL: p99 of raw poll(2)", 1.5, times(p99)),
        Bar::at_most("idle worker process, PostgreSQL: % of a core", 0.5, cpu),
    ]
}

fn measure_on<C: Bench>(options: &Options, place: &Place, report: &mut Report) -> Answer {
    let (ours, theirs) = (Database::<C>::new(place)?, Database::<C>::new(place)?);
    Database::<C>::new(place)?.conn.describe(report)?;
    let mut bench = Latency {
        options,
        report,
        ours: &ours,
        theirs: &theirs,
    };
    let choices = choices(options);
    for &processes in choices.processes {
        bench.idle(processes)?;
    }
    bench.idle_cpu(choices.idle)?;
    if options.extent != Extent::Bars {
        bench.here()?;
        bench.path()?;
    }
    for &processes in choices.half_load {
        bench.half_load(processes)?;
    }
    Ok(())
}

struct Latency<'b, C> {
    options: &'b Options,
    report: &'b mut Report,
    ours: &'b Database<C>,
    theirs: &'b Database<C>,
}

impl<C: Bench> Latency<'_, C> {
    fn wants(&self, what: &str) -> bool {
        self.options
            .only
            .as_ref()
            .is_none_or(|only| what.contains(only.as_str()))
    }

    fn idle(&mut self, processes: usize) -> Answer {
        let at = At::Processes(processes);
        let setting = Setting::new().with("processes", processes);
        self.compare(what::IDLE, &setting, at, 1, Duration::ZERO, Side::one)
    }

    fn here(&mut self) -> Answer {
        self.compare(what::HERE, &Setting::new(), At::Here, 1, Duration::ZERO, Side::one)
    }

    fn half_load(&mut self, processes: usize) -> Answer {
        let at = At::Processes(processes);
        let setting = Setting::new().with("processes", processes).with("threads", THREADS);
        let time = Duration::from_secs_f64(self.options.seconds);
        self.compare(what::HALF, &setting, at, THREADS, WORK, |side| side.half_load(time))
    }

    /// As many runs as asked for, in which the two sides take turns. `raw_threads`: of each of its processes.
    fn compare(
        &mut self,
        what: [&'static str; 3],
        setting: &Setting,
        at: At,
        raw_threads: usize,
        work: Duration,
        step: impl Fn(&mut Side<C>) -> Answer,
    ) -> Answer {
        if !self.wants(what[0]) {
            return Ok(());
        }
        // In one process the two would tell the same listener.
        let together = at != At::Here;
        for run in 0..self.options.runs {
            let library = || Side::start(Who::Library, self.ours, at, THREADS, work);
            let raw = || Side::start(Who::Raw, self.theirs, at, raw_threads, work);
            let time = Duration::from_secs_f64(self.options.seconds);
            let sides = if together {
                let (mut library, mut raw) = (library()?, raw()?);
                let began = Instant::now();
                while began.elapsed() < time {
                    step(&mut library)?;
                    step(&mut raw)?;
                }
                [(OURS, library), (RAW, raw)]
            } else {
                [
                    (OURS, alone(library()?, time / 2, &step)?),
                    (RAW, alone(raw()?, time / 2, &step)?),
                ]
            };
            for (system, side) in sides {
                let [middle, slow, slowest] = [0.5, 0.99, 1.0].map(|share| side.waits.ms(share));
                eprintln!(
                    "{} of {}: {} {} {system} {setting}: {middle:.2}, p99 {slow:.2}, max {slowest:.2} ms, {} jobs",
                    run + 1,
                    self.options.runs,
                    C::NAME,
                    what[0],
                    side.waits.len()
                );
                for (what, value) in what.into_iter().zip([middle, slow, slowest]) {
                    self.record(what, system, setting, "ms", value);
                }
            }
        }
        Ok(())
    }

    fn idle_cpu(&mut self, time: Duration) -> Answer {
        if !self.wants(what::CPU) {
            return Ok(());
        }
        let setting = Setting::new().with("processes", 1);
        for (who, system, threads) in [(Who::Library, OURS, THREADS), (Who::Raw, RAW, 1)] {
            let database = if who == Who::Raw { self.theirs } else { self.ours };
            let mut side = Side::start(who, database, At::Processes(1), threads, Duration::ZERO)?;
            side.one()?;
            let share = side.idle_cpu(time)?;
            eprintln!("{} {} {system}: {:.3}% of a core", C::NAME, what::CPU, share * 100.0);
            self.record(what::CPU, system, &setting, "% of a core", share * 100.0);
        }
        Ok(())
    }

    /// Where the time goes, as the statements of the worker's process show it.
    fn path(&mut self) -> Answer {
        if !self.wants("path") {
            return Ok(());
        }
        let mut side = Side::start(Who::Profile, self.ours, At::Processes(1), THREADS, Duration::ZERO)?;
        let began = Instant::now();
        while began.elapsed().as_secs_f64() < self.options.seconds {
            side.one()?;
        }
        for (step, times) in path::steps(&side.heard) {
            eprintln!(
                "{} {}: {:.3}, p99 {:.3} ms",
                C::NAME,
                step.name(),
                times.ms(0.5),
                times.ms(0.99)
            );
            self.record(step.name(), OURS, &Setting::new(), "ms", times.ms(0.5));
        }
        Ok(())
    }

    fn record(&mut self, what: &'static str, system: &str, setting: &Setting, unit: &'static str, value: f64) {
        let row = Row {
            bench: BENCH,
            what: what.to_owned(),
            system: system.to_owned(),
            backend: C::NAME,
            setting: setting.clone(),
            unit,
            values: Vec::new(),
        };
        self.report.record(&row, value);
    }
}

fn alone<C: Bench>(mut side: Side<C>, time: Duration, step: &impl Fn(&mut Side<C>) -> Answer) -> Answer<Side<C>> {
    let began = Instant::now();
    while began.elapsed() < time {
        step(&mut side)?;
    }
    Ok(side)
}
