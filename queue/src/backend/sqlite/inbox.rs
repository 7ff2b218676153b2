//! The inbox of consumers.

use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Text};
use diesel::{RunQueryDsl, SqliteConnection};
use uuid::Uuid;

use super::{now_ms, write};
use crate::backend::InboxStatements;
use crate::schema::Schema;
use crate::sql::{Sql, bind};

const ACCEPT: &str = "
    INSERT INTO leasehold_inbox_events (consumer, event_id, at) VALUES ($1, $2, $3) ON CONFLICT (consumer, event_id) DO NOTHING
";

const PURGE_INBOX: &str = "
    DELETE FROM leasehold_inbox_events WHERE (consumer, event_id) IN (
        SELECT consumer, event_id FROM leasehold_inbox_events WHERE at <= $1 ORDER BY at LIMIT $2 + 0
    )
";

impl InboxStatements for SqliteConnection {
    fn accept(&mut self, schema: &Schema, consumer: &str, event_id: Uuid) -> QueryResult<usize> {
        let binds = (
            bind::<Text, _>(consumer),
            bind::<Text, _>(event_id.to_string()),
            bind::<BigInt, _>(now_ms()),
        );
        Sql(schema.render(ACCEPT), binds).execute(self)
    }

    fn purge_inbox(&mut self, schema: &Schema, older_than_ms: i64, limit: i64) -> QueryResult<usize> {
        write(self, |conn, now| {
            let binds = (
                bind::<BigInt, _>(now.saturating_sub(older_than_ms)),
                bind::<BigInt, _>(limit),
            );
            Sql(schema.render(PURGE_INBOX), binds).execute(conn)
        })
    }
}
