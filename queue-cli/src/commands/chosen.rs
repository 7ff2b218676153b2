//! The jobs that a command is to change.

use leasehold::AsBackend;
use leasehold::inspect::{self, Filter, State};

use crate::cli::{Chosen, Sure};
use crate::database::Session;
use crate::failure::Failure;
use crate::output;

/// Jobs looked at in one go, and the most that a dry run counts.
const PAGE: u32 = 1_000;
const MOST: u64 = 100_000;

/// The states of jobs that have not ended.
pub(super) const OPEN: [State; 2] = [State::Ready, State::Running];

pub(super) enum Target {
    One(i64),
    Many(Filter),
}

impl Chosen {
    /// What was chosen. Nothing at all is not everything.
    pub(super) fn target(&self) -> Result<Target, Failure> {
        match (self.id, self.which.is_all(), self.all) {
            (Some(id), ..) => Ok(Target::One(id)),
            (None, true, false) => Err(Failure::Usage(
                "which jobs? Give an id, options such as --kind, or --all".to_owned(),
            )),
            (None, ..) => Ok(Target::Many(self.which.filter())),
        }
    }

    /// The states among `states` that were asked for; by default the first `usual` of them.
    pub(super) fn states<'s>(&self, states: &'s [State], usual: usize) -> Result<&'s [State], Failure> {
        let Some(chosen) = self.which.state() else {
            return Ok(&states[..usual]);
        };
        match states.iter().position(|state| *state == chosen) {
            Some(at) => Ok(&states[at..=at]),
            None => {
                let names: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
                Err(Failure::Refused(format!(
                    "only {} jobs can be meant: give one of these states, or none",
                    names.join(" and ")
                )))
            }
        }
    }
}

/// How many jobs in one of `states` match, as far as they are counted.
pub(super) fn count<C: AsBackend>(
    session: &mut Session<'_, C>,
    filter: &Filter,
    states: &[State],
) -> Result<u64, Failure> {
    let mut count = 0;
    for state in states {
        let filter = filter.clone().state(*state);
        let mut after = 0;
        while count < MOST {
            let page = inspect::list(session.conn, &session.schema, &filter, after, PAGE)?;
            count += page.len() as u64;
            match page.last() {
                Some(last) if page.len() == PAGE as usize => after = last.id,
                _ => break,
            }
        }
    }
    Ok(count)
}

/// Asks before many jobs are changed; how many there are.
pub(super) fn confirm_many<C: AsBackend>(
    session: &mut Session<'_, C>,
    filter: &Filter,
    states: &[State],
    sure: &Sure,
    verb: &str,
) -> Result<u64, Failure> {
    let count = count(session, filter, states)?;
    if count == 0 {
        return Err(Failure::Nothing("no job matches".to_owned()));
    }
    if !sure.dry_run {
        let about = if count >= MOST { "at least " } else { "" };
        output::confirm(sure, &format!("{verb} {about}{count} {}?", output::jobs(count)))?;
    }
    Ok(count)
}

/// The state of a job that is there.
pub(super) fn state_of<C: AsBackend>(session: &mut Session<'_, C>, id: i64) -> Result<State, Failure> {
    let job = inspect::job(session.conn, &session.schema, id)?;
    job.map(|job| job.state).ok_or_else(|| Failure::no_job(id))
}

/// Refuses a job that has ended.
pub(super) fn is_open<C: AsBackend>(session: &mut Session<'_, C>, id: i64) -> Result<(), Failure> {
    let state = state_of(session, id)?;
    match OPEN.contains(&state) {
        true => Ok(()),
        false => Err(Failure::wrong_state(
            id,
            state,
            "only jobs that have not ended are ended by hand",
        )),
    }
}
