use diesel::result::QueryResult;
use diesel::sql_types::{Array, BigInt, Bool, Integer, Nullable, Text, Uuid as SqlUuid};
use diesel::{PgConnection, QueryableByName, RunQueryDsl};
use uuid::Uuid;

use super::bind_fences;
use super::enqueue::column;
use crate::backend::{EventClaim, EventRow, FailedEvent, KeyLook, RelayStatements, SweptEvent, TopicLook};
use crate::lease::Fence;
use crate::schema::Schema;
use crate::sql::{Id, Sql, bind};

/// The first key of the advisory lock; the second one is the hash of schema and topic. The bytes `Rely`.
const LOCK: i32 = 0x5265_6c79;

/// Milliseconds from now on, zero for what is past.
macro_rules! ms_until {
    ($at:literal) => {
        concat!(
            "greatest(0, pg_catalog.ceil(extract(epoch FROM ",
            $at,
            " - pg_catalog.clock_timestamp()) * 1000)::bigint)"
        )
    };
}

const LOOK_AT_TOPIC: &str = concat!(
    "
    WITH held AS (
        SELECT pg_catalog.count(*) AS events, pg_catalog.min(lease_until) AS until
        FROM leasehold.outbox_events WHERE topic = $1 AND state = 'running'
    ),
    next AS (
        SELECT (SELECT run_at FROM leasehold.outbox_events
            WHERE topic = $1 AND key IS NULL AND state = 'ready' ORDER BY run_at LIMIT 1) AS at
    )
    SELECT held.events AS running,
        CASE WHEN held.until IS NOT NULL THEN ",
    ms_until!("held.until"),
    " END AS lease_ms,
        CASE WHEN next.at IS NOT NULL THEN ",
    ms_until!("next.at"),
    " END AS next_ms,
        EXISTS (SELECT 1 FROM leasehold.outbox_events WHERE topic = $1 AND suspect AND key IS NULL AND state = 'ready'
            AND run_at <= (SELECT pg_catalog.clock_timestamp())) AS suspect
    FROM held, next"
);

// From key to key in the index: the events behind the first one of each key are not read.
const LOOK_AT_KEYS: &str = concat!(
    "
    WITH RECURSIVE walk (key, state, run_at, suspect, place) AS (
        (SELECT e.key, e.state, e.run_at, e.suspect, 1::bigint FROM leasehold.outbox_events AS e
         WHERE e.topic = $1 AND e.key > $2 AND e.state <> 'dead' ORDER BY e.key, e.id LIMIT 1)
        UNION ALL
        SELECT following.key, following.state, following.run_at, following.suspect, walk.place + 1
        FROM walk CROSS JOIN LATERAL (
            SELECT e.key, e.state, e.run_at, e.suspect FROM leasehold.outbox_events AS e
            WHERE e.topic = $1 AND e.key > walk.key AND e.state <> 'dead' ORDER BY e.key, e.id LIMIT 1
        ) AS following
        WHERE walk.place < $3
    )
    SELECT walk.key, walk.suspect,
        CASE WHEN walk.state = 'ready'
              AND (SELECT r.id FROM leasehold.outbox_events AS r
                WHERE r.topic = $1 AND r.key >= walk.key AND r.key <= walk.key AND r.state = 'running'
                ORDER BY r.key LIMIT 1) IS NULL
              AND NOT ($4 AND (SELECT d.id FROM leasehold.outbox_events AS d
                WHERE d.topic = $1 AND d.key >= walk.key AND d.key <= walk.key AND d.state = 'dead'
                ORDER BY d.key LIMIT 1) IS NOT NULL)
        THEN ",
    ms_until!("walk.run_at"),
    " END AS next_ms
    FROM walk ORDER BY walk.key"
);

// To the transaction's end, so it works through a pooler. Not waited for: whoever has it takes what there is.
const TRY_LOCK: &str =
    "SELECT pg_catalog.pg_try_advisory_xact_lock($1, pg_catalog.hashtext($2 || '.' || $3)) AS locked";

