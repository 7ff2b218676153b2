//! Ownership of rows in tables of the application.

use diesel::QueryableByName;
use diesel::connection::Connection;
use diesel::query_builder::QueryFragment;
use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Bool, Nullable, Text};
use uuid::Uuid;

use super::Completion;
use crate::rows::{RowTable, VersionTable};

/// What a claim records.
#[derive(Debug, Clone, Copy)]
pub struct RowClaim {
    /// Fresh from the operating system's random source for this call.
    pub lease_token: Uuid,
    pub lease_ms: i64,
}

/// A row that was asked for, as the claim found it.
#[derive(Debug, Clone, PartialEq, Eq, QueryableByName)]
pub struct RowFound {
    #[diesel(sql_type = Text)]
    pub id: String,
    /// The generation of the new lease; `None`: not claimed.
    #[diesel(sql_type = Nullable<BigInt>)]
    pub claimed: Option<i64>,
    /// Before the claim; `None`: there is no such row.
    #[diesel(sql_type = Nullable<Text>)]
    pub status: Option<String>,
    /// Whether it could be claimed, as far as a reader sees.
    #[diesel(sql_type = Bool)]
    pub claimable: bool,
}

/// A row that is the caller's now.
#[derive(Debug, Clone, PartialEq, Eq, QueryableByName)]
pub struct RowClaimed {
    #[diesel(sql_type = Text)]
    pub id: String,
    #[diesel(sql_type = BigInt)]
    pub generation: i64,
}

/// What a claim gave, and what each later write of the row must present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowFence {
    pub id: String,
    pub generation: i64,
    pub lease_token: Uuid,
}

/// The answer of a heartbeat for one row that is still ours.
#[derive(Debug, Clone, PartialEq, Eq, QueryableByName)]
pub struct RowBeat {
    #[diesel(sql_type = Text)]
    pub id: String,
    /// False: the row was locked; nothing is known.
    #[diesel(sql_type = Bool)]
    pub renewed: bool,
}

/// What a row says of its ownership.
#[derive(Debug, Clone, PartialEq, Eq, QueryableByName)]
pub struct RowOwnership {
    #[diesel(sql_type = Text)]
    pub status: String,
    #[diesel(sql_type = BigInt)]
    pub generation: i64,
    /// The token of the last lease, hyphenated.
    #[diesel(sql_type = Nullable<Text>)]
    pub lease_token: Option<String>,
}

/// The version of a row that is changed optimistically.
#[derive(Debug, Clone, Copy, PartialEq, Eq, QueryableByName)]
pub struct RowVersion {
    #[diesel(sql_type = BigInt)]
    pub version: i64,
}

pub trait RowStatements: Connection {
    /// Claims those of the rows that can be, and says of each what it found; part of a transaction. Never waits for a
    /// row.
    fn claim_rows(&mut self, table: &RowTable, claim: &RowClaim, ids: &[String]) -> QueryResult<Vec<RowFound>>;

    /// Claims the first `limit` rows whose ids the query selects and that can be claimed, as [`Self::claim_rows`].
    fn claim_rows_from<Q>(
        &mut self,
        table: &RowTable,
        claim: &RowClaim,
        query: Q,
        limit: i64,
    ) -> QueryResult<Vec<RowClaimed>>
    where
        Q: QueryFragment<<Self as Connection>::Backend>;

    /// Renews leases for the milliseconds beside each, 500 at the most, without waiting for a locked row.
    fn heartbeat_rows(&mut self, table: &RowTable, fences: &[(RowFence, i64)]) -> QueryResult<Vec<RowBeat>>;

    /// Ends a lease: writes the status, last in the transaction begun by
    /// [`begin_commit`](crate::backend::Connect::begin_commit).
    fn end_row(&mut self, table: &RowTable, fence: &RowFence, status: &str) -> QueryResult<Completion>;

    /// The row under its lock, waiting for whoever has it; part of a transaction.
    fn lock_row(&mut self, table: &RowTable, id: &str) -> QueryResult<Option<RowOwnership>>;

    /// The row without a lock: the diagnosis after zero rows.
    fn read_row(&mut self, table: &RowTable, id: &str) -> QueryResult<Option<RowOwnership>>;

    /// Gives running rows without the end of a lease one, so many milliseconds from now; returns how many. Rows that are
    /// locked are left.
    fn adopt_rows(&mut self, table: &RowTable, grace_ms: i64) -> QueryResult<usize>;

    /// Writes `changes` and the next version into a row of the version that was seen; how many rows that were.
    fn update_version<Q>(&mut self, table: &VersionTable, id: &str, seen: i64, changes: Q) -> QueryResult<usize>
    where
        Q: QueryFragment<<Self as Connection>::Backend>;

    /// The row's version now.
    fn read_version(&mut self, table: &VersionTable, id: &str) -> QueryResult<Option<i64>>;
}
