//! Diesel's migration harness over our own ledger and our own texts.

use std::fmt;

use diesel::connection::BoxableConnection;
use diesel::migration::{Migration, MigrationMetadata, MigrationName, MigrationSource, MigrationVersion, Result};
use diesel::result::{Error, QueryResult};
use diesel_migrations::{MigrationError, MigrationHarness};

use super::MigrateError;
use crate::backend::Backend;
use crate::schema::Schema;

/// What migrating asks of a database.
pub trait Migrate: Sized {
    /// All migrations, oldest first.
    const MIGRATIONS: &'static [Script];

    /// The ledger's table, for the default schema name.
    const LEDGER: &'static str;

    /// The text that makes the ledger, and the schema where a backend has such a thing.
    fn create_ledger(schema: &Schema) -> String;

    /// The text that undoes [`Migrate::create_ledger`]; a schema that holds anything else stays.
    fn drop_ledger(schema: &Schema) -> String;

    /// Runs `work` on a connection that waits for other connections' locks, where it would give up at once otherwise.
    fn patiently<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> QueryResult<T>;

    /// Whether the ledger is there, as others have committed it.
    fn has_ledger(&mut self, schema: &Schema) -> QueryResult<bool>;

    /// The versions in the ledger, oldest first.
    fn applied(&mut self, schema: &Schema) -> QueryResult<Vec<String>>;

    /// The least program that may run on the tables.
    fn minimum_program(&mut self, schema: &Schema) -> QueryResult<i32>;

    /// Begins a transaction (a savepoint, if one is open) and waits until no other one migrates this schema.
    fn begin_migrating(&mut self, schema: &Schema) -> QueryResult<()>;
}

/// A migration's texts, for the default schema name.
#[derive(Debug)]
pub struct Script {
    /// The version, an underscore and a word: the folder's name.
    pub name: &'static str,
    pub up: &'static str,
    pub down: &'static str,
}

impl Script {
    pub(crate) fn version(&self) -> &'static str {
        self.name.split('_').next().unwrap_or_default()
    }

    pub(super) fn sql<C: Migrate>(&self, schema: &Schema) -> MigrationSql {
        let (ledger, version) = (C::LEDGER, self.version());
        let up = format!(
            "-- {}\n{}\nINSERT INTO {ledger} (version) VALUES ('{version}');\n",
            self.name,
            self.up.trim_end()
        );
        let down = format!(
            "-- {}\n{}\nDELETE FROM {ledger} WHERE version = '{version}';\n",
            self.name,
            self.down.trim_end()
        );
        MigrationSql {
            version: version.to_owned(),
            name: self.name.to_owned(),
            up: schema.render_once(&up).into_owned(),
            down: schema.render_once(&down).into_owned(),
        }
    }
}

/// One migration as SQL, for people who run migrations themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MigrationSql {
    /// Its version, for instance `0001`.
    pub version: String,
    /// Its name, for instance `0001_jobs`.
    pub name: String,
    /// Applies it and records it in the ledger; that of the first one makes the ledger, too.
    pub up: String,
    /// Reverts it; that of the first one removes the ledger, too.
    pub down: String,
}

impl fmt::Display for MigrationSql {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl MigrationName for MigrationSql {
    fn version(&self) -> MigrationVersion<'_> {
        self.version.as_str().into()
    }
}

// In a transaction, which is the default.
impl MigrationMetadata for MigrationSql {}

impl<DB: diesel::backend::Backend> Migration<DB> for MigrationSql {
    fn run(&self, conn: &mut dyn BoxableConnection<DB>) -> Result<()> {
        Ok(conn.batch_execute(&self.up)?)
    }

    fn revert(&self, conn: &mut dyn BoxableConnection<DB>) -> Result<()> {
        Ok(conn.batch_execute(&self.down)?)
    }

    fn metadata(&self) -> &dyn MigrationMetadata {
        self
    }

    fn name(&self) -> &dyn MigrationName {
        self
    }
}

/// The migrations of one schema, as Diesel's harness wants them.
pub(super) struct Source(Vec<MigrationSql>);

