//! `pause`, `resume` and `pauses`.

use leasehold::AsBackend;
use leasehold::manage::{self, Scope};
use serde::Serialize;

use crate::cli::{Pause, Paused, Resume};
use crate::database::Session;
use crate::failure::Failure;
use crate::output::{self, Done};

#[derive(Serialize)]
struct Shown {
    scope: &'static str,
    name: Option<String>,
    at: String,
    by: String,
    reason: String,
}

impl Paused {
    fn scope(&self) -> Scope<'_> {
        match (&self.queue, &self.kind) {
            (Some(queue), _) => Scope::Queue(queue),
            (_, Some(kind)) => Scope::Kind(kind),
            _ => Scope::All,
        }
    }
}

pub(super) fn pause<C: AsBackend>(session: &mut Session<'_, C>, pause: &Pause) -> Result<(), Failure> {
    let by = pause.by.name();
    manage::pause(session.conn, &session.schema, pause.paused.scope(), &by, &pause.reason)?;
    session.output.done(
        &Done {
            did: "set",
            count: 1,
            more: false,
            dry_run: false,
        },
        "pause",
    )
}

pub(super) fn resume<C: AsBackend>(session: &mut Session<'_, C>, resume: &Resume) -> Result<(), Failure> {
    let by = resume.by.name();
    if !manage::resume(session.conn, &session.schema, resume.paused.scope(), &by)? {
        return Err(Failure::Nothing(
            "that is not paused; `pauses` lists what is".to_owned(),
        ));
    }
    session.output.done(
        &Done {
            did: "ended",
            count: 1,
            more: false,
            dry_run: false,
        },
        "pause",
    )
}

pub(super) fn list<C: AsBackend>(session: &mut Session<'_, C>) -> Result<(), Failure> {
    let pauses: Vec<Shown> = manage::pauses(session.conn, &session.schema)?
        .iter()
        .map(|pause| {
            let (scope, name) = match pause.scope() {
                Scope::All => ("all", None),
                Scope::Queue(name) => ("queue", Some(name.to_owned())),
                Scope::Kind(name) => ("kind", Some(name.to_owned())),
            };
            Shown {
                scope,
                name,
                at: output::time(pause.at),
                by: pause.by.clone(),
                reason: pause.reason.clone(),
            }
        })
        .collect();
    session.output.say(&pauses, |pauses| {
        let rows = pauses.iter().map(|pause| {
            [
                pause.scope.to_owned(),
                output::line(pause.name.as_deref().unwrap_or_default()),
                pause.at.clone(),
                output::line(&pause.by),
                output::short(&pause.reason, 60),
            ]
        });
        output::table(["SCOPE", "NAME", "SINCE", "BY", "REASON"], rows)
    })
}
