//! The database that `--database` names.

#[cfg(any(feature = "postgres", feature = "sqlite"))]
use diesel::Connection;
use leasehold::{AsBackend, Schema};

use crate::failure::Failure;
use crate::output::Output;

/// What a command works with.
pub(crate) struct Session<'c, C> {
    pub(crate) conn: &'c mut C,
    /// Where `conn` is connected to, for commands that open further connections.
    pub(crate) url: &'c str,
    pub(crate) schema: Schema,
    pub(crate) output: Output,
}

/// A command on either backend.
pub(crate) trait Run {
    fn run<C: AsBackend>(&self, session: &mut Session<'_, C>) -> Result<(), Failure>;
}

/// Whether a file that is not there may be made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum File {
    Exists,
    MayBeMade,
}

/// Opens `address` and runs `command` there.
pub(crate) fn run(
    address: Option<&str>,
    schema: &str,
    file: File,
    output: Output,
    command: &impl Run,
) -> Result<(), Failure> {
    let schema = Schema::named(schema)?;
    let address = address
        .ok_or_else(|| Failure::Usage("which database? Give --database, or set LEASEHOLD_DATABASE_URL".to_owned()))?;
    match address.starts_with("postgres://") || address.starts_with("postgresql://") {
        true => on_postgres(address, schema, output, command),
        false => on_sqlite(
            address.strip_prefix("sqlite:").unwrap_or(address),
            schema,
            file,
            output,
            command,
        ),
    }
}

#[cfg(feature = "postgres")]
fn on_postgres(url: &str, schema: Schema, output: Output, command: &impl Run) -> Result<(), Failure> {
    let conn = &mut diesel::PgConnection::establish(url)?;
    command.run(&mut Session {
        conn,
        url,
        schema,
        output,
    })
}

#[cfg(not(feature = "postgres"))]
fn on_postgres(_: &str, _: Schema, _: Output, _: &impl Run) -> Result<(), Failure> {
    Err(built_without("PostgreSQL", "postgres"))
}

#[cfg(feature = "sqlite")]
fn on_sqlite(path: &str, schema: Schema, file: File, output: Output, command: &impl Run) -> Result<(), Failure> {
    // SQLite would make an empty one, and a mistyped name look like an empty queue.
    if file == File::Exists && !std::path::Path::new(path).is_file() {
        return Err(Failure::Usage(format!(
            "there is no file `{path}`: `migrate up` makes one"
        )));
    }
    let conn = &mut diesel::SqliteConnection::establish(path)?;
    command.run(&mut Session {
        conn,
        url: path,
        schema,
        output,
    })
}

#[cfg(not(feature = "sqlite"))]
fn on_sqlite(_: &str, _: Schema, _: File, _: Output, _: &impl Run) -> Result<(), Failure> {
    Err(built_without("SQLite", "sqlite"))
}

#[cfg(not(all(feature = "postgres", feature = "sqlite")))]
fn built_without(backend: &str, feature: &str) -> Failure {
    Failure::Usage(format!(
        "this program was built without {backend}: install it with `--features {feature}`"
    ))
}
