//! Jobs that have become too old to run are discarded.

use diesel::result::QueryResult;

use super::Swept;
use crate::schema::Schema;

pub trait ExpiryStatements {
    /// Discards ready jobs that have expired, whatever else keeps them, `limit` at the most, without waiting for locked
    /// rows: generation + 1.
    fn discard_expired(&mut self, schema: &Schema, limit: i64) -> QueryResult<Vec<Swept>>;

    /// Ready jobs that have expired, `limit` at the most: to discard them one by one, when one row fails all.
    fn expired_jobs(&mut self, schema: &Schema, limit: i64) -> QueryResult<Vec<i64>>;

    /// Discards one, unless it is locked or not ready any more.
    fn discard_expired_one(&mut self, schema: &Schema, id: i64) -> QueryResult<Option<Swept>>;
}
