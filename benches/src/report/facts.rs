//! Under which circumstances something was measured.

use std::fmt;
use std::process::Command;

/// Name and value of each.
#[derive(Debug, Clone, Default)]
pub struct Facts(Vec<(String, String)>);

impl Facts {
    pub(super) fn of_this_machine() -> Self {
        let mut facts = Self::default();
        let today = jiff::Timestamp::now().to_string();
        facts.add("date", today.split('T').next().unwrap_or_default().to_owned());
        facts.add("system", format!("{} {}", std::env::consts::OS, std::env::consts::ARCH));
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        facts.add("cores", cores.to_string());
        facts.add("rustc", rustc().unwrap_or_else(|| "unknown".to_owned()));
        if cfg!(debug_assertions) {
            facts.add("build", "debug: these figures mean nothing".to_owned());
        }
        facts
    }

    pub(super) fn add(&mut self, name: &str, value: String) {
        if !self.0.iter().any(|(known, _)| known == name) {
            self.0.push((name.to_owned(), value));
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.iter().map(|(name, value)| format!("{name} {value}")).collect();
        f.write_str(&parts.join(", "))
    }
}

fn rustc() -> Option<String> {
    let output = Command::new("rustc").arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.split(' ').nth(1).map(str::to_owned)
}