// One key is asked for as a range, in its order: where most events have the same key or are dead, the planner takes another
// index for an equal one, and reads them all.
//
// Under the topic's lock, so nobody else claims meanwhile, and what is not running stays so: a key of which an event runs is
// left out whole, and of the others the first events are taken up to the first one that cannot be. One that somebody has
// locked by hand ends its key's run; were it stepped over, the next one would be delivered before it. Rows at the end of
// their numbers would fail the claim of their neighbours. The claim makes itself durable, as that of jobs.
const CLAIM_EVENTS: &str = concat!("
    WITH first AS MATERIALIZED (
        SELECT run.id, run.key, run.open FROM unnest($2) AS given (key) CROSS JOIN LATERAL (
            SELECT e.id, e.key, e.state = 'ready' AND e.suspect = $5 AND e.run_at <= pg_catalog.clock_timestamp()
                AND e.generation < 9223372036854775805 AND e.attempt < 2147483647 AS open
            FROM leasehold.outbox_events AS e
            WHERE e.topic = $1 AND e.key >= given.key AND e.key <= given.key AND e.state <> 'dead'
            ORDER BY e.key, e.id LIMIT $3
        ) AS run
        WHERE (SELECT r.id FROM leasehold.outbox_events AS r
                WHERE r.topic = $1 AND r.key >= given.key AND r.key <= given.key AND r.state = 'running'
                ORDER BY r.key LIMIT 1) IS NULL
          AND NOT ($6 AND (SELECT d.id FROM leasehold.outbox_events AS d
                WHERE d.topic = $1 AND d.key >= given.key AND d.key <= given.key AND d.state = 'dead'
                ORDER BY d.key LIMIT 1) IS NOT NULL)
        UNION ALL
        (SELECT e.id, NULL, true FROM leasehold.outbox_events AS e
         WHERE e.topic = $1 AND e.key IS NULL AND e.state = 'ready' AND e.suspect = $5
           AND e.run_at <= (SELECT pg_catalog.clock_timestamp())
           AND e.generation < 9223372036854775805 AND e.attempt < 2147483647
         ORDER BY e.run_at, e.id LIMIT $4)
    ),
    locked AS MATERIALIZED (
        SELECT mine.id FROM first CROSS JOIN LATERAL (
            SELECT e.id FROM leasehold.outbox_events AS e WHERE e.id = first.id AND e.state = 'ready'
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS mine WHERE first.open
    ),
    run AS (
        SELECT first.id, pg_catalog.row_number() OVER mine AS place,
            pg_catalog.bool_and(first.open AND first.id IN (SELECT id FROM locked)) OVER mine AS whole
        FROM first
        WINDOW mine AS (PARTITION BY first.key, CASE WHEN first.key IS NULL THEN first.id END ORDER BY first.id)
    )
    UPDATE leasehold.outbox_events AS e SET state = 'running', generation = e.generation + 1, attempt = e.attempt + 1,
        lease_token = $8, lease_until = pg_catalog.clock_timestamp() + $9 * INTERVAL '1 millisecond'
    WHERE e.id = ANY (ARRAY(SELECT id FROM run WHERE whole ORDER BY place, id LIMIT $7)) AND e.state = 'ready'
    RETURNING e.id, e.event_id::pg_catalog.text, e.key, e.payload::pg_catalog.text, e.attempt, e.max_attempts, e.generation,
        pg_catalog.floor(extract(epoch FROM e.created_at) * 1000)::bigint AS created_at_ms,
        ", durable!(), "
");

const FIND_CLAIMED_EVENTS: &str = "
    SELECT id, event_id::pg_catalog.text, key, payload::pg_catalog.text, attempt, max_attempts, generation,
        pg_catalog.floor(extract(epoch FROM created_at) * 1000)::bigint AS created_at_ms
    FROM leasehold.outbox_events WHERE topic = $1 AND state = 'running' AND lease_token = $2
";

const RENEW_EVENTS: &str = concat!(
    "WITH ",
    locked_events!(),
    " UPDATE leasehold.outbox_events AS e
        SET lease_until = pg_catalog.clock_timestamp() + $4 * INTERVAL '1 millisecond'
        WHERE ",
    event_under_the_fence!(),
    " RETURNING e.id"
);

const DELETE_DELIVERED: &str = concat!(
    "WITH ",
    locked_events!(),
    " DELETE FROM leasehold.outbox_events AS e WHERE ",
    event_under_the_fence!(),
    " RETURNING e.id"
);

const FAIL_EVENTS: &str = concat!(
    "WITH ",
    locked_events!(),
    " UPDATE leasehold.outbox_events AS e SET state = CASE WHEN given.delay_ms IS NULL THEN 'dead' ELSE 'ready' END,
        run_at = coalesce(pg_catalog.clock_timestamp() + given.delay_ms * INTERVAL '1 millisecond', e.run_at),
        dead_at = CASE WHEN given.delay_ms IS NULL THEN pg_catalog.clock_timestamp() END,
        error = given.error, suspect = false, lease_until = NULL
        FROM unnest($1, $4, $5) AS given (id, delay_ms, error) WHERE given.id = e.id AND ",
    event_under_the_fence!(),
    " RETURNING e.id"
);

const RELEASE_EVENTS: &str = concat!(
    "WITH ",
    locked_events!(),
    " UPDATE leasehold.outbox_events AS e
        SET state = 'ready', attempt = greatest(e.attempt - 1, 0), lease_until = NULL
        WHERE ",
    event_under_the_fence!(),
    " RETURNING e.id"
);

// Fenced on what was read under the lock; one that its relay is writing at this moment is left to it.
const SWEEP_EVENTS: &str = "
    WITH expired AS MATERIALIZED (
        SELECT id, generation, lease_token, suspect, suspect AND attempt >= max_attempts AS ends
        FROM leasehold.outbox_events
        WHERE topic = $1 AND state = 'running' AND lease_until <= pg_catalog.clock_timestamp()
          AND generation < 9223372036854775806
        ORDER BY id LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE leasehold.outbox_events AS e SET state = CASE WHEN x.ends THEN 'dead' ELSE 'ready' END,
        generation = e.generation + 1, suspect = NOT x.ends, lease_until = NULL,
        attempt = CASE WHEN x.suspect THEN e.attempt ELSE greatest(e.attempt - 1, 0) END,
        error = CASE WHEN x.suspect THEN 'the lease ran out during its delivery' ELSE e.error END,
        dead_at = CASE WHEN x.ends THEN pg_catalog.clock_timestamp() END
    FROM expired AS x
    WHERE e.id = ANY (ARRAY(SELECT id FROM expired))
      AND e.id = x.id AND e.generation = x.generation AND e.lease_token = x.lease_token AND e.state = 'running'
    RETURNING e.event_id::pg_catalog.text, e.key, e.attempt, e.generation, e.state
";

#[derive(QueryableByName)]
struct Locked {
    #[diesel(sql_type = Bool)]
    locked: bool,
}

fn ids(rows: Vec<Id>) -> Vec<i64> {
    rows.into_iter().map(|row| row.id).collect()
}

impl RelayStatements for PgConnection {
    fn look_at_topic(&mut self, schema: &Schema, topic: &str) -> QueryResult<TopicLook> {
        Sql(schema.render(LOOK_AT_TOPIC), (bind::<Text, _>(topic),)).get_result(self)
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
        );
        Sql(schema.render(LOOK_AT_KEYS), binds).load(self)
    }

    fn try_lock_topic(&mut self, schema: &Schema, topic: &str) -> QueryResult<bool> {
        let binds = (
            bind::<Integer, _>(LOCK),
            bind::<Text, _>(schema.name()),
            bind::<Text, _>(topic),
        );
        let row: Locked = Sql(TRY_LOCK, binds).get_result(self)?;
        Ok(row.locked)
    }

    fn claim_events(&mut self, schema: &Schema, claim: &EventClaim<'_>) -> QueryResult<Vec<EventRow>> {
        let binds = (
            bind::<Text, _>(claim.topic),
            bind::<Array<Text>, _>(claim.keys),
            bind::<BigInt, _>(claim.run),
            bind::<BigInt, _>(claim.unkeyed),
            bind::<Bool, _>(claim.suspect),
            bind::<Bool, _>(claim.halt),
            bind::<BigInt, _>(claim.limit),
            bind::<SqlUuid, _>(claim.lease_token),
            bind::<BigInt, _>(claim.lease_ms),
        );
        Sql(schema.render(CLAIM_EVENTS), binds).load(self)
    }

    fn find_claimed_events(&mut self, schema: &Schema, topic: &str, lease_token: Uuid) -> QueryResult<Vec<EventRow>> {
        let binds = (bind::<Text, _>(topic), bind::<SqlUuid, _>(lease_token));
        Sql(schema.render(FIND_CLAIMED_EVENTS), binds).load(self)
    }

    fn renew_events(&mut self, schema: &Schema, fences: &[Fence], lease_ms: i64) -> QueryResult<Vec<i64>> {
        let (of, generations, tokens) = bind_fences(fences);
        let binds = (of, generations, tokens, bind::<BigInt, _>(lease_ms));
        Sql(schema.render(RENEW_EVENTS), binds).load(self).map(ids)
    }

    fn delete_delivered(&mut self, schema: &Schema, fences: &[Fence]) -> QueryResult<Vec<i64>> {
        Sql(schema.render(DELETE_DELIVERED), bind_fences(fences))
            .load(self)
            .map(ids)
    }

    fn fail_events(&mut self, schema: &Schema, failed: &[FailedEvent]) -> QueryResult<Vec<i64>> {
        let fences: Vec<Fence> = failed.iter().map(|failed| failed.fence).collect();
        let (of, generations, tokens) = bind_fences(&fences);
        let delays = column::<Nullable<BigInt>, _, _>(failed, |failed| failed.delay_ms);
        let errors = column::<Text, _, _>(failed, |failed| failed.error.as_str());
        let binds = (of, generations, tokens, delays, errors);
        Sql(schema.render(FAIL_EVENTS), binds).load(self).map(ids)
    }

    fn release_events(&mut self, schema: &Schema, fences: &[Fence]) -> QueryResult<Vec<i64>> {
        Sql(schema.render(RELEASE_EVENTS), bind_fences(fences))
            .load(self)
            .map(ids)
    }

    fn sweep_events(&mut self, schema: &Schema, topic: &str, limit: i64) -> QueryResult<Vec<SweptEvent>> {
        let binds = (bind::<Text, _>(topic), bind::<BigInt, _>(limit));
        Sql(schema.render(SWEEP_EVENTS), binds).load(self)
    }
}
