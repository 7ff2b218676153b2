//! Rows whose worker is gone are taken back.

use diesel::QueryableByName;
use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Bool, Integer, Text};

use crate::schema::Schema;

/// A row that the sweep took back.
#[derive(Debug, Clone, PartialEq, Eq, QueryableByName)]
pub struct Swept {
    #[diesel(sql_type = BigInt)]
    pub id: i64,
    #[diesel(sql_type = Text)]
    pub queue: String,
    #[diesel(sql_type = Text)]
    pub kind: String,
    #[diesel(sql_type = Integer)]
    pub attempt: i32,
    /// The new generation.
    #[diesel(sql_type = BigInt)]
    pub generation: i64,
    /// Whether a handler had begun: then an attempt has failed.
    #[diesel(sql_type = Bool)]
    pub begun: bool,
    /// The new state: `ready`, `discarded` or `cancelled`.
    #[diesel(sql_type = Text)]
    pub state: String,
}

pub trait SweepStatements {
    /// Takes back expired leases, `limit` at the most, without waiting for locked rows.
    fn sweep(&mut self, schema: &Schema, limit: i64) -> QueryResult<Vec<Swept>>;

    /// Expired leases, `limit` at the most, oldest job first: for a sweep one by one, when one row fails all.
    fn expired(&mut self, schema: &Schema, limit: i64) -> QueryResult<Vec<i64>>;

    /// Takes back one expired lease, unless it is locked or has been renewed meanwhile.
    fn sweep_one(&mut self, schema: &Schema, id: i64) -> QueryResult<Option<Swept>>;

    /// Removes expired keys, `limit` at the most.
    fn sweep_keys(&mut self, schema: &Schema, limit: i64) -> QueryResult<usize>;
}
