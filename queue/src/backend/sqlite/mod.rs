//! The statements on SQLite.
//!
//! One writer at a time has the whole database, so nothing here locks rows. What takes their place: every write of ours
//! runs in a transaction that has the write lock from its first statement on ([`write()`]), and times are read after that
//! lock was taken. The fence is named in every write all the same: an older file may have been put back, and the two
//! backends shall read alike.
//!
//! A bound limit is written `LIMIT $n + 0`: of a bare parameter SQLite reads the value when it plans a statement, and so
//! prepares the statement anew at every use.

#[macro_use]
mod schedule;
mod actions;
mod admit;
mod batches;
mod catalogue;
mod check;
mod claim;
mod commit;
mod connect;
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
#[cfg(test)]
mod tests;
mod waits;
mod workers;

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use diesel::SqliteConnection;
use diesel::connection::{AnsiTransactionManager, Connection, TransactionManager};
use diesel::result::QueryResult;

use super::{AsBackend, Backend, Served};
use crate::commit::{depth, roll_back_to};
use crate::lease::Fence;

impl Backend for SqliteConnection {
    const NAME: &'static str = "sqlite";
}

impl AsBackend for SqliteConnection {
    type Connection = Self;

    fn as_backend(&mut self) -> &mut Self {
        self
    }
}

/// Runs writes in a transaction of their own, or inside an open one in a savepoint. They are told the time in
/// milliseconds since 1970, read when the write lock was held: a statement may have waited for it for seconds.
fn write<T>(
    conn: &mut SqliteConnection,
    work: impl FnOnce(&mut SqliteConnection, i64) -> QueryResult<T>,
) -> QueryResult<T> {
    if depth(conn)? > 0 {
        return conn.transaction(|conn| work(conn, now_ms()));
    }
    begin_immediate(conn)?;
    match work(conn, now_ms()) {
        Ok(value) => {
            AnsiTransactionManager::commit_transaction(conn)?;
            Ok(value)
        }
        Err(error) => {
            // SQLite may have rolled back by itself (a full disk); the first error is the one to tell.
            roll_back_to(conn, 0);
            Err(error)
        }
    }
}

/// A deferred transaction that upgrades fails at once when another one wrote in between; this one waits for its turn.
fn begin_immediate(conn: &mut SqliteConnection) -> QueryResult<()> {
    AnsiTransactionManager::begin_transaction_sql(conn, "BEGIN IMMEDIATE")
}

/// The database's clock is this machine's.
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// `[[id, generation, "token"], …]`.
fn fences_json(fences: &[Fence]) -> String {
    let mut json = String::with_capacity(2 + 64 * fences.len());
    for Fence {
        id,
        generation,
        lease_token,
    } in fences
    {
        json.push(if json.is_empty() { '[' } else { ',' });
        // Writing to a String cannot fail.
        let _ = write!(json, r#"[{id},{generation},"{lease_token}"]"#);
    }
    json.push_str(if json.is_empty() { "[]" } else { "]" });
    json
}

/// `{"id": "generation.token", …}`. SQLite takes this apart in half the time that arrays in an array cost it.
fn fences_by_id(fences: &[Fence]) -> String {
    let mut json = String::with_capacity(2 + 64 * fences.len());
    for Fence {
        id,
        generation,
        lease_token,
    } in fences
    {
        json.push(if json.is_empty() { '{' } else { ',' });
        // Writing to a String cannot fail.
        let _ = write!(json, r#""{id}":"{generation}.{lease_token}""#);
    }
    json.push_str(if json.is_empty() { "{}" } else { "}" });
    json
}

/// `[["queue", "kind", version], …]`.
fn served_json(serves: &[Served]) -> QueryResult<String> {
    json(
        &serves
            .iter()
            .map(|served| (&served.queue, &served.kind, served.version))
            .collect::<Vec<_>>(),
    )
}

fn json<T: serde::Serialize + ?Sized>(value: &T) -> QueryResult<String> {
    serde_json::to_string(value).map_err(|error| diesel::result::Error::SerializationError(error.into()))
}
