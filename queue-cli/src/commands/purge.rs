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
    let (count, more) = match dry_run {
        true => (found.rows, found.more),
        false => (
            manage::purge(session.conn, &session.schema, state, purge.older_than)?,
            false,
        ),
    };
    session.output.done(
        &Done {
            did: "removed",
            count,
            more,
            dry_run,
        },
        output::jobs(count),
    )
}
