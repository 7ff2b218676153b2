use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

use leasehold::{Handler, Job, JobError, LeaseGuard, Outcome};
use serde::{Deserialize, Serialize};

use super::{App, Effects, Then, about_to_begin, tell_end};

/// A job with a recorded step. Its effect notes its key in a file, as an outside system that keeps everything, and then waits
/// for [`Begun::go`](super::Begun::go): between the effect and its record.
#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(kind = "charge", max_attempts = 5, backoff = "fixed(20ms)", lease = "3s")]
pub struct Charge {
    /// Names it, in `effects` too.
    pub n: i64,
    /// Where its calls are noted.
    pub calls: PathBuf,
    /// What it does after the step.
    pub then: Then,
}

impl Charge {
    /// The keys of the calls so far.
    pub fn keys(&self) -> Vec<String> {
        let calls = fs::read_to_string(&self.calls).unwrap_or_default();
        calls.lines().map(str::to_owned).collect()
    }

    fn note(&self, key: &str) -> std::io::Result<()> {
        let mut calls = OpenOptions::new().create(true).append(true).open(&self.calls)?;
        writeln!(calls, "{key}")
    }
}

impl<C: Effects> Handler<C, App> for Charge {
    fn run<'j>(self, mut lease: LeaseGuard<'j, C>, app: &App) -> Outcome<'j> {
        let attempt = lease.attempt();
        let (begun, word) = about_to_begin(self.n, &lease);
        let charged = lease.step("charge", |key| {
            self.note(key)?;
            let _ = app.begun.send(begun);
            let _ = word.recv();
            Ok::<_, JobError>(self.n)
        });
        let outcome = charged.and_then(|n| self.then.run(n, lease));
        tell_end(app, self.n, attempt, &outcome);
        outcome
    }
}
