//! The table of workers.

use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Integer, Text};
use diesel::{RunQueryDsl, SqliteConnection};
use uuid::Uuid;

use super::{json, now_ms, served_json, write};
use crate::backend::{DepthRow, KindRow, Served, WorkerRow, WorkerStatements};
use crate::schema::Schema;
use crate::sql::{Sql, bind};

const SHOW_WORKER: &str = "
    INSERT INTO leasehold_workers (id, host, pid, threads, queues, kinds, started_at, heartbeat_at)
    VALUES ($1, $2, $3, $4, $5, $7, $6, $6)
    ON CONFLICT (id) DO UPDATE SET heartbeat_at = excluded.heartbeat_at
";

const HIDE_WORKER: &str = "DELETE FROM leasehold_workers WHERE id = $1 OR heartbeat_at < $2 - 3600000";

const SERVED_KINDS: &str = "
    SELECT served.value->>0 AS kind, max(served.value->>1) AS version
    FROM leasehold_workers AS w, json_each(w.kinds) AS served
    WHERE w.heartbeat_at > $1 - 60000
    GROUP BY 1 ORDER BY 1
";

const DEPTHS: &str = "
    SELECT queue, sum(jobs) AS ready, coalesce(max($2 - oldest), 0) AS oldest_ms FROM (
        SELECT served.value->>0 AS queue,
            (SELECT count(*) FROM (SELECT 1 FROM leasehold_jobs WHERE queue = served.value->>0 AND kind = served.value->>1
                AND version = served.value->>2 AND state = 'ready' AND scheduled = 0 AND blocked_by IS NULL LIMIT $3 + 0)) AS jobs,
            (SELECT min(run_at) FROM (SELECT run_at FROM leasehold_jobs WHERE queue = served.value->>0
                AND kind = served.value->>1 AND version = served.value->>2 AND state = 'ready' AND scheduled = 0
                AND blocked_by IS NULL ORDER BY priority DESC, run_at, id LIMIT $3 + 0)) AS oldest
        FROM json_each($1) AS served
    ) GROUP BY queue
";

impl WorkerStatements for SqliteConnection {
    fn show_worker(&mut self, schema: &Schema, worker: &WorkerRow) -> QueryResult<usize> {
        let (queues, kinds) = (json(&worker.queues)?, json(&worker.kinds)?);
        write(self, |conn, now| {
            let binds = (
                bind::<Text, _>(worker.id.to_string()),
                bind::<Text, _>(&worker.host),
                bind::<Integer, _>(worker.pid),
                bind::<Integer, _>(worker.threads),
                bind::<Text, _>(queues),
                bind::<BigInt, _>(now),
                bind::<Text, _>(kinds),
            );
            Sql(schema.render(SHOW_WORKER), binds).execute(conn)
        })
    }

    fn hide_worker(&mut self, schema: &Schema, id: Uuid) -> QueryResult<usize> {
        write(self, |conn, now| {
            Sql(
                schema.render(HIDE_WORKER),
                (bind::<Text, _>(id.to_string()), bind::<BigInt, _>(now)),
            )
            .execute(conn)
        })
    }

    fn served_kinds(&mut self, schema: &Schema) -> QueryResult<Vec<KindRow>> {
        Sql(schema.render(SERVED_KINDS), (bind::<BigInt, _>(now_ms()),)).load(self)
    }

    fn depths(&mut self, schema: &Schema, serves: &[Served], at_most: i64) -> QueryResult<Vec<DepthRow>> {
        let binds = (
            bind::<Text, _>(served_json(serves)?),
            bind::<BigInt, _>(now_ms()),
            bind::<BigInt, _>(at_most),
        );
        Sql(schema.render(DEPTHS), binds).load(self)
    }
}
