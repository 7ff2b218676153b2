//! Raw SQL texts with typed binds that Diesel keeps as prepared statements.
//!
//! `diesel::sql_query` marks itself as unsafe to cache, so its text is parsed and planned at every call. A [`Sql`] is
//! cached under its text. Texts write `$1`, `$2`, … (each as often as it likes); Diesel emits the backend's own
//! placeholders.

use std::marker::PhantomData;

use diesel::backend::Backend;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::result::{Error, QueryResult};
use diesel::serialize::ToSql;
use diesel::sql_types::{BigInt, HasSqlType, Untyped};
use diesel::{QueryableByName, RunQueryDsl};

/// A text with its binds, a tuple of [`Bind`]s.
#[derive(Debug)]
pub(crate) struct Sql<B>(pub(crate) &'static str, pub(crate) B);

/// A value with its SQL type.
#[derive(Debug)]
pub(crate) struct Bind<ST, V>(V, PhantomData<ST>);

/// Binds a value as the SQL type `ST`.
pub(crate) fn bind<ST, V>(value: V) -> Bind<ST, V> {
    Bind(value, PhantomData)
}

/// A row with nothing but an id.
#[derive(Debug, QueryableByName)]
pub(crate) struct Id {
    #[diesel(sql_type = BigInt)]
    pub(crate) id: i64,
}

pub(crate) trait Binds<DB: Backend> {
    fn push<'b>(&'b self, index: usize, out: &mut AstPass<'_, 'b, DB>) -> QueryResult<()>;
}

impl<DB: Backend> Binds<DB> for () {
    fn push<'b>(&'b self, index: usize, _: &mut AstPass<'_, 'b, DB>) -> QueryResult<()> {
        Err(no_bind(index))
    }
}

/// Implements [`Binds`] for the tuple of all that is given, and for each that begins it.
macro_rules! tuples_of_binds {
    ($($index:tt $ST:ident $V:ident),+) => { tuples_of_binds!(@ [] $($index $ST $V),+); };
    (@ [$($index:tt $ST:ident $V:ident),*]) => {};
    (@ [$($index:tt $ST:ident $V:ident),*] $i:tt $S:ident $W:ident $(, $more:tt $MS:ident $MV:ident)*) => {
        impl<DB: Backend $(+ HasSqlType<$ST>)* + HasSqlType<$S>, $($ST, $V: ToSql<$ST, DB>,)* $S, $W: ToSql<$S, DB>> Binds<DB>
            for ($(Bind<$ST, $V>,)* Bind<$S, $W>,)
        {
            fn push<'b>(&'b self, index: usize, out: &mut AstPass<'_, 'b, DB>) -> QueryResult<()> {
                match index {
                    $($index => out.push_bind_param::<$ST, $V>(&self.$index.0),)*
                    $i => out.push_bind_param::<$S, $W>(&self.$i.0),
                    _ => Err(no_bind(index)),
                }
            }
        }
        tuples_of_binds!(@ [$($index $ST $V,)* $i $S $W] $($more $MS $MV),*);
    };
}
tuples_of_binds! {
    0 S0 V0, 1 S1 V1, 2 S2 V2, 3 S3 V3, 4 S4 V4, 5 S5 V5, 6 S6 V6, 7 S7 V7, 8 S8 V8, 9 S9 V9, 10 S10 V10, 11 S11 V11,
    12 S12 V12, 13 S13 V13, 14 S14 V14, 15 S15 V15, 16 S16 V16, 17 S17 V17, 18 S18 V18
}

fn no_bind(index: usize) -> Error {
    Error::QueryBuilderError(format!("the statement names ${}, which is not bound", index + 1).into())
}

// No static id and no `unsafe_to_cache_prepared`: Diesel caches the statement under its text.
impl<B> QueryId for Sql<B> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<B> Query for Sql<B> {
    type SqlType = Untyped;
}

impl<B, C> RunQueryDsl<C> for Sql<B> {}

impl<DB: Backend, B: Binds<DB>> QueryFragment<DB> for Sql<B> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        let mut parts = self.0.split('$');
        out.push_sql(parts.next().unwrap_or_default());
        for part in parts {
            let digits = part.bytes().take_while(u8::is_ascii_digit).count();
            let number: usize = part[..digits].parse().map_err(|_| no_bind(usize::MAX - 1))?;
            self.1.push(number.wrapping_sub(1), &mut out)?;
            out.push_sql(&part[digits..]);
        }
        Ok(())
    }
}

/// A statement around a part that a program has written with Diesel: the text before it, the part, the text after it.
#[derive(Debug)]
pub(crate) struct Around<Q, B>(pub(crate) &'static str, pub(crate) Q, pub(crate) Sql<B>);

impl<Q, B> QueryId for Around<Q, B> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<Q, B> Query for Around<Q, B> {
    type SqlType = Untyped;
}

impl<Q, B, C> RunQueryDsl<C> for Around<Q, B> {}

impl<DB: Backend, Q: QueryFragment<DB>, B: Binds<DB>> QueryFragment<DB> for Around<Q, B> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        out.push_sql(self.0);
        self.1.walk_ast(out.reborrow())?;
        self.2.walk_ast(out)
    }
}
