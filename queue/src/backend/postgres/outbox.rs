use diesel::result::QueryResult;
use diesel::sql_types::{Array, BigInt, Integer, Nullable, Text, Uuid as SqlUuid};
use diesel::{PgConnection, QueryableByName, RunQueryDsl};
use uuid::Uuid;

use super::enqueue::column;
use crate::backend::{DeadEventRow, EventCountRow, NewEvent, OutboxStatements};
use crate::schema::Schema;
use crate::sql::{Sql, bind};

// Ids grow in the order of the events.
const EMIT: &str = concat!(
    "
    WITH inserted AS (
        INSERT INTO leasehold.outbox_events (event_id, topic, key, payload, max_attempts)
        SELECT event_id, topic, key, payload::pg_catalog.json, max_attempts
        FROM unnest($1, $2, $3, $4, $5) WITH ORDINALITY AS given (event_id, topic, key, payload, max_attempts, position)
        ORDER BY position
        RETURNING id
    )
    SELECT pg_catalog.count(*) AS events, ",
    tell!("leasehold_outbox"),
    " FROM inserted"
);

const DEAD_EVENTS: &str = "
    SELECT id, event_id::pg_catalog.text, topic, key, payload::pg_catalog.text, attempt, error,
        pg_catalog.floor(extract(epoch FROM created_at) * 1000)::bigint AS created_at_ms,
        pg_catalog.floor(extract(epoch FROM dead_at) * 1000)::bigint AS dead_at_ms
    FROM leasehold.outbox_events
    WHERE state = 'dead' AND id > $2 AND ($1 IS NULL OR topic = $1) ORDER BY id LIMIT $3
";

// Nobody but a person writes a dead one, and another person may be at it: in id order, by what was read under the lock.
macro_rules! dead {
    () => {
        "WITH dead AS MATERIALIZED (
            SELECT id, generation FROM leasehold.outbox_events
            WHERE event_id = ANY ($1) AND state = 'dead' ORDER BY id FOR NO KEY UPDATE
        ), "
    };
}

const REDELIVER: &str = concat!(
    dead!(),
    "ready AS (
        UPDATE leasehold.outbox_events AS e SET state = 'ready', generation = e.generation + 1, attempt = 0, suspect = false,
            run_at = pg_catalog.clock_timestamp(), dead_at = NULL
        FROM dead AS d
        WHERE e.id = ANY (ARRAY(SELECT id FROM dead)) AND e.id = d.id AND e.generation = d.generation AND e.state = 'dead'
          AND e.generation < 9223372036854775805
        RETURNING e.id
    )
    SELECT pg_catalog.count(*) AS events, ",
    tell!("leasehold_outbox"),
    " FROM ready"
);

const DROP_DEAD: &str = concat!(
    dead!(),
    "dropped AS (
        DELETE FROM leasehold.outbox_events AS e USING dead AS d
        WHERE e.id = ANY (ARRAY(SELECT id FROM dead)) AND e.id = d.id AND e.generation = d.generation AND e.state = 'dead'
        RETURNING e.id
    )
    SELECT pg_catalog.count(*) AS events FROM dropped"
);

const EVENT_COUNTS: &str = "
    SELECT topic,
        pg_catalog.count(*) FILTER (WHERE state = 'ready' AND attempt = 0) AS ready,
        pg_catalog.count(*) FILTER (WHERE state = 'ready' AND attempt > 0) AS retrying,
        pg_catalog.count(*) FILTER (WHERE state = 'running') AS running,
        pg_catalog.count(*) FILTER (WHERE state = 'dead') AS dead,
        pg_catalog.floor(extract(epoch FROM
            pg_catalog.clock_timestamp() - pg_catalog.min(created_at) FILTER (WHERE state <> 'dead')) * 1000)::bigint AS oldest_ms
    FROM leasehold.outbox_events GROUP BY topic ORDER BY topic
";

#[derive(QueryableByName)]
struct Count {
    #[diesel(sql_type = BigInt)]
    events: i64,
}

impl Count {
    fn number(&self) -> usize {
        usize::try_from(self.events).unwrap_or_default()
    }
}

impl OutboxStatements for PgConnection {
    fn emit(&mut self, schema: &Schema, events: &[NewEvent]) -> QueryResult<usize> {
        let binds = (
            column::<SqlUuid, _, _>(events, |event| event.event_id),
            column::<Text, _, _>(events, |event| event.topic.as_str()),
            column::<Nullable<Text>, _, _>(events, |event| event.key.as_deref()),
            column::<Text, _, _>(events, |event| event.payload.as_str()),
            column::<Integer, _, _>(events, |event| event.max_attempts),
        );
        let count: Count = Sql(schema.render(EMIT), binds).get_result(self)?;
        Ok(count.number())
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
        let count: Count = Sql(schema.render(REDELIVER), (bind::<Array<SqlUuid>, _>(events),)).get_result(self)?;
        Ok(count.number())
    }

    fn drop_dead(&mut self, schema: &Schema, events: &[Uuid]) -> QueryResult<usize> {
        let count: Count = Sql(schema.render(DROP_DEAD), (bind::<Array<SqlUuid>, _>(events),)).get_result(self)?;
        Ok(count.number())
    }

    fn event_counts(&mut self, schema: &Schema) -> QueryResult<Vec<EventCountRow>> {
        Sql(schema.render(EVENT_COUNTS), ()).load(self)
    }
}
