//! `purge`: jobs that have ended are removed.

use leasehold::AsBackend;
use leasehold::inspect::{Filter, State};
use leasehold::manage;

use super::chosen;
use crate::cli::Purge;
use crate::database::Session;
use crate::failure::Failure;
use crate::output::{self, Done};

pub(super) fn run<C: AsBackend>(session: &mut Session<'_, C>, purge: &Purge) -> Result<(), Failure> {
    let state = State::from(purge.state);
    let dry_run = purge.sure.dry_run;
    let filter = Filter::new().state(state).older_than(purge.older_than);
    let found = chosen::confirm_many(session, &filter, &[state], &purge.sure, "Remove for good")?;
    let count = match dry_run {
        true => found,
        false => manage::purge(session.conn, &session.schema, state, purge.older_than)?,
    };
    session.output.done(
        &Done {
            did: "removed",
            count,
            dry_run,
        },
        output::jobs(count),
    )
}
