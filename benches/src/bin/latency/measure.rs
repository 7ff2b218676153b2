//! The measurements.

use std::time::{Duration, Instant};

use diesel::Connection;
use leasehold::{Backend, Job};
use leasehold_benches::clock::now_ns;
use leasehold_benches::samples::{Samples, median};
use leasehold_benches::work::Answer;
use uuid::Uuid;

use super::Options;
use super::team::{Begun, Team};
use super::worker::Probe;

/// Threads of a worker process.
const THREADS: usize = 4;
/// How long a handler works under half load.
const WORK: Duration = Duration::from_millis(10);
/// How long one side is measured before the other has its turn.
const SLICE: Duration = Duration::from_secs(1);

/// One side of a comparison: who works, and the connection on which it is enqueued.
struct Side<C> {
    team: Team,
    conn: C,
    /// From the call of the enqueue to the handler's begin.
    waits: Samples,
    /// From the return of the enqueue.
    after: Samples,
    enqueues: Samples,
    profiles: Vec<(u64, u64, Begun)>,
}

impl<C: Backend> Side<C> {
    fn start(who: &str, url: &str, processes: usize, threads: usize) -> Answer<Self> {
        Ok(Self {
            team: Team::start(who, url, processes, threads)?,
            conn: <C as Connection>::establish(url)?,
            waits: Samples::default(),
            after: Samples::default(),
            enqueues: Samples::default(),
            profiles: Vec::new(),
        })
    }

    fn enqueue(&mut self, work: Duration) -> Answer<(i64, u64, u64)> {
        let work_us = u64::try_from(work.as_micros())?;
        let before = now_ns();
        let job = Probe { work_us }.enqueue(&mut self.conn)?;
        Ok((job.id(), before, now_ns()))
    }

    fn wait(&mut self, (id, before, after): (i64, u64, u64)) -> Answer {
        let begun = self.team.wait(id)?;
        self.waits.add(Duration::from_nanos(begun.at.saturating_sub(before)));
        self.after.add(Duration::from_nanos(begun.at.saturating_sub(after)));
        self.enqueues.add(Duration::from_nanos(after.saturating_sub(before)));
        if !begun.statements.is_empty() {
            self.profiles.push((before, after, begun));
        }
        Ok(())
    }

    /// One job, when everybody has been idle for a moment.
    fn one(&mut self) -> Answer {
        std::thread::sleep(Duration::from_millis(5) + at_random(Duration::from_millis(15)));
        let job = self.enqueue(Duration::ZERO)?;
        self.wait(job)
    }

    /// Jobs that come at random and keep half of the threads at work.
    fn half_load(&mut self, processes: usize) -> Answer {
        let capacity = u32::try_from(THREADS * processes)?;
        let mean = WORK * 2 / capacity;
        let began = Instant::now();
        let (mut next, mut jobs) = (began, Vec::new());
        while began.elapsed() < SLICE {
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
            jobs.push(self.enqueue(WORK)?);
            next += exponential(mean);
        }
        jobs.into_iter().try_for_each(|job| self.wait(job))
    }

    fn cpu_share(&mut self, seconds: f64) -> Answer<f64> {
        let before = self.team.cpu_times()?;
        let began = Instant::now();
        std::thread::sleep(Duration::from_secs_f64(seconds));
        let after = self.team.cpu_times()?;
        let used: Duration = after.iter().zip(&before).map(|(after, before)| *after - *before).sum();
        #[expect(clippy::cast_precision_loss, reason = "a few processes")]
        Ok(used.as_secs_f64() / began.elapsed().as_secs_f64() / before.len() as f64)
    }

    fn take(&mut self) -> (Samples, Samples) {
        (std::mem::take(&mut self.waits), std::mem::take(&mut self.after))
    }
}

/// A time between nothing and `most`.
fn at_random(most: Duration) -> Duration {
    most.mul_f64(share())
}

/// The time to the next of events that come at random.
fn exponential(mean: Duration) -> Duration {
    mean.mul_f64(-(1.0 - share()).ln())
}

fn share() -> f64 {
    #[expect(clippy::cast_possible_truncation, reason = "some bits of it")]
    let bits = Uuid::new_v4().as_u128() as u32;
    f64::from(bits) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(feature = "postgres")]
