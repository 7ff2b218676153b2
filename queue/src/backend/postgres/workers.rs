use diesel::result::{Error, QueryResult};
use diesel::sql_types::{Array, BigInt, Integer, Text, Uuid as SqlUuid};
use diesel::{PgConnection, RunQueryDsl};
use uuid::Uuid;

use super::claim::bind_serves;
use crate::backend::{DepthRow, KindRow, Served, WorkerRow, WorkerStatements};
use crate::schema::Schema;
use crate::sql::{Sql, bind};

const SHOW_WORKER: &str = "
    INSERT INTO leasehold.workers (id, host, pid, threads, queues, kinds)
    VALUES ($1, $2, $3, $4, pg_catalog.array_to_json($5), $6::pg_catalog.json)
    ON CONFLICT (id) DO UPDATE SET heartbeat_at = pg_catalog.clock_timestamp()
";

// A process that is long gone may come back in two others at once: who meets a locked row leaves it to the other.
const HIDE_WORKER: &str = "
    DELETE FROM leasehold.workers
    WHERE id = ANY (ARRAY(
        SELECT id FROM leasehold.workers
        WHERE id = $1 OR heartbeat_at < pg_catalog.clock_timestamp() - INTERVAL '1 hour'
        FOR NO KEY UPDATE SKIP LOCKED
    ))
";

const SERVED_KINDS: &str = "
    SELECT served.kind->>0 AS kind, pg_catalog.max((served.kind->>1)::pg_catalog.int4) AS version
    FROM leasehold.workers AS w CROSS JOIN LATERAL pg_catalog.json_array_elements(w.kinds) AS served (kind)
    WHERE w.heartbeat_at > pg_catalog.clock_timestamp() - INTERVAL '1 minute'
    GROUP BY 1 ORDER BY 1
";

/// What of a (queue, kind, version) is due, in the order of the claim.
macro_rules! due_of {
    ($limit:literal) => {
        concat!(
            "unnest($1, $2, $3) AS served (queue, kind, version) CROSS JOIN LATERAL (
                SELECT j.run_at FROM leasehold.jobs AS j
                WHERE j.queue = served.queue AND j.kind = served.kind AND j.version = served.version
                  AND j.state = 'ready' AND NOT j.scheduled AND j.blocked_by IS NULL
                ORDER BY -j.priority::pg_catalog.int4, j.run_at, j.id LIMIT ",
            $limit,
            ") AS waiting WHERE served.queue = queues.queue"
        )
    };
}

// Counting a queue ends early; the first of each kind and version is looked at in any case.
const DEPTHS: &str = concat!(
    "SELECT queues.queue, counted.jobs AS ready, coalesce(
            pg_catalog.floor(extract(epoch FROM pg_catalog.clock_timestamp() - least(counted.oldest, heads.oldest)) * 1000), 0
        )::bigint AS oldest_ms
    FROM (SELECT DISTINCT given.queue FROM unnest($1) AS given (queue)) AS queues
    CROSS JOIN LATERAL (
        SELECT pg_catalog.count(*) AS jobs, pg_catalog.min(one.run_at) AS oldest
        FROM (SELECT waiting.run_at FROM ",
    due_of!("$4"),
    " LIMIT $4) AS one
    ) AS counted
    CROSS JOIN LATERAL (SELECT pg_catalog.min(waiting.run_at) AS oldest FROM ",
    due_of!("1"),
    ") AS heads"
);

impl WorkerStatements for PgConnection {
    fn show_worker(&mut self, schema: &Schema, worker: &WorkerRow) -> QueryResult<usize> {
        let kinds = serde_json::to_string(&worker.kinds).map_err(|error| Error::SerializationError(Box::new(error)))?;
        let binds = (
            bind::<SqlUuid, _>(worker.id),
            bind::<Text, _>(worker.host.as_str()),
            bind::<Integer, _>(worker.pid),
            bind::<Integer, _>(worker.threads),
            bind::<Array<Text>, _>(worker.queues.as_slice()),
            bind::<Text, _>(kinds),
        );
        Sql(schema.render(SHOW_WORKER), binds).execute(self)
    }

    fn hide_worker(&mut self, schema: &Schema, id: Uuid) -> QueryResult<usize> {
        Sql(schema.render(HIDE_WORKER), (bind::<SqlUuid, _>(id),)).execute(self)
    }

    fn served_kinds(&mut self, schema: &Schema) -> QueryResult<Vec<KindRow>> {
        Sql(schema.render(SERVED_KINDS), ()).load(self)
    }

    fn depths(&mut self, schema: &Schema, serves: &[Served], at_most: i64) -> QueryResult<Vec<DepthRow>> {
        let (queues, kinds, versions) = bind_serves(serves);
        let binds = (queues, kinds, versions, bind::<BigInt, _>(at_most));
        Sql(schema.render(DEPTHS), binds).load(self)
    }
}
