//! `migrate`: the tables.

use leasehold::AsBackend;
use leasehold::migrate::Migrations;
use serde::Serialize;

use crate::cli::Migrate;
use crate::database::Session;
use crate::failure::Failure;
use crate::output;

#[derive(Serialize)]
struct Status {
    applied: Vec<String>,
    pending: Vec<String>,
    minimum_program: Option<i32>,
}

#[derive(Serialize)]
struct Changed {
    applied: Vec<String>,
    reverted: Vec<String>,
    dry_run: bool,
}

#[derive(Serialize)]
struct Script {
    name: String,
    up: String,
    down: String,
}

pub(super) fn run<C: AsBackend>(session: &mut Session<'_, C>, what: &Migrate) -> Result<(), Failure> {
    let migrations = Migrations::in_schema(&session.schema);
    match what {
        Migrate::Up => {
            let applied = migrations.up(session.conn)?;
            let changed = Changed {
                applied,
                reverted: Vec::new(),
                dry_run: false,
            };
            session
                .output
                .say(&changed, |changed| match changed.applied.as_slice() {
                    [] => "nothing is pending".to_owned(),
                    names => format!("applied {}", names.join(", ")),
                })
        }
        Migrate::Down { sure } => {
            let applied = migrations.status(session.conn)?.applied;
            let Some(last) = applied.last() else {
                return Err(Failure::Nothing("no migration is applied".to_owned()));
            };
            if !sure.dry_run {
                output::confirm(sure, &format!("Revert {last}, and lose what is in its tables?"))?;
            }
            let reverted = match sure.dry_run {
                true => Some(last.clone()),
                false => migrations.down(session.conn)?,
            };
            let changed = Changed {
                applied: Vec::new(),
                reverted: reverted.into_iter().collect(),
                dry_run: sure.dry_run,
            };
            let would = if sure.dry_run { "would revert" } else { "reverted" };
            session
                .output
                .say(&changed, |changed| format!("{would} {}", changed.reverted.join(", ")))
        }
        Migrate::Status => {
            let status = migrations.status(session.conn)?;
            let status = Status {
                applied: status.applied,
                pending: status.pending,
                minimum_program: status.minimum_program,
            };
            session.output.say(&status, |status| {
                let rows = status.applied.iter().map(|name| [name.clone(), "applied".to_owned()]);
                let pending = status.pending.iter().map(|name| [name.clone(), "pending".to_owned()]);
                output::table(["MIGRATION", "STATE"], rows.chain(pending))
            })
        }
        Migrate::Sql => {
            let scripts: Vec<Script> = migrations
                .sql::<C::Connection>()
                .into_iter()
                .map(|sql| Script {
                    name: sql.name,
                    up: sql.up,
                    down: sql.down,
                })
                .collect();
            session.output.say(&scripts, |scripts| {
                let up = scripts
                    .iter()
                    .map(|script| format!("-- {}\n{}\n", script.name, script.up));
                up.collect::<Vec<_>>().join("\n")
            })
        }
    }
}
