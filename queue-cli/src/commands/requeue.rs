//! `requeue`: discarded and cancelled jobs run again.

use leasehold::AsBackend;
use leasehold::inspect::State;
use leasehold::manage::{self, Requeued};

use super::chosen::{self, Target};
use crate::cli::Requeue;
use crate::database::Session;
use crate::failure::Failure;
use crate::output::{self, Done};

/// Cancelled ones only if they are asked for: somebody wanted them not to run.
const FROM: [State; 2] = [State::Discarded, State::Cancelled];

pub(super) fn run<C: AsBackend>(session: &mut Session<'_, C>, requeue: &Requeue) -> Result<(), Failure> {
    let (by, dry_run) = (requeue.by.name(), requeue.sure.dry_run);
    let (count, more) = match requeue.chosen.target()? {
        Target::One(id) => {
            match dry_run {
                true => may_be_requeued(session, id)?,
                false => manage::requeue(session.conn, &session.schema, id, &by)?,
            }
            (1, false)
        }
        Target::Many(filter) => {
            let states = requeue.chosen.states(&FROM, 1)?;
            let found = chosen::confirm_many(session, &filter, states, &requeue.sure, "Put back to ready")?;
            match dry_run {
                true => (found.rows, found.more),
                false => (
                    all(manage::requeue_all(session.conn, &session.schema, &filter, &by)?)?,
                    false,
                ),
            }
        }
    };
    let done = Done {
        did: "requeued",
        count,
        more,
        dry_run,
    };
    session.output.done(&done, output::jobs(count))
}

fn may_be_requeued<C: AsBackend>(session: &mut Session<'_, C>, id: i64) -> Result<(), Failure> {
    let state = chosen::state_of(session, id)?;
    match FROM.contains(&state) {
        true => Ok(()),
        false => Err(Failure::wrong_state(
            id,
            state,
            "only discarded and cancelled jobs are requeued",
        )),
    }
}

fn all(requeued: Requeued) -> Result<u64, Failure> {
    if requeued.key_taken > 0 {
        let left = requeued.key_taken;
        let text = format!(
            "{left} {} left as they are: another job has their unique key",
            output::jobs(left)
        );
        if requeued.requeued == 0 {
            return Err(Failure::Refused(text));
        }
        output::complain(&format!("leasehold: {text}"));
    }
    Ok(requeued.requeued)
}
