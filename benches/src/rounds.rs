//! Cases in turn, several times over: a machine's speed drifts, so only what was measured side by side can be compared.

use std::time::Duration;

use crate::report::Row;
use crate::{Answer, Options, Report};

/// Fewer say nothing; more take longer to enqueue than they are worth.
const JOBS: std::ops::RangeInclusive<f64> = 40.0..=500_000.0;

/// One thing to measure.
pub struct Case<'c> {
    /// Where it goes in the report.
    pub row: Row,
    /// Does it with so many jobs.
    pub measure: Box<dyn Fn(usize) -> Answer<Measured> + 'c>,
}

impl std::fmt::Debug for Case<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Case").field("row", &self.row).finish_non_exhaustive()
    }
}

/// What came out.
#[derive(Debug, Default)]
pub struct Measured {
    /// How many jobs were done.
    pub jobs: usize,
    /// In which time.
    pub took: Duration,
    /// What else was seen: a name, a value and its unit.
    pub beside: Vec<(String, f64, &'static str)>,
}

impl Measured {
    /// Jobs in a time.
    #[must_use]
    pub fn new(jobs: usize, took: Duration) -> Self {
        Self {
            jobs,
            took,
            beside: Vec::new(),
        }
    }

    /// Jobs per second.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a count of jobs")]
    pub fn rate(&self) -> f64 {
        self.jobs as f64 / self.took.as_secs_f64().max(1e-6)
    }
}

/// Measures all cases, one after the other, as many times as the options say.
///
/// # Errors
///
/// The first of theirs.
pub fn run(report: &mut Report, options: &Options, cases: &[Case<'_>]) -> Answer {
    let wanted = |case: &&Case<'_>| {
        let name = format!("{} {} {}", case.row.what, case.row.system, case.row.setting);
        options.only.as_ref().is_none_or(|only| name.contains(only.as_str()))
    };
    let cases: Vec<&Case<'_>> = cases.iter().filter(wanted).collect();
    // Jobs per second, from the last time; a low guess at first.
    let mut rates = vec![500.0; cases.len()];
    for round in 0..options.runs {
        for (case, rate) in cases.iter().zip(&mut rates) {
            let measured = measure(case, options, rate, round == 0)
                .map_err(|error| format!("{} {} {}: {error}", case.row.what, case.row.system, case.row.setting))?;
            eprintln!(
                "{} of {}: {} {} {} {}: {:.0}/s",
                round + 1,
                options.runs,
                case.row.backend,
                case.row.what,
                case.row.system,
                case.row.setting,
                measured.rate()
            );
            report.record(&case.row, measured.rate());
            for (what, value, unit) in measured.beside {
                let row = Row {
                    what,
                    unit,
                    ..case.row.clone()
                };
                report.record(&row, value);
            }
        }
    }
    Ok(())
}

/// Once with as many jobs as take the time that is asked for; at first with fewer, until that number is known.
fn measure(case: &Case<'_>, options: &Options, rate: &mut f64, first: bool) -> Answer<Measured> {
    loop {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "clamped to what is a sensible number of jobs"
        )]
        let jobs = (*rate * options.seconds).clamp(*JOBS.start(), *JOBS.end()) as usize;
        let measured = (case.measure)(jobs)?;
        let known = *rate;
        *rate = measured.rate();
        let too_short = *rate > known * 1.7 && known * options.seconds < *JOBS.end();
        if !(first && too_short) {
            return Ok(measured);
        }
    }
}
