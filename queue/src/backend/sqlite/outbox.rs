//! The outbox: events are written, and people look after dead ones.

use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Nullable, Text};
use diesel::{RunQueryDsl, SqliteConnection};
use uuid::Uuid;

use super::{json, now_ms, write};
use crate::backend::{DeadEventRow, EventCountRow, NewEvent, OutboxStatements};
use crate::schema::Schema;
use crate::sql::{Sql, bind};

const EMIT: &str = "
    INSERT INTO leasehold_outbox_events (event_id, topic, key, payload, max_attempts, run_at, created_at)
    SELECT value->>0, value->>1, value->>2, value->>3, value->>4, $2, $2 FROM json_each($1)
";

const DEAD_EVENTS: &str = "
    SELECT id, event_id, topic, key, payload, attempt, error, created_at AS created_at_ms, dead_at AS dead_at_ms
    FROM leasehold_outbox_events
    WHERE state = 'dead' AND id > $2 AND ($1 IS NULL OR topic = $1) ORDER BY id LIMIT $3 + 0
";

const REDELIVER: &str = "
    UPDATE leasehold_outbox_events SET state = 'ready', generation = generation + 1, attempt = 0, suspect = 0, run_at = $2,
        dead_at = NULL
    WHERE event_id IN (SELECT value FROM json_each($1)) AND state = 'dead' AND generation < 9223372036854775805
";

const DROP_DEAD: &str = "
    DELETE FROM leasehold_outbox_events WHERE event_id IN (SELECT value FROM json_each($1)) AND state = 'dead'
";

const EVENT_COUNTS: &str = "
    SELECT topic,
        count(*) FILTER (WHERE state = 'ready' AND attempt = 0) AS ready,
        count(*) FILTER (WHERE state = 'ready' AND attempt > 0) AS retrying,
        count(*) FILTER (WHERE state = 'running') AS running,
        count(*) FILTER (WHERE state = 'dead') AS dead,
        $1 - min(created_at) FILTER (WHERE state <> 'dead') AS oldest_ms
    FROM leasehold_outbox_events GROUP BY topic ORDER BY topic
";

fn ids_json(events: &[Uuid]) -> QueryResult<String> {
    json(&events.iter().map(Uuid::to_string).collect::<Vec<_>>())
}

impl OutboxStatements for SqliteConnection {
    fn emit(&mut self, schema: &Schema, events: &[NewEvent]) -> QueryResult<usize> {
        // No transaction of our own around it: a caller may have begun one that Diesel does not know of.
        let rows = events.iter().map(|event| {
            (
                event.event_id.to_string(),
                &event.topic,
                &event.key,
                &event.payload,
                event.max_attempts,
            )
        });
        let rows = json(&rows.collect::<Vec<_>>())?;
        Sql(
            schema.render(EMIT),
            (bind::<Text, _>(rows), bind::<BigInt, _>(now_ms())),
        )
        .execute(self)
    }

    fn dead_events(
        &mut self,
        schema: &Schema,
        topic: Option<&str>,
        after: i64,
        limit: i64,
    ) -> QueryResult<Vec<DeadEventRow>> {
        let binds = (
            bind::<Nullable<Text>, _>(topic),
            bind::<BigInt, _>(after),
            bind::<BigInt, _>(limit),
        );
        Sql(schema.render(DEAD_EVENTS), binds).load(self)
    }

    fn redeliver(&mut self, schema: &Schema, events: &[Uuid]) -> QueryResult<usize> {
        let ids = ids_json(events)?;
        write(self, |conn, now| {
            Sql(
                schema.render(REDELIVER),
                (bind::<Text, _>(&ids), bind::<BigInt, _>(now)),
            )
            .execute(conn)
        })
    }

    fn drop_dead(&mut self, schema: &Schema, events: &[Uuid]) -> QueryResult<usize> {
        let ids = ids_json(events)?;
        write(self, |conn, _| {
            Sql(schema.render(DROP_DEAD), (bind::<Text, _>(&ids),)).execute(conn)
        })
    }

    fn event_counts(&mut self, schema: &Schema) -> QueryResult<Vec<EventCountRow>> {
        Sql(schema.render(EVENT_COUNTS), (bind::<BigInt, _>(now_ms()),)).load(self)
    }
}
