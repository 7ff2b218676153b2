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

/// What of a (queue, kind, version) is due.
macro_rules! due_of_served {
    () => {
        "j.queue = served.value->>0 AND j.kind = served.value->>1 AND j.version = served.value->>2 AND j.state = 'ready'
            AND j.scheduled = 0 AND j.blocked_by IS NULL"
    };
}

/// Counting a queue ends early; the first of each kind and version is looked at in any case.
const DEPTHS: &str = concat!(
    "SELECT queue, ready, coalesce(max($2 - min(oldest, coalesce(counted, oldest)), 0), 0) AS oldest_ms FROM (
        SELECT queues.queue AS queue, (
            SELECT count(*) FROM (
                SELECT 1 FROM json_each($1) AS served CROSS JOIN leasehold_jobs AS j
                WHERE served.value->>0 = queues.queue AND ",
    due_of_served!(),
    " LIMIT $3 + 0)
        ) AS ready, (
            SELECT min(run_at) FROM (
                SELECT j.run_at FROM json_each($1) AS served CROSS JOIN leasehold_jobs AS j
                WHERE served.value->>0 = queues.queue AND ",
    due_of_served!(),
    " LIMIT $3 + 0)
        ) AS counted, (
            SELECT min(head) FROM (
                SELECT (
                    SELECT j.run_at FROM leasehold_jobs AS j WHERE ",
    due_of_served!(),
    " ORDER BY j.priority DESC, j.run_at, j.id LIMIT 1
                ) AS head
                FROM json_each($1) AS served WHERE served.value->>0 = queues.queue
            )
        ) AS oldest
        FROM (SELECT DISTINCT given.value->>0 AS queue FROM json_each($1) AS given) AS queues
    )"
);

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