pub(crate) fn postgres(options: &Options) -> Answer {
    use diesel::PgConnection;
    use leasehold_benches::work::Database;
    let (ours, theirs) = (Database::make("library")?, Database::make("reference")?);
    for &processes in &options.processes {
        let mut library = Side::<PgConnection>::start("library", &ours.url(), processes, THREADS)?;
        let mut reference = Side::<PgConnection>::start("reference", &theirs.url(), processes, 1)?;
        let what = format!("idle, {processes} processes");
        compare(&what, options, &mut library, &mut reference, |side, _| side.one())?;
        if processes == 1 && options.idle_seconds > 0.0 {
            let library = library.cpu_share(options.idle_seconds)?;
            let reference = reference.cpu_share(options.idle_seconds)?;
            tell(&format!(
                "idle cpu: library {:.3}% of a core, reference {:.3}%",
                library * 100.0,
                reference * 100.0
            ));
        }
        drop(reference);
        let mut reference = Side::<PgConnection>::start("reference", &theirs.url(), processes, THREADS)?;
        if processes <= 2 {
            let what = format!("half load, {processes} processes");
            compare(&what, options, &mut library, &mut reference, |side, _| {
                side.half_load(processes)
            })?;
        }
    }
    profile(options, &ours.url())
}

#[cfg(feature = "sqlite")]
pub(crate) fn sqlite(_: &Options) -> Answer {
    Ok(())
}

/// Several runs, in which the two sides take turns.
fn compare<C: Backend>(
    what: &str,
    options: &Options,
    library: &mut Side<C>,
    reference: &mut Side<C>,
    step: impl Fn(&mut Side<C>, usize) -> Answer,
) -> Answer {
    let (mut p50, mut p99) = (Vec::new(), Vec::new());
    let mut enqueue = Vec::new();
    for run in 0..options.runs {
        let until = Instant::now() + options.time();
        let mut turn = 0;
        while Instant::now() < until {
            step(library, turn)?;
            step(reference, turn)?;
            turn += 1;
        }
        let ((waits, after), (raw_waits, raw_after)) = (library.take(), reference.take());
        enqueue.push(library.enqueues.ms(0.5));
        p50.push(waits.ms(0.5) / raw_waits.ms(0.5));
        p99.push(waits.ms(0.99) / raw_waits.ms(0.99));
        for (who, waits, after) in [("library", &waits, &after), ("reference", &raw_waits, &raw_after)] {
            tell(&format!(
                "{what:<26} run {run} {who:<10} n={:<5} p50 {:.3} p99 {:.3} max {:.3} ms; after the enqueue p50 {:.3} p99 {:.3}",
                waits.len(),
                waits.ms(0.5),
                waits.ms(0.99),
                waits.max_ms(),
                after.ms(0.5),
                after.ms(0.99),
            ));
        }
    }
    tell(&format!(
        "{what:<26} ratio of p50 {:.2}, of p99 {:.2} (medians); enqueue itself {:.3} ms",
        median(&p50),
        median(&p99),
        median(&enqueue)
    ));
    Ok(())
}

/// Where the time goes between the enqueue and the handler.
#[cfg(feature = "postgres")]
fn profile(options: &Options, url: &str) -> Answer {
    let mut side = Side::<diesel::PgConnection>::start("profile", url, 1, THREADS)?;
    let until = Instant::now() + options.time();
    while Instant::now() < until {
        side.one()?;
    }
    let between = |from: u64, to: u64| Duration::from_nanos(to.saturating_sub(from));
    let mut steps: std::collections::BTreeMap<String, Samples> = std::collections::BTreeMap::new();
    let mut add = |step: &str, time| steps.entry(step.to_owned()).or_default().add(time);
    for (before, after, begun) in &side.profiles {
        add("0 enqueue", between(*before, *after));
        let mine: Vec<_> = begun.statements.iter().filter(|ran| ran.1 >= *before).collect();
        let Some(first) = mine.iter().filter(|ran| ran.0 != "Finish").map(|ran| ran.1).min() else {
            continue;
        };
        add("1 enqueue returned, to the first statement", between(*after, first));
        for ran in &mine {
            add(&format!("2 statement {}", ran.0), between(ran.1, ran.2));
        }
        if let Some(claim) = mine.iter().rev().find(|ran| ran.0 == "Claim") {
            add("3 from the first statement to the claim", between(first, claim.1));
            add("4 claimed, to the handler", between(claim.2, begun.at));
        }
        add("5 all", between(*before, begun.at));
    }
    for (step, times) in steps {
        tell(&format!(
            "profile: {step:<44} n={:<5} p50 {:.3} p99 {:.3} max {:.3} ms",
            times.len(),
            times.ms(0.5),
            times.ms(0.99),
            times.max_ms()
        ));
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "a bench prints its figures")]
fn tell(line: &str) {
    println!("{line}");
}