impl<DB: diesel::backend::Backend> MigrationSource<DB> for Source {
    fn migrations(&self) -> Result<Vec<Box<dyn Migration<DB>>>> {
        Ok(self
            .0
            .iter()
            .map(|sql| Box::new(sql.clone()) as Box<dyn Migration<DB>>)
            .collect())
    }
}

/// Applied or reverted versions.
pub(super) type Versions<'a> = Vec<MigrationVersion<'a>>;

/// The harness: a connection within the transaction of a migration, and the schema.
pub(super) struct Ledger<'a, C> {
    conn: &'a mut C,
    schema: &'a Schema,
}

impl<'a, C: Backend> Ledger<'a, C> {
    pub(super) fn new(conn: &'a mut C, schema: &'a Schema) -> Self {
        Self { conn, schema }
    }

    /// Lets Diesel's harness work, and gives its errors our types.
    pub(super) fn drive(
        &mut self,
        work: impl for<'w> FnOnce(&'w mut Self, Source) -> Result<Versions<'w>>,
    ) -> std::result::Result<Vec<String>, MigrateError> {
        let schema = self.schema;
        let source = Source(C::MIGRATIONS.iter().map(|script| script.sql::<C>(schema)).collect());
        match work(self, source) {
            Ok(versions) => Ok(versions.iter().map(ToString::to_string).collect()),
            Err(error) => Err(typed(error, schema)),
        }
    }
}

fn typed(error: Box<dyn std::error::Error + Send + Sync>, schema: &Schema) -> MigrateError {
    let error = match error.downcast::<MigrateError>() {
        Ok(ours) => return *ours,
        Err(error) => error,
    };
    match error.downcast::<MigrationError>().map(|error| *error) {
        Ok(MigrationError::UnknownMigrationVersion(version)) => MigrateError::Unknown {
            schema: schema.name().to_owned(),
            version: version.to_string(),
        },
        Ok(other) => Error::QueryBuilderError(Box::new(other)).into(),
        Err(error) => match error.downcast::<Error>() {
            Ok(database) => (*database).into(),
            Err(other) => Error::QueryBuilderError(other).into(),
        },
    }
}

impl<C: Backend> MigrationHarness<C::Backend> for Ledger<'_, C> {
    fn run_migration(&mut self, migration: &dyn Migration<C::Backend>) -> Result<MigrationVersion<'static>> {
        let (name, schema) = (migration.name(), self.schema.name());
        migration.run(self.conn).map_err(|source| MigrateError::Failed {
            name: name.to_string(),
            source,
        })?;
        log::info!("applied migration {name} schema={schema}");
        Ok(name.version().as_owned())
    }

    fn revert_migration(&mut self, migration: &dyn Migration<C::Backend>) -> Result<MigrationVersion<'static>> {
        let (name, schema) = (migration.name(), self.schema.name());
        migration.revert(self.conn).map_err(|source| MigrateError::Failed {
            name: name.to_string(),
            source,
        })?;
        log::info!("reverted migration {name} schema={schema}");
        Ok(name.version().as_owned())
    }

    fn applied_migrations(&mut self) -> Result<Versions<'static>> {
        let applied = self.conn.applied(self.schema)?;
        Ok(applied.into_iter().rev().map(MigrationVersion::from).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_complete(scripts: &[Script], backend: &str) {
        let folder = format!("{}/migrations/{backend}", env!("CARGO_MANIFEST_DIR"));
        let mut folders: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        folders.sort();
        assert_eq!(scripts.iter().map(|script| script.name).collect::<Vec<_>>(), folders);
        // Of two with one version Diesel runs one and says nothing of the other.
        let versions: Vec<&str> = scripts.iter().map(Script::version).collect();
        let counted: Vec<String> = (1..=scripts.len()).map(|number| format!("{number:04}")).collect();
        assert_eq!(versions, counted);
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn every_folder_of_migrations_is_embedded_for_postgres() {
        assert_complete(diesel::PgConnection::MIGRATIONS, "postgres");
    }

    #[cfg(feature = "sqlite")]
    #[test]
    fn every_folder_of_migrations_is_embedded_for_sqlite() {
        assert_complete(diesel::SqliteConnection::MIGRATIONS, "sqlite");
    }
}
