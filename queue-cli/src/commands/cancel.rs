//! `cancel`: jobs that have not ended.

use leasehold::AsBackend;
use leasehold::manage;

use super::chosen::{self, OPEN, Target};
use crate::cli::Cancel;
use crate::database::Session;
use crate::failure::Failure;
use crate::output::{self, Done};

pub(super) fn run<C: AsBackend>(session: &mut Session<'_, C>, cancel: &Cancel) -> Result<(), Failure> {
    let how = match cancel.hard {
        true => manage::Cancel::Hard,
        false => manage::Cancel::Soft,
    };
    let (by, reason) = (cancel.by.name(), &cancel.reason);
    let dry_run = cancel.sure.dry_run;
    let (count, more) = match cancel.chosen.target()? {
        Target::One(id) => {
            chosen::is_open(session, id)?;
            if !dry_run && !manage::cancel(session.conn, &session.schema, id, how, &by, reason)? {
                // It ended between the two looks.
                chosen::is_open(session, id)?;
            }
            (1, false)
        }
        Target::Many(filter) => {
            let states = cancel.chosen.states(&OPEN, OPEN.len())?;
            let found = chosen::confirm_many(session, &filter, states, &cancel.sure, "Cancel")?;
            match dry_run {
                true => (found.rows, found.more),
                false => (
                    manage::cancel_all(session.conn, &session.schema, &filter, how, &by, reason)?,
                    false,
                ),
            }
        }
    };
    let did = match cancel.hard {
        true => "cancelled",
        // A running one may still complete.
        false => "cancelled, or asked to stop",
    };
    session.output.done(
        &Done {
            did,
            count,
            more,
            dry_run,
        },
        output::jobs(count),
    )
}
