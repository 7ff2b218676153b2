//! Creating and updating the queue's tables.
//!
//! The applied versions are kept in a ledger of our own. In Diesel's table, which every library and the application
//! would share, a version that two of them use is applied for one of them only.

use diesel::connection::{AnsiTransactionManager, TransactionManager};
use diesel_migrations::MigrationHarness;

use crate::backend::{AsBackend, Backend};
use crate::commit::{depth, roll_back_to};
use crate::schema::Schema;

mod error;
pub use error::MigrateError;

mod ledger;
use ledger::Ledger;
pub(crate) use ledger::Migrate;
pub use ledger::MigrationSql;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) use ledger::Script;

#[cfg(feature = "postgres")]
mod roles;
#[cfg(feature = "postgres")]
pub use roles::{RoleNameError, RoleNames};

/// The level of this program. A schema states the least level that may run on it, and refuses the programs below.
///
/// A migration that an older program can live with leaves that minimum alone, so a fleet is updated program by program:
/// program N runs on schema N + 1.
pub const PROGRAM: i32 = 1;

/// Creates the queue's tables in the schema `leasehold`, or brings them up to date; returns the versions applied.
///
/// Call it at every start: when nothing is pending, it takes no lock and needs no rights but to read. Any number of
/// processes may call it at once. It never touches the application's own migrations, whatever their versions are. For
/// another schema name, or to revert, see [`Migrations`].
///
/// On SQLite it puts the file into WAL mode, as a worker's start would, unless the caller has a transaction open.
///
/// # Errors
///
/// As [`Migrations::up`].
///
/// ```
/// # #[cfg(feature = "sqlite")] {
/// use diesel::{Connection, SqliteConnection};
///
/// let mut conn = SqliteConnection::establish(":memory:")?;
/// assert_eq!(leasehold::migrate(&mut conn)?[0], "0001");
/// assert!(leasehold::migrate(&mut conn)?.is_empty());
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn migrate(conn: &mut impl AsBackend) -> Result<Vec<String>, MigrateError> {
    Migrations::new().up(conn)
}

/// The migrations of the queue's tables, for one schema name.
///
/// ```
/// # #[cfg(feature = "sqlite")] {
/// use diesel::{Connection, SqliteConnection};
/// use leasehold::Schema;
/// use leasehold::migrate::Migrations;
///
/// let mut conn = SqliteConnection::establish(":memory:")?;
/// let migrations = Migrations::in_schema(&Schema::named("billing_jobs")?);
/// let pending = migrations.status(&mut conn)?.pending;
/// assert_eq!(migrations.up(&mut conn)?, pending);
/// assert_eq!(migrations.down(&mut conn)?.as_ref(), pending.last());
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Migrations {
    schema: Schema,
}

/// Which migrations a database has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MigrationStatus {
    /// Applied versions, oldest first; a newer program's are among them.
    pub applied: Vec<String>,
    /// Versions of this program that are not applied, oldest first.
    pub pending: Vec<String>,
    /// The least [`PROGRAM`] that may run on the tables; `None` without tables.
    pub minimum_program: Option<i32>,
}

impl Migrations {
    /// The migrations for the schema `leasehold`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The migrations for another schema.
    #[must_use]
    pub fn in_schema(schema: &Schema) -> Self {
        Self { schema: schema.clone() }
    }

    /// Applies what is pending, all or nothing; returns the versions.
    ///
    /// When nothing is pending, nothing is locked and the rights to read the ledger suffice. Otherwise it is one
    /// transaction (a savepoint in the caller's, if one is open), which waits for other processes that do the same: on
    /// PostgreSQL by `pg_advisory_xact_lock(1281712499, hashtext('leasehold'))`, with the schema's name.
    ///
    /// # Errors
    ///
    /// [`MigrateError::ProgramTooOld`], [`MigrateError::Failed`] or [`MigrateError::Database`]; nothing is then applied.
    pub fn up(&self, conn: &mut impl AsBackend) -> Result<Vec<String>, MigrateError> {
        conn.as_backend().patiently(|conn| self.apply(conn))?
    }

