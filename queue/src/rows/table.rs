//! What a row type's table and columns are called, and statement texts for them.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::str::FromStr;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use diesel::debug_query;
use diesel::expression::Expression;
use diesel::query_builder::QueryFragment;
use diesel::query_source::{Column, QuerySource};
use diesel::sql_types::{BigInt, Integer, Nullable, Text};

use super::OwnedRow;
use crate::backend::Backend;

/// The SQL type of a column.
pub(crate) type TypeOf<Col> = <Col as Expression>::SqlType;

/// The id of a row: `i64` for a `BigInt` column, `i32` for `Integer`, `String` for `Text`, and on PostgreSQL `Uuid`.
pub type IdOf<R> = <TypeOf<<R as OwnedRow>::Id> as RowId>::Value;

/// SQL types that an id may have: `BigInt`, `Integer`, `Text`, and on PostgreSQL `Uuid`.
#[diagnostic::on_unimplemented(
    message = "an id of the SQL type `{Self}` cannot be claimed by",
    note = "`BigInt`, `Integer`, `Text` and, on PostgreSQL, `Uuid` are known"
)]
pub trait RowId: sealed::Sealed {
    /// Its Rust type.
    type Value: Clone + Eq + Hash + Ord + fmt::Debug + fmt::Display + FromStr + Send + Sync + 'static;

    /// Its name in the database, for a cast.
    #[doc(hidden)]
    const NAME: TypeName;
}

/// A type's name on either backend.
#[derive(Debug, Clone, Copy)]
pub struct TypeName {
    pub(crate) postgres: &'static str,
    pub(crate) sqlite: &'static str,
}

impl TypeName {
    pub(super) fn on<C: Backend>(self) -> String {
        let name = if C::NAME == "postgres" {
            self.postgres
        } else {
            self.sqlite
        };
        name.to_owned()
    }
}

const TEXT: TypeName = TypeName {
    postgres: "pg_catalog.text",
    sqlite: "TEXT",
};

impl RowId for BigInt {
    type Value = i64;
    const NAME: TypeName = TypeName {
        postgres: "pg_catalog.int8",
        sqlite: "INTEGER",
    };
}

impl RowId for Integer {
    type Value = i32;
    const NAME: TypeName = TypeName {
        postgres: "pg_catalog.int4",
        sqlite: "INTEGER",
    };
}

impl RowId for Text {
    type Value = String;
    const NAME: TypeName = TEXT;
}

#[cfg(feature = "postgres")]
impl RowId for diesel::sql_types::Uuid {
    type Value = uuid::Uuid;
    const NAME: TypeName = UUID;
}

#[cfg(feature = "postgres")]
const UUID: TypeName = TypeName {
    postgres: "pg_catalog.uuid",
    sqlite: "TEXT",
};

/// SQL types that a lease token may have on `C`: `Nullable<Text>`, and on PostgreSQL `Nullable<Uuid>`.
#[diagnostic::on_unimplemented(
    message = "a lease token cannot be kept as `{Self}`",
    note = "`Nullable<Text>` and, on PostgreSQL, `Nullable<Uuid>` are known"
)]
pub trait TokenOn<C>: sealed::Sealed {
    #[doc(hidden)]
    const NAME: TypeName;
}

impl<C: Backend> TokenOn<C> for Nullable<Text> {
    const NAME: TypeName = TEXT;
}

#[cfg(feature = "postgres")]
impl TokenOn<diesel::PgConnection> for Nullable<diesel::sql_types::Uuid> {
    const NAME: TypeName = UUID;
}

/// SQL types that the end of a lease may have on `C`: `Nullable<Timestamptz>` on PostgreSQL, `Nullable<BigInt>`
/// (milliseconds since 1970) on SQLite.
#[diagnostic::on_unimplemented(
    message = "the end of a lease cannot be kept as `{Self}`",
    note = "`Nullable<Timestamptz>` on PostgreSQL and `Nullable<BigInt>` on SQLite are known"
)]
pub trait LeaseEndOn<C>: sealed::Sealed {}

#[cfg(feature = "postgres")]
impl LeaseEndOn<diesel::PgConnection> for Nullable<diesel::sql_types::Timestamptz> {}

#[cfg(feature = "sqlite")]
impl LeaseEndOn<diesel::SqliteConnection> for Nullable<BigInt> {}

pub(super) use sealed::Sealed;

mod sealed {
    use diesel::sql_types::{BigInt, Integer, Nullable, Text};

