//! System after system, round after round: what else the machine does falls on all of them.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use crate::child::Outcome;
use crate::database::{self, Server};
use crate::options::Options;
use crate::order::{Answer, Order, Shape};
use crate::systems::{self, RunsOn, System};

const CONCURRENCIES: [usize; 5] = [1, 2, 4, 8, 16];
/// How many seconds a measurement without batching lasts at the least, about.
const LASTS: f64 = 5.0;
/// With the braces and the key, 200 bytes of JSON.
const FILLER: usize = 187;

#[derive(Debug)]
pub(crate) struct Results {
    pub(crate) server: String,
    pub(crate) systems: Vec<&'static System>,
    /// Name and reason of what was not measured.
    pub(crate) skipped: Vec<(&'static str, String)>,
    pub(crate) versions: BTreeMap<&'static str, String>,
    /// All answers, in the order of the rounds.
    pub(crate) answers: BTreeMap<(&'static str, Shape), Vec<Answer>>,
}

pub(crate) fn run(server: &mut Server, options: &Options) -> Outcome<Results> {
    let mut results = Results {
        server: server.version.clone(),
        systems: Vec::new(),
        skipped: Vec::new(),
        versions: BTreeMap::new(),
        answers: BTreeMap::new(),
    };
    for system in &options.systems {
        match system.missing() {
            None => results.systems.push(system),
            Some(reason) => {
                eprintln!("skipped: {}: {reason}", system.name);
                results.skipped.push((system.name, reason));
            }
        }
    }
    for round in 1..=options.rounds {
        for (shape, jobs) in shapes(options) {
            for system in results.systems.clone() {
                if shape == Shape::Pickup && !system.is_woken {
                    continue;
                }
                if !server.keeps(system.name) {
                    measure(server, options, system, Shape::Prepare, 1)?;
                    server.keep(system.name)?;
                }
                let jobs = if options.smoke { jobs } else { enough(&results, system, shape, jobs) };
                let answer = measure(server, options, system, shape, jobs)?;
                eprintln!("{}", line(round, system, shape, &answer));
                let version = system.built_version().or_else(|| answer.version.clone());
                results.versions.insert(system.name, version.unwrap_or_default());
                results.answers.entry((system.name, shape)).or_default().push(answer);
            }
        }
    }
    server.clear()?;
    Ok(results)
}

/// Without batching, as many jobs as the system was last seen to run in [`LASTS`] seconds: in less than a second it has hardly
/// opened its connections, and the server has planned nothing on them.
fn enough(results: &Results, system: &System, shape: Shape, jobs: usize) -> usize {
    let Shape::Unbatched(_) = shape else {
        return jobs;
    };
    let seen = |(other, answers): (&(&str, Shape), &Vec<Answer>)| match other {
        (name, Shape::Unbatched(concurrency)) if *name == system.name => {
            Some((*concurrency, answers.last().and_then(|answer| answer.rate)?))
        }
        _ => None,
    };
    let last = results.answers.iter().filter_map(seen).max_by_key(|(concurrency, _)| *concurrency);
    last.map_or(jobs, |(_, rate)| jobs.max((rate * LASTS) as usize))
}

fn shapes(options: &Options) -> Vec<(Shape, usize)> {
    let concurrencies = if options.smoke { &[1, 4][..] } else { &CONCURRENCIES };
    let mut shapes = Vec::new();
    for name in &options.shapes {
        match name.as_str() {
            "work" => shapes.push((Shape::Work, options.jobs)),
            "single" => shapes.push((Shape::Single, options.jobs.div_ceil(8))),
            "pickup" => shapes.push((Shape::Pickup, options.samples)),
            _ => shapes.extend(
                concurrencies
                    .iter()
                    .map(|&concurrency| (Shape::Unbatched(concurrency), options.jobs.div_ceil(10))),
            ),
        }
    }
    shapes
}

fn measure(server: &mut Server, options: &Options, system: &System, shape: Shape, jobs: usize) -> Outcome<Answer> {
    let order = Order {
        system: system.name.to_owned(),
        url: server.fresh(system.name)?,
        shape,
        jobs,
        chunk: options.chunk,
        connections: 8,
        filler: "x".repeat(FILLER),
        left: system.left.to_owned(),
    };
    let mut command = match system.runs_on {
        RunsOn::Rust => {
            let mut command = Command::new(std::env::current_exe()?);
            command.arg("child");
            command
        }
        RunsOn::Node(script) => {
            let mut command = Command::new(systems::node());
            command.arg(script).current_dir(systems::node_folder());
            command.env("NODE_ENV", "production");
            command
        }
    };
    if let (Shape::Unbatched(concurrency), "awa") = (shape, system.name) {
        let concurrency = concurrency.to_string();
        command.env("AWA_COMPLETION_BATCH_SIZE", "1");
        command.env("AWA_COMPLETION_SHARDS", &concurrency);
        command.env("AWA_MAX_CLAIMERS_PER_QUEUE", &concurrency);
    }
    let output = command
        .arg(serde_json::to_string(&order)?)
        .stderr(Stdio::inherit())
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let failed = |reason: String| format!("{}, {shape:?}: {reason}", system.name);
    let last = text.lines().last().unwrap_or_default();
    let answer: Answer = match output.status.success() {
        true => serde_json::from_str(last).map_err(|error| failed(format!("{error}: {text}")))?,
        false => return Err(failed(output.status.to_string()).into()),
    };
    check(&order, system, &answer).map_err(|error| failed(error.to_string()))?;
    Ok(answer)
}

/// All jobs are in the tables, and completed if they were to be run.
fn check(order: &Order, system: &System, answer: &Answer) -> Outcome<()> {
    let jobs = i64::try_from(order.jobs)?;
    let left = database::count(&order.url, system.left)?;
    match order.shape {
        Shape::Single if left != jobs => Err(format!("{left} of {jobs} jobs are in the table").into()),
        Shape::Prepare | Shape::Single | Shape::Pickup => Ok(()),
        Shape::Work | Shape::Unbatched(_) => {
            let done = match system.done {
                Some(done) => database::count(&order.url, done)?,
                None => i64::try_from(answer.begun)? - left,
            };
            if left != 0 || done != jobs {
                return Err(format!("of {jobs} jobs {done} are completed, {left} are left").into());
            }
            Ok(())
        }
    }
}

fn line(round: usize, system: &System, shape: Shape, answer: &Answer) -> String {
    let mut line = format!("round {round}  {:<16} {:<14}", system.name, format!("{shape:?}"));
    if let Some(rate) = answer.rate {
        line += &format!(" {rate:>9.0}/s");
    }
    if let (Some(bulk), true) = (answer.bulk, shape == Shape::Work && system.has_bulk) {
        line += &format!("  enqueued in bulk {bulk:>9.0}/s");
    }
    if let (Some(p50), Some(p99)) = (answer.p50, answer.p99) {
        line += &format!(" p50 {p50:.2} ms  p99 {p99:.2} ms");
    }
    line
}
