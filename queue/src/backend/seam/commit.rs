//! A worker completes a row with its own writes.

use diesel::QueryableByName;
use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Nullable, Text};

use crate::lease::Fence;
use crate::schema::Schema;

/// What a row says of its ownership, wherever it is now.
#[derive(Debug, Clone, PartialEq, Eq, QueryableByName)]
pub struct Ownership {
    /// `ready`, `running`, `completed`, `discarded` or `cancelled`.
    #[diesel(sql_type = Text)]
    pub state: String,
    #[diesel(sql_type = BigInt)]
    pub generation: i64,
    /// The token of the last lease, hyphenated.
    #[diesel(sql_type = Nullable<Text>)]
    pub lease_token: Option<String>,
}

impl Ownership {
    /// Whether the row's last lease had this fence's token.
    pub(crate) fn has_token_of(&self, fence: &Fence) -> bool {
        self.lease_token.as_deref().and_then(|token| token.parse().ok()) == Some(fence.lease_token)
    }
}

/// What the fenced completion found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completion {
    /// One row: it may be committed.
    Completed,
    /// No row under this fence.
    Refused,
    /// The transaction of the commit is not open any more: a raw `COMMIT` or `ROLLBACK` ended it. Nothing was written.
    Ended,
}

pub trait CommitStatements {
    /// The fenced completion, last in the transaction begun by
    /// [`begin_commit`](crate::backend::Connect::begin_commit). `strict`: the row is locked first and must not have
    /// outlived its lease by then.
    fn complete(&mut self, schema: &Schema, fence: &Fence, strict: bool) -> QueryResult<Completion>;

    /// The row in `jobs` under its lock, waiting for whoever has it; part of a transaction.
    fn lock_ownership(&mut self, schema: &Schema, id: i64) -> QueryResult<Option<Ownership>>;

    /// The row in `jobs`, else in `finished_jobs`, without a lock: the diagnosis after zero rows.
    fn ownership(&mut self, schema: &Schema, id: i64) -> QueryResult<Option<Ownership>>;
}
