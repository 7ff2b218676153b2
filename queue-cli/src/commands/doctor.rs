//! `doctor`: what is wrong with the database.

use leasehold::AsBackend;
use leasehold::check::{CheckError, Severity, Thresholds, check_at};
use serde::Serialize;

use crate::database::Session;
use crate::failure::Failure;
use crate::output;

#[derive(Serialize)]
struct Shown {
    name: &'static str,
    severity: String,
    finding: String,
    remedy: &'static str,
}

pub(super) fn run<C: AsBackend>(session: &mut Session<'_, C>) -> Result<(), Failure> {
    // On connections of its own: only two of them together tell of a pooler.
    let findings = check_at::<C::Connection>(session.url, &session.schema, &Thresholds::default())?;
    let shown: Vec<Shown> = findings
        .iter()
        .map(|finding| Shown {
            name: finding.name(),
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

impl From<CheckError> for Failure {
    fn from(error: CheckError) -> Self {
        match error {
            CheckError::Connect(text) => Self::Connect(diesel::ConnectionError::BadConnection(text)),
            CheckError::Database(error) => Self::Database(error),
            other => Self::Refused(other.to_string()),
        }
    }
}
