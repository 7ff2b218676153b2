//! Consumers remember which events they have accepted.

use diesel::result::QueryResult;
use uuid::Uuid;

use crate::schema::Schema;

pub trait InboxStatements {
    /// Records that a consumer has accepted an event, waiting for whoever is about to commit the same; 0 when it had
    /// before.
    fn accept(&mut self, schema: &Schema, consumer: &str, event_id: Uuid) -> QueryResult<usize>;

    /// Forgets events that were accepted at least so many milliseconds ago, `limit` at the most.
    fn purge_inbox(&mut self, schema: &Schema, older_than_ms: i64, limit: i64) -> QueryResult<usize>;
}
