//! The report on the screen and under `target/bench`.

use std::fmt::Write;
use std::path::PathBuf;
use std::{env, fs};

use comfy_table::{CellAlignment, Table, presets};

use super::{OURS, RAW, Report, Row, Setting, plot};
use crate::Answer;

/// Where reports go, `target/bench` unless the environment says otherwise.
///
/// # Errors
///
/// When it cannot be made.
pub fn directory() -> Answer<PathBuf> {
    let named = env::var_os("LEASEHOLD_BENCH_DIRECTORY").map(PathBuf::from);
    let built = || match env::var_os("CARGO_TARGET_DIR") {
        Some(target) => PathBuf::from(target),
        None => PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../target")),
    };
    let directory = named.unwrap_or_else(|| built().join("bench"));
    fs::create_dir_all(&directory)?;
    Ok(directory)
}

const HEADS: [&str; 8] = [
    "what", "backend", "system", "setting", "median", "unit", "spread", "of raw",
];

impl Report {
    /// Prints the table and writes `NAME.csv`, `NAME.md` and `NAME.svg`.
    ///
    /// # Errors
    ///
    /// When a file cannot be written.
    pub fn publish(&self, name: &str) -> Answer {
        let directory = directory()?;
        fs::write(directory.join(name).with_extension("csv"), self.csv()?)?;
        fs::write(directory.join(name).with_extension("md"), self.markdown(name)?)?;
        plot::bars(&directory.join(name).with_extension("svg"), name, &self.groups())?;
        let mut table = Table::new();
        table.load_style(presets::UTF8_FULL_CONDENSED).set_header(HEADS);
        for row in self.groups().into_iter().flatten() {
            table.add_row(self.cells(row));
        }
        for column in [4, 6, 7] {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        print(&format!("{name}: {}\n{table}", self.facts));
        Ok(())
    }

    fn cells(&self, row: &Row) -> [String; 8] {
        let (least, most) = row.values.iter().fold((f64::MAX, f64::MIN), |(least, most), value| {
            (least.min(*value), most.max(*value))
        });
        [
            row.what.clone(),
            row.backend.to_owned(),
            row.system.clone(),
            row.setting.to_string(),
            figure(row.median()),
            row.unit.to_owned(),
            format!("{}–{}", figure(least), figure(most)),
            self.of_raw(row).map(|ratio| format!("{ratio:.2}")).unwrap_or_default(),
        ]
    }

    /// Against the reference at its best with the same batch.
    fn of_raw(&self, row: &Row) -> Option<f64> {
        let batch = row
            .setting
            .get("batch")
            .map_or_else(Setting::new, |batch| Setting::new().with("batch", batch));
        let raw = self.best(RAW, row.backend, &row.what, &batch)?;
        (row.system == OURS).then(|| row.times(raw))
    }

    fn csv(&self) -> Answer<String> {
        let mut text = String::from("bench,what,system,backend,setting,unit,median,values\n");
        for row in self.groups().into_iter().flatten() {
            let Row {
                bench,
                what,
                system,
                backend,
                setting,
                unit,
                ..
            } = row;
            let values: Vec<String> = row.values.iter().map(f64::to_string).collect();
            let (what, system) = (field(what), field(system));
            let (median, values) = (row.median(), values.join(" "));
            writeln!(
                text,
                "{bench},{what},{system},{backend},{setting},{unit},{median},{values}"
            )?;
        }
        Ok(text)
    }

    fn markdown(&self, name: &str) -> Answer<String> {
        let mut text = format!("# {name}\n\n");
        for (name, value) in self.facts.iter() {
            writeln!(text, "- {name}: {value}")?;
        }
        writeln!(text, "\n| {} |\n|{}", HEADS.join(" | "), " --- |".repeat(HEADS.len()))?;
        for row in self.groups().into_iter().flatten() {
            writeln!(text, "| {} |", self.cells(row).join(" | "))?;
        }
        Ok(text)
    }
}

/// As a field of a CSV file.
fn field(text: &str) -> String {
    match text.contains([',', '"']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

/// Three digits that mean something, thousands grouped.
pub(crate) fn figure(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    match value.abs() {
        small if small < 10.0 => format!("{value:.2}"),
        middle if middle < 100.0 => format!("{value:.1}"),
        _ => {
            let digits = format!("{value:.0}");
            let mut text = String::new();
            for (place, digit) in digits.chars().enumerate() {
                let left = digits.len() - place;
                if place > 0 && left.is_multiple_of(3) {
                    text.push(',');
                }
                text.push(digit);
            }
            text
        }
    }
}

#[expect(clippy::print_stdout, reason = "a bench prints its figures")]
pub(crate) fn print(text: &str) {
    println!("{text}");
}
