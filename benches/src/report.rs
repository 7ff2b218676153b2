//! What was measured, as a table, as files and as a plot.

mod facts;
pub use facts::Facts;

mod files;
pub use files::directory;
pub(crate) use files::{figure, print as files_print};

mod plot;
pub use plot::lines;

use std::fmt;

/// The library's name in a report.
pub const OURS: &str = "leasehold";
/// The name of the same statements without a framework.
pub const RAW: &str = "raw";

/// What was chosen for a measurement: threads, processes, batch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Setting(Vec<(&'static str, usize)>);

impl Setting {
    /// Nothing chosen.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One choice more.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: usize) -> Self {
        self.0.push((name, value));
        self
    }

    /// What was chosen under a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<usize> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        f.write_str(&parts.join(" "))
    }
}

/// One thing that was measured, a value for each run.
#[derive(Debug, Clone)]
pub struct Row {
    /// The bench.
    pub bench: &'static str,
    /// What was measured: `finish`, `enqueue one by one`.
    pub what: String,
    /// Whose: [`OURS`], [`RAW`] or a peer's name.
    pub system: String,
    /// `postgres` or `sqlite`.
    pub backend: &'static str,
    /// Under which settings.
    pub setting: Setting,
    /// Of what: `jobs/s`.
    pub unit: &'static str,
    /// One for each run; runs of the same number were made in turn.
    pub values: Vec<f64>,
}

impl Row {
    /// The median of the runs.
    #[must_use]
    pub fn median(&self) -> f64 {
        median(self.values.clone())
    }

    /// The median, over the runs, of how many times `other`'s value this one's is.
    #[must_use]
    pub fn times(&self, other: &Self) -> f64 {
        let runs = self.values.iter().zip(&other.values);
        median(runs.map(|(mine, theirs)| mine / theirs).collect())
    }
}

/// The middle value; of an even number of them the mean of the two in the middle.
#[must_use]
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        even if even % 2 == 0 => f64::midpoint(values[middle - 1], values[middle]),
        _ => values[middle],
    }
}

/// All that a bench measured, in the order in which it came.
#[derive(Debug, Default)]
pub struct Report {
    rows: Vec<Row>,
    facts: Facts,
}

impl Report {
    /// An empty report, with what is known of this machine.
    #[must_use]
    pub fn new() -> Self {
        Self {
            rows: Vec::new(),
            facts: Facts::of_this_machine(),
        }
    }

    /// Adds what a database says of itself, once.
    pub fn note(&mut self, name: &str, value: impl Into<String>) {
        self.facts.add(name, value.into());
    }

    /// Adds the value of one run to its row. The row's own values are ignored.
    pub fn record(&mut self, of: &Row, value: f64) {
        let same = |row: &&mut Row| {
            (row.bench, row.backend, row.unit) == (of.bench, of.backend, of.unit)
                && (&row.what, &row.system) == (&of.what, &of.system)
                && row.setting == of.setting
        };
        match self.rows.iter_mut().find(same) {
            Some(row) => row.values.push(value),
            None => self.rows.push(Row {
                values: vec![value],
                ..of.clone()
            }),
        }
    }

    /// All rows.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The rows, those together that can be compared: of one thing, on one backend, in one unit.
    fn groups(&self) -> Vec<Vec<&Row>> {
        let mut groups: Vec<Vec<&Row>> = Vec::new();
        for row in &self.rows {
            let compares = |group: &&mut Vec<&Row>| {
                let first = group[0];
                first.what == row.what && (first.bench, first.backend, first.unit) == (row.bench, row.backend, row.unit)
            };
            match groups.iter_mut().find(compares) {
                Some(group) => group.push(row),
                None => groups.push(vec![row]),
            }
        }
        groups
    }

    /// The row with the largest median of those that have all of `setting`; zero stands for what was not chosen.
    #[must_use]
    pub fn best(&self, system: &str, backend: &str, what: &str, setting: &Setting) -> Option<&Row> {
        let wanted = |row: &&Row| {
            let chosen = |(name, value): &(&str, usize)| row.setting.get(name).unwrap_or_default() == *value;
            (row.system.as_str(), row.backend, row.what.as_str()) == (system, backend, what)
                && setting.0.iter().all(chosen)
        };
        let rows = self.rows.iter().filter(wanted);
        rows.max_by(|one, other| one.median().total_cmp(&other.median()))
    }

    /// How many times the reference ours is, each at its best under `setting`.
    #[must_use]
    pub fn ours_to_raw(&self, backend: &str, what: &str, setting: &Setting) -> Option<f64> {
        let ours = self.best(OURS, backend, what, setting)?;
        Some(ours.times(self.best(RAW, backend, what, setting)?))
    }
}