    pub trait Sealed {}
    impl Sealed for BigInt {}
    impl Sealed for Integer {}
    impl Sealed for Text {}
    impl Sealed for Nullable<Text> {}
    impl Sealed for Nullable<BigInt> {}
    #[cfg(feature = "postgres")]
    impl Sealed for diesel::sql_types::Uuid {}
    #[cfg(feature = "postgres")]
    impl Sealed for Nullable<diesel::sql_types::Uuid> {}
    #[cfg(feature = "postgres")]
    impl Sealed for Nullable<diesel::sql_types::Timestamptz> {}
}

/// Row types whose columns have types that fit the connection `C`. Implemented for every [`OwnedRow`] of which that is
/// so.
pub trait RowOn<C: Backend>: OwnedRow {
    #[doc(hidden)]
    fn table() -> Arc<RowTable>;
}

impl<R, C> RowOn<C> for R
where
    C: Backend,
    R: OwnedRow,
    <R::Table as QuerySource>::FromClause: QueryFragment<C::Backend>,
    TypeOf<R::LeaseToken>: TokenOn<C>,
    TypeOf<R::LeaseUntil>: LeaseEndOn<C>,
{
    fn table() -> Arc<RowTable> {
        const { assert!(!contains(R::READY, R::RUNNING), "the status RUNNING is among READY") };
        Arc::new(RowTable {
            names: Names(vec![
                ("table", table_name::<C, R::Table>()),
                ("id", quoted::<R::Id>()),
                ("status", quoted::<R::Status>()),
                ("generation", quoted::<R::Generation>()),
                ("lease_token", quoted::<R::LeaseToken>()),
                ("lease_until", quoted::<R::LeaseUntil>()),
                ("id_type", <TypeOf<R::Id> as RowId>::NAME.on::<C>()),
                ("token_type", <TypeOf<R::LeaseToken> as TokenOn<C>>::NAME.on::<C>()),
            ]),
            ready: R::READY,
            running: R::RUNNING,
        })
    }
}

/// As Diesel writes it: quoted, with its schema if it has one.
pub(crate) fn table_name<C: Backend, T: QuerySource + Default>() -> String
where
    T::FromClause: QueryFragment<C::Backend>,
{
    let clause = T::default().from_clause();
    let text = debug_query::<C::Backend, _>(&clause).to_string();
    text.split(" -- binds").next().unwrap_or_default().to_owned()
}

/// A column's name in double quotes, which both backends take, without its table.
pub(crate) fn quoted<Col: Column>() -> String {
    format!("\"{}\"", Col::NAME.replace('"', "\"\""))
}

const fn contains(all: &[&str], one: &str) -> bool {
    let mut index = 0;
    while index < all.len() {
        if equal(all[index].as_bytes(), one.as_bytes()) {
            return true;
        }
        index += 1;
    }
    false
}

const fn equal(a: &[u8], b: &[u8]) -> bool {
    let mut index = 0;
    while index < a.len() && index < b.len() && a[index] == b[index] {
        index += 1;
    }
    index == a.len() && index == b.len()
}

/// A row type's table on one backend.
#[derive(Debug, PartialEq, Eq)]
pub struct RowTable {
    pub(crate) names: Names,
    pub(crate) ready: &'static [&'static str],
    pub(crate) running: &'static str,
}

/// What stands for `{…}` in the texts of statements. All of it comes from the program's source.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Names(pub(super) Vec<(&'static str, String)>);

/// Rendered texts by the place of the constant and the names, so that each is rendered once.
static TEXTS: LazyLock<Mutex<HashMap<(usize, Names), &'static str>>> = LazyLock::new(Mutex::default);

impl RowTable {
    /// The table's name for people, without quotes.
    pub(crate) fn plain_name(&self) -> String {
        self.names.get("table").replace(['"', '`'], "")
    }

    pub(crate) fn render(&self, text: &'static str) -> &'static str {
        self.names.render(text)
    }
}

impl Names {
    fn get<'a>(&'a self, name: &'a str) -> &'a str {
        let known = self.0.iter().find(|(known, _)| *known == name);
        known.map_or(name, |(_, name)| name)
    }

    /// The text of a statement for these names.
    pub(super) fn render(&self, text: &'static str) -> &'static str {
        let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
        // Leaked on purpose: a fixed number of texts per row type, and Diesel wants them as long as its cache.
        texts
            .entry((text.as_ptr() as usize, self.clone()))
            .or_insert_with(|| Box::leak(self.put_into(text).into_boxed_str()))
    }

    fn put_into(&self, text: &str) -> String {
        let mut parts = text.split(['{', '}']);
        let mut rendered = parts.next().unwrap_or_default().to_owned();
        while let (Some(name), Some(text)) = (parts.next(), parts.next()) {
            rendered += self.get(name);
            rendered += text;
        }
        rendered
    }
}
