//! Relays: events are claimed, kept and marked.

use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Bool, Text};
use diesel::{RunQueryDsl, SqliteConnection};
use uuid::Uuid;

use super::{fences_json, json, now_ms, write};
use crate::backend::{EventClaim, EventRow, FailedEvent, KeyLook, RelayStatements, SweptEvent, TopicLook};
use crate::lease::Fence;
use crate::schema::Schema;
use crate::sql::{Id, Sql, bind};

const LOOK_AT_TOPIC: &str = "
    SELECT held.events AS running, max(held.until - $2, 0) AS lease_ms, max(next.at - $2, 0) AS next_ms,
        EXISTS (SELECT 1 FROM leasehold_outbox_events INDEXED BY leasehold_outbox_events_suspect
            WHERE topic = $1 AND suspect = 1 AND key IS NULL AND state = 'ready' AND run_at <= $2) AS suspect
    FROM (
        SELECT count(*) AS events, min(lease_until) AS until
        FROM leasehold_outbox_events INDEXED BY leasehold_outbox_events_running WHERE topic = $1 AND state = 'running'
    ) AS held, (
        SELECT min(run_at) AS at FROM leasehold_outbox_events INDEXED BY leasehold_outbox_events_unkeyed
        WHERE topic = $1 AND key IS NULL AND state = 'ready'
    ) AS next
";

/// From key to key in the index: the events behind the first one of each key are not read.
const LOOK_AT_KEYS: &str = "
    WITH RECURSIVE walk (id, place) AS (
        SELECT (SELECT id FROM leasehold_outbox_events INDEXED BY leasehold_outbox_events_keys
            WHERE topic = $1 AND key > $2 AND state <> 'dead' ORDER BY key, id LIMIT 1), 1
        UNION ALL
        SELECT (SELECT id FROM leasehold_outbox_events INDEXED BY leasehold_outbox_events_keys
            WHERE topic = $1 AND key > (SELECT key FROM leasehold_outbox_events WHERE id = walk.id) AND state <> 'dead'
            ORDER BY key, id LIMIT 1), place + 1
        FROM walk WHERE id IS NOT NULL AND place < $3
    )
    SELECT first.key, first.suspect,
        CASE WHEN first.state = 'ready'
              AND NOT EXISTS (SELECT 1 FROM leasehold_outbox_events INDEXED BY leasehold_outbox_events_running
                WHERE topic = $1 AND key = first.key AND state = 'running')
              AND NOT ($4 AND EXISTS (SELECT 1 FROM leasehold_outbox_events INDEXED BY leasehold_outbox_events_dead
                WHERE topic = $1 AND key = first.key AND state = 'dead'))
        THEN max(first.run_at - $5, 0) END AS next_ms
    FROM walk CROSS JOIN leasehold_outbox_events AS first ON first.id = walk.id ORDER BY first.key
";

/// A key of which an event runs is left out whole, and of the others the first events are taken up to the first one that
/// cannot be. Rows at the end of their numbers would fail the claim of their neighbours.
const CLAIM_EVENTS: &str = "
    UPDATE leasehold_outbox_events SET state = 'running', generation = generation + 1, attempt = attempt + 1,
        lease_token = $8, lease_until = $10 + $9
    WHERE id IN (
        SELECT id FROM (
            SELECT run.value->>0 AS id, row_number() OVER mine AS place, min(run.value->>1) OVER mine AS whole
            FROM json_each($2) AS given, json_each((SELECT json_group_array(json_array(id, open)) FROM (
                SELECT id, state = 'ready' AND suspect = $5 AND run_at <= $10
                    AND generation < 9223372036854775805 AND attempt < 2147483647 AS open
                FROM leasehold_outbox_events INDEXED BY leasehold_outbox_events_keys
                WHERE topic = $1 AND key = given.value AND state <> 'dead' ORDER BY id LIMIT $3 + 0
            ))) AS run
            WHERE NOT EXISTS (SELECT 1 FROM leasehold_outbox_events INDEXED BY leasehold_outbox_events_running
                    WHERE topic = $1 AND key = given.value AND state = 'running')
              AND NOT ($6 AND EXISTS (SELECT 1 FROM leasehold_outbox_events INDEXED BY leasehold_outbox_events_dead
                    WHERE topic = $1 AND key = given.value AND state = 'dead'))
            WINDOW mine AS (PARTITION BY given.value ORDER BY run.value->>0)
            UNION ALL
            SELECT id, 1, 1 FROM (
                SELECT id FROM leasehold_outbox_events INDEXED BY leasehold_outbox_events_unkeyed
                WHERE topic = $1 AND key IS NULL AND state = 'ready' AND suspect = $5 AND run_at <= $10
                  AND generation < 9223372036854775805 AND attempt < 2147483647
                ORDER BY run_at, id LIMIT $4 + 0
            )
        ) WHERE whole = 1 ORDER BY place, id LIMIT $7 + 0
    ) AND state = 'ready'
    RETURNING id, event_id, key, payload, attempt, max_attempts, generation, created_at AS created_at_ms
