//! What the command line may choose.

use crate::child::Outcome;
use crate::systems::{SYSTEMS, System};

pub(crate) const USAGE: &str = "\
usage: leasehold-peers [--smoke] [--systems NAME,NAME] [--shapes NAME,NAME] [--jobs N] [--rounds N] [--samples N] [--chunk N]

  --systems   which, of: leasehold, fang, graphile_worker, graphile-worker, apalis-postgres, awa, pg-boss; all by default
  --shapes    which, of: work, unbatched, single, pickup; all by default
  --jobs      jobs of a round's work (40000); an eighth one by one; without batching a tenth, and then what 5 seconds take
  --rounds    how often all of it is measured, system after system (3); the table has the medians
  --samples   jobs for an idle worker, in each round (150)
  --chunk     jobs in one call of a bulk enqueue (1000)
  --smoke     400 jobs, one round, 20 samples, without batching at 1 and 4 only: shows that it runs, and measures nothing

The server is the one that LEASEHOLD_TEST_DATABASE_URL names: benches/peers/run starts one.";

const SHAPES: [&str; 4] = ["work", "unbatched", "single", "pickup"];

#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) systems: Vec<&'static System>,
    pub(crate) shapes: Vec<String>,
    pub(crate) jobs: usize,
    pub(crate) rounds: usize,
    pub(crate) samples: usize,
    pub(crate) chunk: usize,
    pub(crate) smoke: bool,
}

impl Options {
    pub(crate) fn parse(arguments: &[String]) -> Outcome<Self> {
        let mut options = Self {
            systems: SYSTEMS.iter().collect(),
            shapes: SHAPES.map(str::to_owned).to_vec(),
            jobs: 40_000,
            rounds: 3,
            samples: 150,
            chunk: 1000,
            smoke: false,
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            if argument == "--smoke" {
                (options.jobs, options.rounds, options.samples, options.smoke) = (400, 1, 20, true);
                continue;
            }
            let value = arguments.next().ok_or(USAGE)?;
            match argument.as_str() {
                "--systems" => options.systems = named(value)?,
                "--shapes" => options.shapes = shapes(value)?,
                "--jobs" => options.jobs = positive(value)?,
                "--rounds" => options.rounds = positive(value)?,
                "--samples" => options.samples = positive(value)?,
                "--chunk" => options.chunk = positive(value)?,
                _ => return Err(USAGE.into()),
            }
        }
        Ok(options)
    }
}

fn named(names: &str) -> Outcome<Vec<&'static System>> {
    names
        .split(',')
        .map(|name| {
            let found = SYSTEMS.iter().find(|system| system.name == name);
            found.ok_or_else(|| format!("no system is called {name}\n\n{USAGE}").into())
        })
        .collect()
}

fn shapes(names: &str) -> Outcome<Vec<String>> {
    names
        .split(',')
        .map(|name| match SHAPES.contains(&name) {
            true => Ok(name.to_owned()),
            false => Err(format!("no shape is called {name}\n\n{USAGE}").into()),
        })
        .collect()
}

fn positive(value: &str) -> Outcome<usize> {
    match value.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!("{value} is not a positive number\n\n{USAGE}").into()),
    }
}
