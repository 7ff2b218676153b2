//! `discard`: jobs that have not ended, as if their last attempt had failed.

use leasehold::{AsBackend, manage};

use super::chosen::{self, OPEN, Target};
use crate::cli::Discard;
use crate::database::Session;
use crate::failure::Failure;
use crate::output::{self, Done};

pub(super) fn run<C: AsBackend>(session: &mut Session<'_, C>, discard: &Discard) -> Result<(), Failure> {
    let (by, reason) = (discard.by.name(), &discard.reason);
    let dry_run = discard.sure.dry_run;
    let (count, more) = match discard.chosen.target()? {
        Target::One(id) => {
            chosen::is_open(session, id)?;
            if !dry_run && !manage::discard(session.conn, &session.schema, id, &by, reason)? {
                // It ended between the two looks.
                chosen::is_open(session, id)?;
            }
            (1, false)
        }
        Target::Many(filter) => {
            let states = discard.chosen.states(&OPEN, OPEN.len())?;
            let found = chosen::confirm_many(session, &filter, states, &discard.sure, "Discard")?;
            match dry_run {
                true => (found.rows, found.more),
                false => (
                    manage::discard_all(session.conn, &session.schema, &filter, &by, reason)?,
                    false,
                ),
            }
        }
    };
    let done = Done {
        did: "discarded",
        count,
        more,
        dry_run,
    };
    session.output.done(&done, output::jobs(count))
}