";

const FIND_CLAIMED_EVENTS: &str = "
    SELECT id, event_id, key, payload, attempt, max_attempts, generation, created_at AS created_at_ms
    FROM leasehold_outbox_events INDEXED BY leasehold_outbox_events_running
    WHERE topic = $1 AND state = 'running' AND lease_token = $2
";

const RENEW_EVENTS: &str = "
    UPDATE leasehold_outbox_events AS e SET lease_until = $2 + $3 FROM json_each($1) AS f
    WHERE e.id = f.value->>0 AND e.generation = f.value->>1 AND e.lease_token = f.value->>2 AND e.state = 'running'
    RETURNING id
";

const DELETE_DELIVERED: &str = "
    DELETE FROM leasehold_outbox_events
    WHERE id IN (SELECT value->>0 FROM json_each($1))
        AND (id, generation, lease_token) IN (SELECT value->>0, value->>1, value->>2 FROM json_each($1))
        AND state = 'running'
    RETURNING id
";

const FAIL_EVENTS: &str = "
    UPDATE leasehold_outbox_events AS e SET state = CASE WHEN f.value->>3 IS NULL THEN 'dead' ELSE 'ready' END,
        run_at = coalesce($2 + (f.value->>3), e.run_at), dead_at = CASE WHEN f.value->>3 IS NULL THEN $2 END,
        error = f.value->>4, suspect = 0, lease_until = NULL
    FROM json_each($1) AS f
    WHERE e.id = f.value->>0 AND e.generation = f.value->>1 AND e.lease_token = f.value->>2 AND e.state = 'running'
    RETURNING id
";

const RELEASE_EVENTS: &str = "
    UPDATE leasehold_outbox_events AS e SET state = 'ready', attempt = max(e.attempt - 1, 0), lease_until = NULL
    FROM json_each($1) AS f
    WHERE e.id = f.value->>0 AND e.generation = f.value->>1 AND e.lease_token = f.value->>2 AND e.state = 'running'
    RETURNING id
";

const EXPIRED_EVENTS: &str = "
    SELECT id, generation, lease_token FROM leasehold_outbox_events INDEXED BY leasehold_outbox_events_running
    WHERE topic = $1 AND state = 'running' AND lease_until <= $2 AND generation < 9223372036854775806
    ORDER BY id LIMIT $3 + 0
";

const SWEEP_EVENTS: &str = "
    UPDATE leasehold_outbox_events AS e
    SET state = CASE WHEN e.suspect AND e.attempt >= e.max_attempts THEN 'dead' ELSE 'ready' END,
        generation = e.generation + 1, suspect = NOT (e.suspect AND e.attempt >= e.max_attempts), lease_until = NULL,
        attempt = CASE WHEN e.suspect THEN e.attempt ELSE max(e.attempt - 1, 0) END,
        error = CASE WHEN e.suspect THEN 'the lease ran out during its delivery' ELSE e.error END,
        dead_at = CASE WHEN e.suspect AND e.attempt >= e.max_attempts THEN $2 END
    FROM json_each($1) AS f
    WHERE e.id = f.value->>0 AND e.generation = f.value->>1 AND e.lease_token = f.value->>2 AND e.state = 'running'
    RETURNING event_id, key, attempt, generation, state
";

#[derive(diesel::QueryableByName)]
struct Expired {
    #[diesel(sql_type = BigInt)]
    id: i64,
    #[diesel(sql_type = BigInt)]
    generation: i64,
    #[diesel(sql_type = Text)]
    lease_token: String,
}

fn ids(rows: Vec<Id>) -> Vec<i64> {
    rows.into_iter().map(|row| row.id).collect()
}

impl RelayStatements for SqliteConnection {
    fn look_at_topic(&mut self, schema: &Schema, topic: &str) -> QueryResult<TopicLook> {
        let binds = (bind::<Text, _>(topic), bind::<BigInt, _>(now_ms()));
        Sql(schema.render(LOOK_AT_TOPIC), binds).get_result(self)
    }