    /// Reverts the last applied migration, and loses its data; returns its version, `None` when there is none.
    ///
    /// Reverting the first one leaves nothing behind: the ledger goes, and on PostgreSQL the schema unless it holds
    /// something else.
    ///
    /// # Errors
    ///
    /// [`MigrateError::Unknown`], [`MigrateError::Failed`] or [`MigrateError::Database`]; nothing is reverted then.
    pub fn down(&self, conn: &mut impl AsBackend) -> Result<Option<String>, MigrateError> {
        let reverted = self.revert(conn.as_backend(), |mut ledger| {
            ledger.drive(|ledger, source| Ok(vec![ledger.revert_last_migration(source)?]))
        })?;
        Ok(reverted.into_iter().next())
    }

    /// Reverts all migrations, and loses all jobs; returns the versions, newest first. See [`Migrations::down`].
    ///
    /// # Errors
    ///
    /// As [`Migrations::down`].
    pub fn down_all(&self, conn: &mut impl AsBackend) -> Result<Vec<String>, MigrateError> {
        self.revert(conn.as_backend(), |mut ledger| {
            ledger.drive(|ledger, source| ledger.revert_all_migrations(source))
        })
    }

    /// What is applied and what is pending. Locks nothing, writes nothing.
    ///
    /// # Errors
    ///
    /// [`MigrateError::Database`].
    pub fn status(&self, conn: &mut impl AsBackend) -> Result<MigrationStatus, MigrateError> {
        conn.as_backend().patiently(|conn| self.look(conn))?
    }

    /// Whether this program may work on the tables: they are there, nothing is pending, and the minimum that they state
    /// is not above [`PROGRAM`]. A worker asks this when it starts. Locks nothing, writes nothing.
    ///
    /// # Errors
    ///
    /// [`MigrateError::Missing`], [`MigrateError::Pending`], [`MigrateError::ProgramTooOld`], each with what to do, or
    /// [`MigrateError::Database`].
    pub fn check(&self, conn: &mut impl AsBackend) -> Result<(), MigrateError> {
        check_compatible(conn.as_backend(), &self.schema)
    }

    /// The migrations as SQL, oldest first. Run each in one transaction (`psql --single-transaction`); the program then
    /// finds nothing pending.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")] {
    /// let migrations = leasehold::migrate::Migrations::new().sql::<diesel::SqliteConnection>();
    /// let all: String = migrations.iter().map(|migration| migration.up.as_str()).collect();
    /// assert!(all.contains("CREATE TABLE leasehold_jobs"));
    /// # }
    /// ```
    #[must_use]
    pub fn sql<C: Backend>(&self) -> Vec<MigrationSql> {
        let mut all: Vec<MigrationSql> = C::MIGRATIONS
            .iter()
            .map(|script| script.sql::<C>(&self.schema))
            .collect();
        if let Some(first) = all.first_mut() {
            first.up.insert_str(0, &C::create_ledger(&self.schema));
            first.down.push_str(&C::drop_ledger(&self.schema));
        }
        all
    }

    /// SQL for PostgreSQL that makes three roles without rights that their programs do not use, and takes from `PUBLIC` what it
    /// has in the schema. It belongs after the migrations, in one transaction, and again after each later migration.
    ///
    /// - `leasehold_producer` enqueues, emits and accepts events, and sees jobs and their results. It cannot claim, complete or
    ///   delete a job.
    /// - `leasehold_worker` does everything that workers, relays, schedules and [`manage`](crate::manage) do, enqueuing among it.
    ///   It cannot change the tables themselves.
    /// - `leasehold_reader` reads, but no payload and no result unless [`RoleNames::reader_sees_payloads`] says so.
    ///
    /// None of them logs in: grant them to logins.
    ///
    /// ```
    /// use leasehold::migrate::{Migrations, RoleNames};
    ///
    /// let sql = Migrations::new().roles_sql(&RoleNames::new());
    /// assert!(sql.contains("CREATE ROLE"));
    /// ```
    #[cfg(feature = "postgres")]
    #[must_use]
    pub fn roles_sql(&self, roles: &RoleNames) -> String {
        roles.sql(&self.schema)
    }

