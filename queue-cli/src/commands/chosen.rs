//! The jobs that a command is to change.

use leasehold::AsBackend;
use leasehold::inspect::{self, Count, Filter, State};

use crate::cli::{Chosen, Sure};
use crate::database::Session;
use crate::failure::Failure;
use crate::output;

/// Jobs of one look, and the most looks at one state: each is bounded, however many there are.
const PAGE: u32 = 1_000;
const LOOKS: usize = 10;

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
fn count<C: AsBackend>(session: &mut Session<'_, C>, filter: &Filter, states: &[State]) -> Result<Count, Failure> {
    let mut count = Count::default();
    for state in states {
        let filter = filter.clone().state(*state);
        let mut from = None;
        for _ in 0..LOOKS {
            let page = inspect::search(session.conn, &session.schema, &filter, from, PAGE)?;
            count.rows += page.jobs.len() as u64;
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        count.more |= from.is_some();
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
) -> Result<Count, Failure> {
    let count = count(session, filter, states)?;
    if count == Count::default() {
        return Err(Failure::Nothing("no job matches".to_owned()));
    }
    if !sure.dry_run {
        let about = if count.more { "at least " } else { "" };
        let rows = count.rows;
        output::confirm(sure, &format!("{verb} {about}{rows} {}?", output::jobs(rows)))?;
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
