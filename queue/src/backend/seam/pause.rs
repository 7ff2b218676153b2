//! What no worker claims from, until it is resumed.

use diesel::QueryableByName;
use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Text};

use crate::schema::Schema;

/// A pause as it is stored.
#[derive(Debug, Clone, QueryableByName)]
pub struct PauseRow {
    /// `all`, `queue` or `kind`.
    #[diesel(sql_type = Text)]
    pub scope: String,
    /// Empty for all.
    #[diesel(sql_type = Text)]
    pub name: String,
    /// Milliseconds since 1970.
    #[diesel(sql_type = BigInt)]
    pub at_ms: i64,
    #[diesel(sql_type = Text)]
    pub by: String,
    #[diesel(sql_type = Text)]
    pub reason: String,
}

pub trait PauseStatements {
    /// Writes a pause; one that is there already gets the new time, name and reason.
    fn pause(&mut self, schema: &Schema, scope: &str, name: &str, by: &str, reason: &str) -> QueryResult<usize>;

    /// Removes a pause, and wakes listeners if there was one; how many there were.
    fn resume(&mut self, schema: &Schema, scope: &str, name: &str) -> QueryResult<usize>;

    /// All pauses, by scope and name.
    fn pauses(&mut self, schema: &Schema) -> QueryResult<Vec<PauseRow>>;
}
