//! Enqueues jobs and works them: `cargo run -- greet you`, `cargo run -- work`.

use std::error::Error;
use std::time::Duration;

use clap::{Parser, Subcommand};
use diesel::prelude::*;
use diesel_migrations::{EmbeddedMigrations, MigrationHarness, embed_migrations};
use leasehold::{Job, Worker};

mod jobs;

/// For PostgreSQL: `PgConnection` here, and `postgres` instead of `sqlite` in `Cargo.toml`.
pub(crate) type Conn = SqliteConnection;

/// The application's own tables. Those of the queue are leasehold's.
const MIGRATIONS: EmbeddedMigrations = embed_migrations!();

/// How long a stop waits for the handlers that run.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    /// The database: a file, or a URL for PostgreSQL.
    #[arg(long, env = "DATABASE_URL", default_value = "app.db")]
    database: String,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Enqueues a greeting.
    Greet { name: String },
    /// Works until it is stopped.
    Work {
        /// How many handlers run at the same time.
        #[arg(long, default_value_t = 4)]
        threads: usize,
    },
}

fn main() -> Result<(), Box<dyn Error>> {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).init();
    let arguments = Arguments::parse();
    let mut conn = connect(&arguments.database)?;
    match arguments.command {
        Command::Greet { name } => {
            let enqueued = jobs::Greet { name }.enqueue(&mut conn)?;
            log::info!("enqueued job={}", enqueued.id());
        }
        Command::Work { threads } => {
            let worker = Worker::<Conn, _>::new(arguments.database, ())
                .threads(threads)
                .register::<jobs::Greet>();
            worker.start()?.run_until_signalled(PATIENCE)?;
        }
    }
    Ok(())
}

/// A connection to a database that has all tables.
fn connect(database: &str) -> Result<Conn, Box<dyn Error>> {
    let mut conn = Conn::establish(database)?;
    // SQLite only: wait for the worker's writes instead of failing beside them.
    diesel::sql_query("PRAGMA busy_timeout = 10000").execute(&mut conn)?;
    leasehold::migrate(&mut conn)?;
    conn.run_pending_migrations(MIGRATIONS)
        .map_err(|error| error as Box<dyn Error>)?;
    Ok(conn)
}
