use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Text, Uuid as SqlUuid};
use diesel::{PgConnection, RunQueryDsl};
use uuid::Uuid;

use crate::backend::InboxStatements;
use crate::schema::Schema;
use crate::sql::{Sql, bind};

// The unique index waits for a transaction that is about to record the same, and answers by how it ended.
const ACCEPT: &str = "
    INSERT INTO leasehold.inbox_events (consumer, event_id) VALUES ($1, $2) ON CONFLICT (consumer, event_id) DO NOTHING
";

// The outer part does not name the time: it would let the planner read the whole index on it.
const PURGE_INBOX: &str = "
    DELETE FROM leasehold.inbox_events AS i WHERE (i.consumer, i.event_id) IN (
        SELECT consumer, event_id FROM leasehold.inbox_events
        WHERE at <= (SELECT pg_catalog.clock_timestamp() - $1 * INTERVAL '1 millisecond')
        ORDER BY at LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED
    )
";

impl InboxStatements for PgConnection {
    fn accept(&mut self, schema: &Schema, consumer: &str, event_id: Uuid) -> QueryResult<usize> {
        let binds = (bind::<Text, _>(consumer), bind::<SqlUuid, _>(event_id));
        Sql(schema.render(ACCEPT), binds).execute(self)
    }

    fn purge_inbox(&mut self, schema: &Schema, older_than_ms: i64, limit: i64) -> QueryResult<usize> {
        let binds = (bind::<BigInt, _>(older_than_ms), bind::<BigInt, _>(limit));
        Sql(schema.render(PURGE_INBOX), binds).execute(self)
    }
}
