//! `doctor`: what is wrong with the database.

use leasehold::AsBackend;
use leasehold::check::{self, Severity};
use serde::Serialize;

use crate::database::Session;
use crate::failure::Failure;
use crate::output;

#[derive(Serialize)]
struct Shown {
    severity: String,
    finding: String,
    remedy: &'static str,
}

pub(super) fn run<C: AsBackend>(session: &mut Session<'_, C>) -> Result<(), Failure> {
    let mut findings = check::check(session.conn, &session.schema)?;
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity()));
    let shown: Vec<Shown> = findings
        .iter()
        .map(|finding| Shown {
            severity: finding.severity().to_string(),
            finding: finding.to_string(),
            remedy: finding.remedy(),
        })
        .collect();
    session.output.say(&shown, |shown| match shown.as_slice() {
        [] => "nothing found".to_owned(),
        shown => shown.iter().map(paragraph).collect::<Vec<_>>().join("\n\n"),
    })?;
    match findings.iter().any(|finding| finding.severity() > Severity::Advice) {
        true => Err(Failure::Found),
        false => Ok(()),
    }
}

fn paragraph(shown: &Shown) -> String {
    format!(
        "{}: {}\n  {}",
        shown.severity,
        output::line(&shown.finding),
        shown.remedy
    )
}
