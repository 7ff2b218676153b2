//! The table of workers.

use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Integer, Text};
use diesel::{RunQueryDsl, SqliteConnection};
use uuid::Uuid;

use super::{json, write};
use crate::backend::{WorkerRow, WorkerStatements};
use crate::schema::Schema;
use crate::sql::{Sql, bind};

const SHOW_WORKER: &str = "
    INSERT INTO leasehold_workers (id, host, pid, threads, queues, started_at, heartbeat_at)
    VALUES ($1, $2, $3, $4, $5, $6, $6)
    ON CONFLICT (id) DO UPDATE SET heartbeat_at = excluded.heartbeat_at
";

const HIDE_WORKER: &str = "DELETE FROM leasehold_workers WHERE id = $1 OR heartbeat_at < $2 - 3600000";

impl WorkerStatements for SqliteConnection {
    fn show_worker(&mut self, schema: &Schema, worker: &WorkerRow) -> QueryResult<usize> {
        let queues = json(&worker.queues)?;
        write(self, |conn, now| {
            let binds = (
                bind::<Text, _>(worker.id.to_string()),
                bind::<Text, _>(&worker.host),
                bind::<Integer, _>(worker.pid),
                bind::<Integer, _>(worker.threads),
                bind::<Text, _>(queues),
                bind::<BigInt, _>(now),
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
}
