//! The ownership of jobs for rows of a table that the application has already.
//!
//! A program with a table of its own, whose rows are worked off by several processes, gives it three columns and says in
//! [`OwnedRow`] what they are called. Then a row is claimed, kept and ended as a job is: the claim records a status, a
//! generation that grows, a random lease token and the end of the lease; each later write names them, and changes nothing
//! once the row was taken by somebody else. There is no sweep: a running row whose lease has ended can be claimed again.
//!
//! A lease lasts at least one millisecond and at the most a century of 365-day years. A duration outside of that range is
//! taken for the end of it that is nearer.
//!
//! ```
//! # include!("doctest_setup.rs");
//! use std::time::Duration;
//! use leasehold::rows::{self, OwnedRow};
//!
//! diesel::table! {
//!     issue (id) {
//!         id -> BigInt,
//!         title -> Text,
//!         processing_status -> Text,
//!         generation -> BigInt,
//!         lease_token -> Nullable<Text>,
//!         lease_until -> Nullable<BigInt>,
//!     }
//! }
//! diesel::table! { article (id) { id -> BigInt, issue -> BigInt, text -> Text } }
//!
//! struct Issue;
//!
//! impl OwnedRow for Issue {
//!     type Table = issue::table;
//!     type Id = issue::id;
//!     type Status = issue::processing_status;
//!     type Generation = issue::generation;
//!     type LeaseToken = issue::lease_token;
//!     type LeaseUntil = issue::lease_until;
//!     const READY: &'static [&'static str] = &["PENDING", "FAILED"];
//!     const RUNNING: &'static str = "IN_PROGRESS";
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (_, mut conn) = doctest_database();
//! # diesel::connection::SimpleConnection::batch_execute(&mut conn,
//! #     "CREATE TABLE issue (id INTEGER PRIMARY KEY, title TEXT NOT NULL, processing_status TEXT NOT NULL,
//! #         generation INTEGER NOT NULL DEFAULT 0, lease_token TEXT, lease_until INTEGER);
//! #      CREATE TABLE article (id INTEGER PRIMARY KEY, issue INTEGER NOT NULL, text TEXT NOT NULL);
//! #      INSERT INTO issue (id, title, processing_status) VALUES (1, 'a', 'PENDING'), (2, 'b', 'DONE')")?;
//! for (id, answer) in rows::claim::<Issue, _>(&mut conn, &[1, 2, 3], Duration::from_secs(60))? {
//!     let Some(lease) = answer.claimed() else { continue };
//!     let text = format!("all about issue {id}"); // Slow work, without a connection.
//!     lease.commit(&mut conn, "DONE", |tx| {
//!         diesel::insert_into(article::table)
//!             .values((article::issue.eq(id), article::text.eq(text)))
//!             .execute(tx)?;
//!         Ok(())
//!     })?;
//! }
//! # assert_eq!(article::table.count().get_result::<i64>(&mut conn)?, 1);
//! # Ok(())
//! # }
//! ```

use std::time::Duration;

use diesel::query_source::{Column, Table};
use diesel::result::Error;
use diesel::sql_types::{BigInt, Text};

use crate::backend::Backend;
use crate::commit::depth;
use crate::settle::millis;
use crate::transaction::atomically;

pub(crate) mod table;
pub use table::{IdOf, LeaseEndOn, RowId, RowOn, TokenOn};
pub(crate) use table::{RowTable, TypeOf};

mod claim;
pub use claim::{Answer, Answers, MOST, adopt, claim, claim_from};

mod refusal;
pub use refusal::RowRefusal;

mod lease;
pub use lease::{Heartbeat, RowLease, heartbeat};

mod commit;
pub use crate::commit::NotCommitted;
pub use commit::CommitError;

mod doubt;
pub use doubt::{InDoubt, Resolution};

mod keeper;
pub use keeper::Keeper;

pub(crate) mod versioned;
pub(crate) use versioned::VersionTable;
pub use versioned::{VersionError, VersionNumber, VersionOn, VersionedRow, update_if_unchanged};

/// A table whose rows are owned: which of its columns say so, and which statuses may be claimed.
///
/// It has a status of type `Text` and three columns for the lease: a generation (`BigInt`, zero at first), a lease token
/// (`Nullable<Text>`, or on PostgreSQL `Nullable<Uuid>`) and the end of the lease (`Nullable<Timestamptz>` on PostgreSQL,
/// on SQLite `Nullable<BigInt>`: milliseconds since 1970). Types that do not fit do not compile. Implement it for the
/// model, or for any type that stands for the table: it is eight lines, so there is no derive.
///
/// Nobody but this module may write these columns of a running row; a generation must never be set back.
pub trait OwnedRow: 'static {
    /// The table.
    type Table: Table + Default;
    /// Its unique id.
    type Id: Column<Table = Self::Table, SqlType: RowId>;
    /// Whether a row waits, runs or has ended.
    type Status: Column<Table = Self::Table, SqlType = Text>;
    /// Grows by one with each claim, and is changed by nothing else.
    type Generation: Column<Table = Self::Table, SqlType = BigInt>;
    /// Random, fresh for each claim.
    type LeaseToken: Column<Table = Self::Table>;
    /// Until when the row is its owner's.
    type LeaseUntil: Column<Table = Self::Table>;
    /// The statuses of rows that may be claimed.
    const READY: &'static [&'static str];
    /// The status of a claimed row; not one of [`OwnedRow::READY`].
    const RUNNING: &'static str;
}

/// Why the database was not asked, or what it answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RowError {
    /// A claim, a heartbeat and a commit are transactions of their own: a rollback would undo them after work had
    /// started.
    #[error(
        "the connection is inside a transaction, and what is done with a lease must be committed by itself: commit or roll back first"
    )]
    InTransaction,
    /// The status of a running row ends no lease.
    #[error("a lease does not end with the status `{0}`, which is that of running rows")]
    Status(String),
    /// More than [`MOST`] distinct ids were asked for.
    #[error("{asked} rows were asked for at once, more than {MOST}: ask for them in several calls")]
    TooMany {
        /// How many.
        asked: usize,
    },
    /// The database's own error.
    #[error(transparent)]
    Database(#[from] Error),
}

/// Within the range that the module's documentation states: no database's clock overflows.
fn milliseconds(duration: Duration) -> i64 {
    millis(duration).max(1)
}

/// In a transaction of its own, which also shows one that Diesel does not know of (a raw `BEGIN`): there the server refuses
/// to begin.
fn by_itself<C: Backend, T>(conn: &mut C, work: impl FnOnce(&mut C) -> Result<T, RowError>) -> Result<T, RowError> {
    if depth(conn)? > 0 {
        return Err(RowError::InTransaction);
    }
    conn.patiently(|conn| atomically(conn, work))?
}