    fn look_at_keys(
        &mut self,
        schema: &Schema,
        topic: &str,
        after: &str,
        limit: i64,
        halt: bool,
    ) -> QueryResult<Vec<KeyLook>> {
        let binds = (
            bind::<Text, _>(topic),
            bind::<Text, _>(after),
            bind::<BigInt, _>(limit),
            bind::<Bool, _>(halt),
            bind::<BigInt, _>(now_ms()),
        );
        Sql(schema.render(LOOK_AT_KEYS), binds).load(self)
    }

    /// The write lock, which the transaction has, is enough.
    fn try_lock_topic(&mut self, _: &Schema, _: &str) -> QueryResult<bool> {
        Ok(true)
    }

    fn claim_events(&mut self, schema: &Schema, claim: &EventClaim<'_>) -> QueryResult<Vec<EventRow>> {
        let keys = json(claim.keys)?;
        write(self, |conn, now| {
            let binds = (
                bind::<Text, _>(claim.topic),
                bind::<Text, _>(&keys),
                bind::<BigInt, _>(claim.run),
                bind::<BigInt, _>(claim.unkeyed),
                bind::<Bool, _>(claim.suspect),
                bind::<Bool, _>(claim.halt),
                bind::<BigInt, _>(claim.limit),
                bind::<Text, _>(claim.lease_token.to_string()),
                bind::<BigInt, _>(claim.lease_ms),
                bind::<BigInt, _>(now),
            );
            Sql(schema.render(CLAIM_EVENTS), binds).load(conn)
        })
    }

    fn find_claimed_events(&mut self, schema: &Schema, topic: &str, lease_token: Uuid) -> QueryResult<Vec<EventRow>> {
        let binds = (bind::<Text, _>(topic), bind::<Text, _>(lease_token.to_string()));
        Sql(schema.render(FIND_CLAIMED_EVENTS), binds).load(self)
    }

    fn renew_events(&mut self, schema: &Schema, fences: &[Fence], lease_ms: i64) -> QueryResult<Vec<i64>> {
        let fences = fences_json(fences);
        write(self, |conn, now| {
            let binds = (
                bind::<Text, _>(&fences),
                bind::<BigInt, _>(now),
                bind::<BigInt, _>(lease_ms),
            );
            Sql(schema.render(RENEW_EVENTS), binds).load(conn).map(ids)
        })
    }

    fn delete_delivered(&mut self, schema: &Schema, fences: &[Fence]) -> QueryResult<Vec<i64>> {
        let fences = fences_json(fences);
        write(self, |conn, _| {
            Sql(schema.render(DELETE_DELIVERED), (bind::<Text, _>(&fences),))
                .load(conn)
                .map(ids)
        })
    }

    fn fail_events(&mut self, schema: &Schema, failed: &[FailedEvent]) -> QueryResult<Vec<i64>> {
        let rows = failed.iter().map(|failed| {
            let fence = &failed.fence;
            let token = fence.lease_token.to_string();
            (fence.id, fence.generation, token, failed.delay_ms, &failed.error)
        });
        let rows = json(&rows.collect::<Vec<_>>())?;
        write(self, |conn, now| {
            let binds = (bind::<Text, _>(&rows), bind::<BigInt, _>(now));
            Sql(schema.render(FAIL_EVENTS), binds).load(conn).map(ids)
        })
    }

    fn release_events(&mut self, schema: &Schema, fences: &[Fence]) -> QueryResult<Vec<i64>> {
        let fences = fences_json(fences);
        write(self, |conn, _| {
            Sql(schema.render(RELEASE_EVENTS), (bind::<Text, _>(&fences),))
                .load(conn)
                .map(ids)
        })
    }

    fn sweep_events(&mut self, schema: &Schema, topic: &str, limit: i64) -> QueryResult<Vec<SweptEvent>> {
        write(self, |conn, now| {
            let binds = (bind::<Text, _>(topic), bind::<BigInt, _>(now), bind::<BigInt, _>(limit));
            let expired: Vec<Expired> = Sql(schema.render(EXPIRED_EVENTS), binds).load(conn)?;
            let fences = expired.iter().map(|row| (row.id, row.generation, &row.lease_token));
            let fences = json(&fences.collect::<Vec<_>>())?;
            Sql(
                schema.render(SWEEP_EVENTS),
                (bind::<Text, _>(fences), bind::<BigInt, _>(now)),
            )
            .load(conn)
        })
    }
}
