//! The ratios that the library is to reach, each with what was measured.

use comfy_table::{Table, presets};

use crate::report::files_print;

/// One line of the bar.
#[derive(Debug, Clone)]
pub struct Bar {
    /// What is compared with what.
    pub name: String,
    wanted: Wanted,
    /// `None`: nothing here has measured it.
    pub measured: Option<f64>,
    /// Where it is measured, or under which settings.
    pub note: String,
}

#[derive(Debug, Clone, Copy)]
enum Wanted {
    AtLeast(f64),
    AtMost(f64),
}

impl Bar {
    /// Met from this ratio on.
    #[must_use]
    pub fn at_least(name: impl Into<String>, ratio: f64, measured: Option<f64>) -> Self {
        Self::new(name, Wanted::AtLeast(ratio), measured)
    }

    /// Met up to this figure.
    #[must_use]
    pub fn at_most(name: impl Into<String>, figure: f64, measured: Option<f64>) -> Self {
        Self::new(name, Wanted::AtMost(figure), measured)
    }

    fn new(name: impl Into<String>, wanted: Wanted, measured: Option<f64>) -> Self {
        Self {
            name: name.into(),
            wanted,
            measured,
            note: String::new(),
        }
    }

    /// Says where it is measured, or under which settings.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// Whether it is met; `None` if it was not measured.
    #[must_use]
    pub fn is_met(&self) -> Option<bool> {
        self.measured.map(|measured| match self.wanted {
            Wanted::AtLeast(ratio) => measured >= ratio,
            Wanted::AtMost(figure) => measured <= figure,
        })
    }
}

/// Prints each line with what was measured.
pub fn print(bars: &[Bar]) {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_FULL_CONDENSED)
        .set_header(["the bar", "wanted", "measured", "", "note"]);
    for bar in bars {
        let wanted = match bar.wanted {
            Wanted::AtLeast(ratio) => format!("≥ {ratio}"),
            Wanted::AtMost(figure) => format!("≤ {figure}"),
        };
        let verdict = match bar.is_met() {
            Some(true) => "met",
            Some(false) => "NOT MET",
            None => "not measured here",
        };
        let measured = bar.measured.map(|measured| format!("{measured:.2}"));
        table.add_row([
            &bar.name,
            &wanted,
            &measured.unwrap_or_default(),
            &verdict.to_owned(),
            &bar.note,
        ]);
    }
    files_print(&table.to_string());
}
