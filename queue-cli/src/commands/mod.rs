//! The commands, each in a file.

use clap::CommandFactory;
use leasehold::AsBackend;
use leasehold::migrate::{MigrateError, Migrations};
use leasehold::schedule::ScheduleError;

use crate::cli::{Cli, Command, Migrate, OnDatabase};
use crate::database::{self, File, Run, Session};
use crate::failure::Failure;
use crate::output::Output;

mod actions;
mod batch;
mod batches;
mod cancel;
mod chosen;
mod discard;
mod doctor;
mod edit;
mod enqueue;
mod figures;
mod list;
mod migrate;
mod pause;
mod purge;
mod requeue;
#[cfg(feature = "postgres")]
mod roles;
mod schedules;
#[cfg(feature = "serve")]
mod serve;
mod show;
mod stats;

pub(crate) fn run(cli: &Cli) -> Result<(), Failure> {
    let output = Output { json: cli.json };
    match &cli.command {
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "leasehold", &mut text);
            output.print(&String::from_utf8_lossy(&text))
        }
        Command::Man => {
            let mut text = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut text)?;
            output.print(&String::from_utf8_lossy(&text))
        }
        #[cfg(feature = "postgres")]
        Command::Roles(roles) => roles::print(roles, &cli.schema, output),
        Command::OnDatabase(command) => {
            let file = match command {
                OnDatabase::Migrate(Migrate::Up) => File::MayBeMade,
                _ => File::Exists,
            };
            database::run(cli.database.as_deref(), &cli.schema, file, output, command)
        }
    }
}

impl Run for OnDatabase {
    fn run<C: AsBackend>(&self, session: &mut Session<'_, C>) -> Result<(), Failure> {
        self.run_here(session).map_err(|failure| explained(session, failure))
    }
}

/// In place of an error that names a table: that the tables are not there, or not as this program needs them, and what to do.
fn explained<C: AsBackend>(session: &mut Session<'_, C>, failure: Failure) -> Failure {
    let (Failure::Database(_) | Failure::Schedule(ScheduleError::Database(_))) = failure else {
        return failure;
    };
    match Migrations::in_schema(&session.schema).check(session.conn) {
        Ok(()) | Err(MigrateError::Database(_)) => failure,
        Err(tables) => Failure::Migrate(tables),
    }
}

impl OnDatabase {
    fn run_here<C: AsBackend>(&self, session: &mut Session<'_, C>) -> Result<(), Failure> {
        match self {
            Self::Migrate(what) => migrate::run(session, what),
            Self::Stats(what) => stats::run(session, what),
            Self::List(list) => list::run(session, list),
            Self::Show(show) => show::run(session, show),
            Self::Requeue(requeue) => requeue::run(session, requeue),
            Self::Enqueue(enqueue) => enqueue::run(session, enqueue),
            Self::Discard(discard) => discard::run(session, discard),
            Self::Cancel(cancel) => cancel::run(session, cancel),
            Self::Edit(edit) => edit::run(session, edit),
            Self::Pause(pause) => pause::pause(session, pause),
            Self::Resume(resume) => pause::resume(session, resume),
            Self::Pauses => pause::list(session),
            Self::Schedules(what) => schedules::run(session, what),
            Self::Actions(actions) => actions::run(session, actions),
            Self::Batches(batches) => batches::run(session, batches),
            Self::Batch { id, exact } => batch::run(session, *id, *exact),
            Self::Purge(purge) => purge::run(session, purge),
            Self::Doctor => doctor::run(session),
            #[cfg(feature = "serve")]
            Self::Serve(serve) => serve::run(session, serve),
            Self::Top(top) => crate::top::run(session, top),
        }
    }
}
