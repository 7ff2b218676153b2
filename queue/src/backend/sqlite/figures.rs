//! Figures for people.

use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Text};
use diesel::{QueryableByName, RunQueryDsl, SqliteConnection};

use super::{json, now_ms};
use crate::backend::{Buckets, EndedRow, FigureStatements, FinishedRow, QueueDepthRow, TallyRow, TookRow};
use crate::schema::Schema;
use crate::sql::{Sql, bind};

/// What the claim's index has.
macro_rules! due {
    () => {
        "j.state = 'ready' AND j.scheduled = 0 AND j.blocked_by IS NULL"
    };
}

/// From queue to queue in an index that begins with it.
macro_rules! walk {
    ($name:literal, $of:expr) => {
        concat!(
            $name,
            " (queue, place) AS (
                SELECT * FROM (SELECT j.queue, 1 FROM leasehold_jobs AS j WHERE ",
            $of,
            " ORDER BY j.queue LIMIT 1)
                UNION ALL
                SELECT (
                    SELECT j.queue FROM leasehold_jobs AS j WHERE ",
            $of,
            " AND j.queue > ",
            $name,
            ".queue ORDER BY j.queue LIMIT 1
                ), ",
            $name,
            ".place + 1
                FROM ",
            $name,
            " WHERE ",
            $name,
            ".place < $1 + 0 AND ",
            $name,
            ".queue IS NOT NULL
            )"
        )
    };
}

const QUEUE_NAMES: &str = concat!(
    "WITH RECURSIVE ",
    walk!("due", due!()),
    ", ",
    walk!("later", "j.scheduled = 1"),
    " SELECT queue AS name FROM (SELECT queue FROM due UNION SELECT queue FROM later)
    WHERE queue IS NOT NULL ORDER BY queue LIMIT $1 + 0"
);

