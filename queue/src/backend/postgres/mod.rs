//! The statements for PostgreSQL 13 and newer.
//!
//! Three things hold for all of them. Functions and types are named with `pg_catalog.`, because a search path may list
//! another schema first; only the `unnest` of many arrays goes without, which the parser itself takes for
//! `pg_catalog.unnest`. Rows are reached by `= ANY (ARRAY(…))` or a `LATERAL` look-up for each value, because a plan made
//! while the tables were empty stays, and these leave the planner nothing to read but the index. Statements that may
//! wait for a row lock take their locks in id order, so that two of them cannot deadlock.

use diesel::PgConnection;
use diesel::sql_types::{Array, BigInt, Uuid as SqlUuid};
use uuid::Uuid;

use crate::backend::{AsBackend, Backend};
use crate::lease::Fence;
use crate::sql::{Bind, bind};

#[macro_use]
mod texts;
pub(crate) use texts::{IDLE, SILENT};
#[macro_use]
mod schedule;
mod actions;
mod admit;
mod batches;
mod catalogue;
mod check;
mod check_settings;
mod claim;
mod commit;
mod connect;
mod conninfo;
mod enqueue;
mod expiry;
mod figures;
mod fire;
mod held;
pub(crate) mod hot_path;
mod inbox;
#[macro_use]
mod inspect;
mod keys;
mod lease;
#[macro_use]
mod life;
#[macro_use]
mod manage;
mod migrate;
mod outbox;
mod pause;
mod relay;
mod results;
mod rows;
mod search;
mod selected;
mod settle;
mod steps;
mod sweep;
mod waits;
mod workers;

impl Backend for PgConnection {
    const NAME: &'static str = "postgres";
}

impl AsBackend for PgConnection {
    type Connection = Self;

    fn as_backend(&mut self) -> &mut Self {
        self
    }
}

type Fences = (
    Bind<Array<BigInt>, Vec<i64>>,
    Bind<Array<BigInt>, Vec<i64>>,
    Bind<Array<SqlUuid>, Vec<Uuid>>,
);

/// Many fences as `$1`, `$2`, `$3`: arrays keep the text the same for any number of them.
fn bind_fences(fences: &[Fence]) -> Fences {
    (
        bind(fences.iter().map(|fence| fence.id).collect()),
        bind(fences.iter().map(|fence| fence.generation).collect()),
        bind(fences.iter().map(|fence| fence.lease_token).collect()),
    )
}