    fn apply<C: Backend>(&self, conn: &mut C) -> Result<Vec<String>, MigrateError> {
        if self.usable(conn)?.pending.is_empty() {
            return Ok(Vec::new());
        }
        self.alone(conn, |conn| {
            // Another process may have come first while we waited.
            self.usable(conn)?;
            if !conn.has_ledger(&self.schema)? {
                conn.batch_execute(&C::create_ledger(&self.schema))?;
            }
            Ledger::new(conn, &self.schema).drive(|ledger, source| ledger.run_pending_migrations(source))
        })
    }

    fn look<C: Backend>(&self, conn: &mut C) -> Result<MigrationStatus, MigrateError> {
        let mut status = MigrationStatus::default();
        if conn.has_ledger(&self.schema)? {
            status.applied = conn.applied(&self.schema)?;
            if !status.applied.is_empty() {
                status.minimum_program = Some(conn.minimum_program(&self.schema)?);
            }
        }
        let known = C::MIGRATIONS.iter().map(|script| script.version().to_owned());
        status.pending = known.filter(|version| !status.applied.contains(version)).collect();
        Ok(status)
    }

    /// What is there, if this program may work on it.
    fn usable<C: Backend>(&self, conn: &mut C) -> Result<MigrationStatus, MigrateError> {
        let status = self.look(conn)?;
        match status.minimum_program {
            Some(minimum) if minimum > PROGRAM => Err(MigrateError::ProgramTooOld {
                schema: self.schema.name().to_owned(),
                minimum,
            }),
            _ => Ok(status),
        }
    }

    fn revert<C: Backend>(
        &self,
        conn: &mut C,
        work: impl FnOnce(Ledger<'_, C>) -> Result<Vec<String>, MigrateError>,
    ) -> Result<Vec<String>, MigrateError> {
        conn.patiently(|conn| {
            self.alone(conn, |conn| {
                if self.look(conn)?.applied.is_empty() {
                    return Ok(Vec::new());
                }
                let reverted = work(Ledger::new(conn, &self.schema))?;
                if conn.applied(&self.schema)?.is_empty() {
                    conn.batch_execute(&C::drop_ledger(&self.schema))?;
                }
                Ok(reverted)
            })
        })?
    }

    /// Runs `work` in a transaction that no other process's migration shares.
    fn alone<C: Backend, T>(
        &self,
        conn: &mut C,
        work: impl FnOnce(&mut C) -> Result<T, MigrateError>,
    ) -> Result<T, MigrateError> {
        let outer = depth(conn)?;
        let worked = match conn.begin_migrating(&self.schema) {
            Ok(()) => work(conn),
            Err(error) => Err(error.into()),
        };
        let ended = worked.and_then(|value| {
            AnsiTransactionManager::commit_transaction(conn)?;
            Ok(value)
        });
        if ended.is_err() {
            roll_back_to(conn, outer);
        }
        ended
    }
}

/// [`Migrations::check`], on a connection of our own.
pub(crate) fn check_compatible<C: Backend>(conn: &mut C, schema: &Schema) -> Result<(), MigrateError> {
    let status = conn.patiently(|conn| Migrations::in_schema(schema).usable(conn))??;
    let schema = schema.name().to_owned();
    match (status.applied.is_empty(), status.pending.is_empty()) {
        (true, _) => Err(MigrateError::Missing { schema }),
        (false, false) => Err(MigrateError::Pending {
            schema,
            versions: status.pending,
        }),
        (false, true) => Ok(()),
    }
}
