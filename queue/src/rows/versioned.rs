//! Optimistic updates: a change that takes effect only if nobody has changed the row since it was read.

use diesel::Connection;
use diesel::query_builder::{AsChangeset, QueryFragment};
use diesel::query_source::{Column, QuerySource, Table};
use diesel::result::Error;
use diesel::sql_types::{BigInt, Integer};

use super::table::{Names, quoted, table_name};
use super::{RowId, TypeOf};
use crate::backend::{AsBackend, Backend, RowStatements};
use crate::migrate::Migrate;

/// A table whose rows have a version that grows by one with each change.
///
/// All that changes such a row must raise its version, or [`update_if_unchanged`] does not see it.
pub trait VersionedRow: 'static {
    /// The table.
    type Table: Table + Default;
    /// Its unique id.
    type Id: Column<Table = Self::Table, SqlType: RowId>;
    /// Its version, `BigInt` or `Integer`.
    type Version: Column<Table = Self::Table, SqlType: VersionNumber>;
}

/// SQL types that a version may have: `BigInt` and `Integer`.
#[diagnostic::on_unimplemented(
    message = "a version cannot be kept as `{Self}`",
    note = "`BigInt` and `Integer` are known"
)]
pub trait VersionNumber: super::table::Sealed {}

impl VersionNumber for BigInt {}
impl VersionNumber for Integer {}

/// A versioned row type that fits the connection `C`. Implemented for every [`VersionedRow`] of which that is so.
pub trait VersionOn<C: Backend>: VersionedRow {
    #[doc(hidden)]
    fn table() -> VersionTable;
}

impl<R, C> VersionOn<C> for R
where
    C: Backend,
    R: VersionedRow,
    <R::Table as QuerySource>::FromClause: QueryFragment<C::Backend>,
{
    fn table() -> VersionTable {
        VersionTable(Names(vec![
            ("table", table_name::<C, R::Table>()),
            ("id", quoted::<R::Id>()),
            ("id_type", <TypeOf<R::Id> as RowId>::NAME.on::<C>()),
            ("version", quoted::<R::Version>()),
        ]))
    }
}

/// A versioned row type's table on one backend.
#[derive(Debug)]
pub struct VersionTable(Names);

impl VersionTable {
    pub(crate) fn render(&self, text: &'static str) -> &'static str {
        self.0.render(text)
    }
}

/// Why an optimistic update changed nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VersionError {
    /// Somebody has changed the row since: read it again, and decide again.
    #[error("the row was changed since it was read: it is at version {current}, and version {seen} was seen")]
    Conflict {
        /// The version that was presented.
        seen: i64,
        /// The row's version now.
        current: i64,
    },
    /// There is no such row.
    #[error("the row does not exist any more")]
    Missing,
    /// The database's own error.
    #[error(transparent)]
    Database(#[from] Error),
}

/// Applies a changeset to a row if its version is still the one that was seen, and raises the version by one; the new
/// version. Takes part in a transaction that is open.
///
/// Nothing is locked between the read and this, so a person may take as long as they like. Of two writers at once the second
/// waits for the first one's transaction and gets the conflict then.
///
/// ```
/// # include!("../doctest_setup.rs");
/// use leasehold::rows::{self, VersionError, VersionedRow};
///
/// diesel::table! { page (id) { id -> BigInt, text -> Text, version -> BigInt } }
///
/// struct Page;
///
/// impl VersionedRow for Page {
///     type Table = page::table;
///     type Id = page::id;
///     type Version = page::version;
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (_, mut conn) = doctest_database();
/// # diesel::connection::SimpleConnection::batch_execute(&mut conn,
/// #     "CREATE TABLE page (id INTEGER PRIMARY KEY, text TEXT NOT NULL, version INTEGER NOT NULL);
/// #      INSERT INTO page VALUES (1, 'first', 4)")?;
/// let (text, seen) = page::table.find(1).select((page::text, page::version)).first::<(String, i64)>(&mut conn)?;
/// let edited = text + " and second";
/// assert_eq!(rows::update_if_unchanged::<Page, _, _>(&mut conn, &1, seen, page::text.eq(edited))?, 5);
///
/// // Who has read the same version comes too late.
/// let late = rows::update_if_unchanged::<Page, _, _>(&mut conn, &1, seen, page::text.eq("third"));
/// assert!(matches!(late, Err(VersionError::Conflict { seen: 4, current: 5 })));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`VersionError::Conflict`] and [`VersionError::Missing`], when nothing was changed; else the database's. In a transaction
/// of an isolation level above `READ COMMITTED` PostgreSQL reports a conflict as a serialization failure by itself.
pub fn update_if_unchanged<R, C, Ch>(
    conn: &mut C,
    id: &<TypeOf<R::Id> as RowId>::Value,
    seen: i64,
    changes: Ch,
) -> Result<i64, VersionError>
where
    C: AsBackend,
    R: VersionOn<C::Connection>,
    Ch: AsChangeset<Target = R::Table>,
    Ch::Changeset: QueryFragment<<C::Connection as Connection>::Backend>,
{
    let (table, id, changes) = (R::table(), id.to_string(), changes.as_changeset());
    conn.as_backend().patiently(|conn| {
        if conn.update_version(&table, &id, seen, changes)? > 0 {
            return Ok(seen + 1);
        }
        match conn.read_version(&table, &id)? {
            Some(current) => Err(VersionError::Conflict { seen, current }),
            None => Err(VersionError::Missing),
        }
    })?
}
