//! Why migrating failed.

use diesel::result::Error;

use super::PROGRAM;

/// Why the tables could not be created, updated or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrateError {
    /// A newer program has changed the tables so that this one would do harm.
    #[error(
        "the tables of `{schema}` need a program of level {minimum}, this one has level {PROGRAM}: update the program"
    )]
    ProgramTooOld {
        /// The schema's name.
        schema: String,
        /// The least level, see [`PROGRAM`].
        minimum: i32,
    },
    /// The tables are not there.
    #[error("the tables of `{schema}` are not there: run `leasehold::migrate`, or `leasehold migrate up`")]
    Missing {
        /// The schema's name.
        schema: String,
    },
    /// Migrations of this program are not applied.
    #[error("the tables of `{schema}` lack {versions:?}: run `leasehold::migrate`, or `leasehold migrate up`")]
    Pending {
        /// The schema's name.
        schema: String,
        /// The versions, oldest first.
        versions: Vec<String>,
    },
    /// A newer program applied a migration; only that program knows how to revert it.
    #[error(
        "this program does not know the migration {version} of `{schema}`: revert it with the program that applied it"
    )]
    Unknown {
        /// The schema's name.
        schema: String,
        /// The migration's version.
        version: String,
    },
    /// The database refused a migration. Nothing of it was written, nor of those before it in the same call.
    #[error("the migration {name} failed: {source}")]
    Failed {
        /// The migration's name.
        name: String,
        /// The database's error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The database's error.
    #[error(transparent)]
    Database(#[from] Error),
}