/// The oldest by the first of each kind, version and priority, from one to the next in the claim's index.
const QUEUE_DEPTHS: &str = concat!(
    "SELECT asked.value AS queue,
        (SELECT count(*) FROM (SELECT 1 FROM leasehold_jobs AS j WHERE j.queue = asked.value AND ",
    due!(),
    " LIMIT $2 + 0)) AS ready,
        (SELECT count(*) FROM (SELECT 1 FROM leasehold_jobs AS j WHERE j.queue = asked.value AND j.scheduled = 1 LIMIT $2 + 0))
            AS scheduled,
        (
            WITH RECURSIVE heads (kind, version, priority, run_at, place) AS (
                SELECT * FROM (
                    SELECT j.kind, j.version, j.priority, j.run_at, 1 FROM leasehold_jobs AS j
                    WHERE j.queue = asked.value AND ",
    due!(),
    " ORDER BY j.kind, j.version, j.priority DESC, j.run_at, j.id LIMIT 1
                )
                UNION ALL
                SELECT n.kind, n.version, n.priority, n.run_at, heads.place + 1
                FROM heads CROSS JOIN leasehold_jobs AS n ON n.id = coalesce((
                    SELECT j.id FROM leasehold_jobs AS j
                    WHERE j.queue = asked.value AND j.kind = heads.kind AND j.version = heads.version
                      AND j.priority < heads.priority AND ",
    due!(),
    " ORDER BY j.priority DESC, j.run_at, j.id LIMIT 1
                ), (
                    SELECT j.id FROM leasehold_jobs AS j
                    WHERE j.queue = asked.value AND (j.kind, j.version) > (heads.kind, heads.version) AND ",
    due!(),
    " ORDER BY j.kind, j.version, j.priority DESC, j.run_at, j.id LIMIT 1
                ))
                WHERE heads.place < $3 + 0
            )
            SELECT $4 - min(run_at) FROM heads
        ) AS oldest_ms
    FROM json_each($1) AS asked"
);

const HELD_BY_QUEUE: &str = "
    SELECT queue AS name, count(*) AS jobs FROM (
        SELECT queue FROM leasehold_jobs INDEXED BY leasehold_jobs_held WHERE worker IS NOT NULL LIMIT $1 + 0
    ) GROUP BY queue
";

/// No index has the queue of what is blocked.
const BLOCKED_BY_QUEUE: &str = "
    SELECT queue AS name, count(*) AS jobs FROM (
        SELECT queue FROM leasehold_jobs INDEXED BY leasehold_jobs_blocked WHERE blocked_by = 'limit'
        UNION ALL
        SELECT queue FROM leasehold_jobs INDEXED BY leasehold_jobs_waiting WHERE blocked_by = 'jobs'
        LIMIT $1 + 0
    ) GROUP BY queue
";

const ENDED_BY_QUEUE: &str = "
    SELECT queue, state, count(*) AS jobs FROM (
        SELECT * FROM (SELECT queue, state FROM leasehold_finished_jobs INDEXED BY leasehold_finished_jobs_state
            WHERE state = 'completed' ORDER BY finished_at DESC, id DESC LIMIT $1 + 0)
        UNION ALL
        SELECT * FROM (SELECT queue, state FROM leasehold_finished_jobs INDEXED BY leasehold_finished_jobs_state
            WHERE state = 'discarded' ORDER BY finished_at DESC, id DESC LIMIT $1 + 0)
        UNION ALL
        SELECT * FROM (SELECT queue, state FROM leasehold_finished_jobs INDEXED BY leasehold_finished_jobs_state
            WHERE state = 'cancelled' ORDER BY finished_at DESC, id DESC LIMIT $1 + 0)
    ) GROUP BY queue, state
";

const OPEN_OF_BATCH: &str = "
    SELECT CASE WHEN scheduled THEN 'scheduled' WHEN blocked_by IS NOT NULL THEN 'blocked' ELSE state END AS name, count(*) AS jobs
    FROM (
        SELECT state, scheduled, blocked_by FROM leasehold_jobs INDEXED BY leasehold_jobs_batch WHERE batch_id = $1 LIMIT $2 + 0
    ) GROUP BY 1
";

/// The numbers of the buckets.
macro_rules! buckets {
    () => {
        "bucket (number) AS (SELECT 0 UNION ALL SELECT number + 1 FROM bucket WHERE number + 1 < $3 + 0)"
    };
}

const FINISHED_COUNTS: &str = concat!(
    "WITH RECURSIVE ",
    buckets!(),
    ", ended (state) AS (VALUES ('completed'), ('discarded'), ('cancelled'))
    SELECT bucket.number AS bucket, ended.state AS state, (SELECT count(*) FROM (
        SELECT 1 FROM leasehold_finished_jobs AS f
        WHERE f.state = ended.state AND f.finished_at >= $1 + bucket.number * $2 AND f.finished_at < $1 + (bucket.number + 1) * $2
        LIMIT $4 + 0
    )) AS jobs
    FROM bucket CROSS JOIN ended"
);

const FINISHED_TOOK: &str = concat!(
    "WITH RECURSIVE ",
    buckets!(),
    " SELECT bucket.number AS bucket, took.finished_at - took.run_at AS ms
    FROM bucket CROSS JOIN leasehold_finished_jobs AS took
    WHERE took.id IN (
        SELECT f.id FROM leasehold_finished_jobs AS f
        WHERE f.state = 'completed' AND f.finished_at >= $1 + bucket.number * $2 AND f.finished_at < $1 + (bucket.number + 1) * $2
        ORDER BY f.finished_at, f.id LIMIT $4 + 0
    )"
);

#[derive(QueryableByName)]
struct Name {
    #[diesel(sql_type = Text)]
    name: String,
}

impl FigureStatements for SqliteConnection {
    fn queue_names(&mut self, schema: &Schema, limit: i64) -> QueryResult<Vec<String>> {
        let names: Vec<Name> = Sql(schema.render(QUEUE_NAMES), (bind::<BigInt, _>(limit),)).load(self)?;
        Ok(names.into_iter().map(|row| row.name).collect())
    }

    fn queue_depths(
        &mut self,
        schema: &Schema,
        queues: &[String],
        at_most: i64,
        heads: i64,
    ) -> QueryResult<Vec<QueueDepthRow>> {
        let binds = (
            bind::<Text, _>(json(queues)?),
            bind::<BigInt, _>(at_most),
            bind::<BigInt, _>(heads),
            bind::<BigInt, _>(now_ms()),
        );
        Sql(schema.render(QUEUE_DEPTHS), binds).load(self)
    }

    fn held_by_queue(&mut self, schema: &Schema, at_most: i64) -> QueryResult<Vec<TallyRow>> {
        Sql(schema.render(HELD_BY_QUEUE), (bind::<BigInt, _>(at_most),)).load(self)
    }

    fn blocked_by_queue(&mut self, schema: &Schema, at_most: i64) -> QueryResult<Vec<TallyRow>> {
        Sql(schema.render(BLOCKED_BY_QUEUE), (bind::<BigInt, _>(at_most),)).load(self)
    }

    fn ended_by_queue(&mut self, schema: &Schema, at_most: i64) -> QueryResult<Vec<EndedRow>> {
        Sql(schema.render(ENDED_BY_QUEUE), (bind::<BigInt, _>(at_most),)).load(self)
    }

    fn open_of_batch(&mut self, schema: &Schema, batch: i64, at_most: i64) -> QueryResult<Vec<TallyRow>> {
        let binds = (bind::<BigInt, _>(batch), bind::<BigInt, _>(at_most));
        Sql(schema.render(OPEN_OF_BATCH), binds).load(self)
    }

    fn finished_counts(&mut self, schema: &Schema, buckets: Buckets, at_most: i64) -> QueryResult<Vec<FinishedRow>> {
        let binds = (
            bind::<BigInt, _>(buckets.from_ms),
            bind::<BigInt, _>(buckets.length_ms),
            bind::<BigInt, _>(buckets.count),
            bind::<BigInt, _>(at_most),
        );
        Sql(schema.render(FINISHED_COUNTS), binds).load(self)
    }

    fn finished_took(&mut self, schema: &Schema, buckets: Buckets, at_most: i64) -> QueryResult<Vec<TookRow>> {
        let binds = (
            bind::<BigInt, _>(buckets.from_ms),
            bind::<BigInt, _>(buckets.length_ms),
            bind::<BigInt, _>(buckets.count),
            bind::<BigInt, _>(at_most),
        );
        Sql(schema.render(FINISHED_TOOK), binds).load(self)
    }
}
