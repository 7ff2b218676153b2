use diesel::result::QueryResult;
use diesel::sql_types::{Array, Integer, Text, Uuid as SqlUuid};
use diesel::{PgConnection, RunQueryDsl};
use uuid::Uuid;

use crate::backend::{WorkerRow, WorkerStatements};
use crate::schema::Schema;
use crate::sql::{Sql, bind};

const SHOW_WORKER: &str = "
    INSERT INTO leasehold.workers (id, host, pid, threads, queues) VALUES ($1, $2, $3, $4, pg_catalog.array_to_json($5))
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

impl WorkerStatements for PgConnection {
    fn show_worker(&mut self, schema: &Schema, worker: &WorkerRow) -> QueryResult<usize> {
        let binds = (
            bind::<SqlUuid, _>(worker.id),
            bind::<Text, _>(worker.host.as_str()),
            bind::<Integer, _>(worker.pid),
            bind::<Integer, _>(worker.threads),
            bind::<Array<Text>, _>(worker.queues.as_slice()),
        );
        Sql(schema.render(SHOW_WORKER), binds).execute(self)
    }

    fn hide_worker(&mut self, schema: &Schema, id: Uuid) -> QueryResult<usize> {
        Sql(schema.render(HIDE_WORKER), (bind::<SqlUuid, _>(id),)).execute(self)
    }
}
