//! The answer, for people or for programs.
//!
//! Texts from the database may be anybody's: what could drive a terminal is escaped before it is shown to people. JSON has
//! them as they are, in its own escapes.

use std::fmt::Write as _;
use std::io::{self, BufRead, IsTerminal, Write};
use std::time::{Duration, SystemTime};

use comfy_table::Table;
use comfy_table::presets::NOTHING;
use jiff::{Timestamp, Unit};
use serde::Serialize;

use crate::cli::Sure;
use crate::failure::Failure;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    pub(crate) json: bool,
}

/// What a command that changes something did, or would do.
#[derive(Debug, Serialize)]
pub(crate) struct Done {
    /// `cancelled`, `requeued`, …
    pub(crate) did: &'static str,
    /// How many jobs, schedules or pauses.
    pub(crate) count: u64,
    /// Whether a dry run stopped counting there.
    pub(crate) more: bool,
    pub(crate) dry_run: bool,
}

impl Output {
    /// Says `value` as JSON, or as what `people` makes of it.
    pub(crate) fn say<T: Serialize>(self, value: &T, people: impl FnOnce(&T) -> String) -> Result<(), Failure> {
        let text = match self.json {
            true => serde_json::to_string_pretty(value)?,
            false => people(value),
        };
        self.print(&text)
    }

    /// A text that is the same for people and programs.
    pub(crate) fn print(self, text: &str) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        if !text.is_empty() && !text.ends_with('\n') {
            out.write_all(b"\n")?;
        }
        Ok(out.flush()?)
    }

    pub(crate) fn done(self, done: &Done, what: &str) -> Result<(), Failure> {
        let would = if done.dry_run { "would be " } else { "" };
        let more = if done.more { "+" } else { "" };
        self.say(done, |done| format!("{}{more} {what} {would}{}", done.count, done.did))
    }
}

/// Says on the standard error, which nobody reads any more if it cannot be written.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(io::stderr(), "{}", lines(text));
}

/// Asks whether to go on; refused where nobody can be asked.
pub(crate) fn confirm(sure: &Sure, question: &str) -> Result<(), Failure> {
    if sure.yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(Failure::Refused(format!(
            "{question} Nobody can be asked here: say --yes, or --dry-run to see what it would do"
        )));
    }
    write!(io::stderr(), "{} [y/N] ", lines(question))?;
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::Refused("nothing was done".to_owned())),
    }
}

/// A table without lines, which `cut` and `awk` understand, too.
pub(crate) fn table<const N: usize>(head: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(head);
    for row in rows {
        table.add_row(row);
    }
    table.trim_fmt()
}

/// In one line, without anything that a terminal obeys.
pub(crate) fn line(text: &str) -> String {
    escaped(text, |_| false)
}

/// As [`line`], but lines stay lines.
pub(crate) fn lines(text: &str) -> String {
    escaped(text, |c| c == '\n')
}

fn escaped(text: &str, keeps: impl Fn(char) -> bool) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if keeps(c) => safe.push(c),
            // Directions can make a text read as another one.
            c if c.is_control()
                || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') =>
            {
                let _ = write!(safe, "{}", c.escape_default());
            }
            c => safe.push(c),
        }
    }
    safe
}

/// At most `most` characters of the first line.
pub(crate) fn short(text: &str, most: usize) -> String {
    let first = text.lines().next().unwrap_or_default();
    let cut: String = first.chars().take(most).collect();
    let dots = if cut.len() < text.trim_end().len() { "…" } else { "" };
    line(&cut) + dots
}

/// A time as RFC 3339 in UTC, to the second.
pub(crate) fn time(at: SystemTime) -> String {
    let at = Timestamp::try_from(at).and_then(|at| at.round(Unit::Second));
    at.map_or_else(|_| "beyond the calendar".to_owned(), |at| at.to_string())
}

/// How far `at` is from now: `3m ago`, `in 2h`.
pub(crate) fn distance(at: SystemTime) -> String {
    match at.elapsed() {
        Ok(ago) => format!("{} ago", length(ago)),
        Err(ahead) => format!("in {}", length(ahead.duration())),
    }
}

/// To one unit: `90s`, `3m`.
pub(crate) fn length(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..=119 => format!("{seconds}s"),
        120..=7_199 => format!("{}m", seconds / 60),
        7_200..=172_799 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// `3 jobs`, `1 job`.
pub(crate) fn jobs(count: u64) -> &'static str {
    if count == 1 { "job" } else { "jobs" }
}
