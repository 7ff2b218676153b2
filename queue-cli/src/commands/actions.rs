//! `actions`: who did what by hand.

use leasehold::AsBackend;
use leasehold::inspect::{self, ActionFilter, ActionRecord, Target};
use serde::Serialize;

use crate::cli::Actions;
use crate::database::Session;
use crate::failure::Failure;
use crate::output;

/// These names are what programs read: add to them, change none.
#[derive(Serialize)]
pub(super) struct Action {
    id: i64,
    at: String,
    by: String,
    action: String,
    /// `job`, `all`, `queue`, `kind`, `schedule` or `batch`.
    on: &'static str,
    /// The id of a job or a batch, the name of anything else.
    target: Option<String>,
    /// A job's, before and afterwards.
    generation: Option<i64>,
    new_generation: Option<i64>,
    reason: Option<String>,
}

impl From<ActionRecord> for Action {
    fn from(record: ActionRecord) -> Self {
        let mut generations = None;
        let (on, target) = match record.target {
            Target::Job {
                id,
                generation,
                new_generation,
            } => {
                generations = Some((generation, new_generation));
                ("job", Some(id.to_string()))
            }
            Target::All => ("all", None),
            Target::Queue(name) => ("queue", Some(name)),
            Target::Kind(name) => ("kind", Some(name)),
            Target::Schedule(name) => ("schedule", Some(name)),
            Target::Batch(id) => ("batch", Some(id.to_string())),
            // A later library's.
            _ => ("other", None),
        };
        Self {
            id: record.id,
            at: output::time(record.at),
            by: record.by,
            action: record.action,
            on,
            target,
            generation: generations.map(|(generation, _)| generation),
            new_generation: generations.map(|(_, new)| new),
            reason: record.reason.filter(|reason| !reason.is_empty()),
        }
    }
}

pub(super) fn run<C: AsBackend>(session: &mut Session<'_, C>, actions: &Actions) -> Result<(), Failure> {
    let mut filter = ActionFilter::new();
    if let Some(id) = actions.job {
        filter = filter.job(id);
    }
    if let Some(by) = &actions.by {
        filter = filter.by(by);
    }
    let newest = &actions.newest;
    let found = inspect::actions(session.conn, &session.schema, &filter, newest.before, newest.limit)?;
    let shown: Vec<Action> = found.into_iter().map(Into::into).collect();
    session.output.say(&shown, |shown| {
        let last = shown.last().map(|action| action.id);
        table(shown) + &newest.further(shown.len(), last)
    })
}

pub(super) fn table(actions: &[Action]) -> String {
    let rows = actions.iter().map(|action| {
        let target = match &action.target {
            Some(name) => format!("{} {}", action.on, output::short(name, 40)),
            None => action.on.to_owned(),
        };
        let generations = match (action.generation, action.new_generation) {
            (Some(before), Some(after)) if before != after => format!("{before} to {after}"),
            (Some(same), _) => same.to_string(),
            _ => String::new(),
        };
        [
            action.at.clone(),
            output::line(&action.by),
            output::line(&action.action),
            target,
            generations,
            output::short(action.reason.as_deref().unwrap_or_default(), 60),
        ]
    });
    output::table(["AT", "BY", "ACTION", "ON", "GENERATION", "REASON"], rows)
}
