use diesel::result::QueryResult;
use diesel::sql_types::{Array, BigInt, Text};
use diesel::{PgConnection, QueryableByName, RunQueryDsl};

use crate::backend::{Buckets, EndedRow, FigureStatements, FinishedRow, QueueDepthRow, TallyRow, TookRow};
use crate::schema::Schema;
use crate::sql::{Sql, bind};

/// What the claim's index has.
macro_rules! due {
    () => {
        "j.state = 'ready' AND NOT j.scheduled AND j.blocked_by IS NULL"
    };
}

/// From queue to queue in an index that begins with it.
macro_rules! walk {
    ($name:literal, $of:expr) => {
        concat!(
            $name,
            " (queue, place) AS (
                (SELECT j.queue, 1 FROM leasehold.jobs AS j WHERE ",
            $of,
            " ORDER BY j.queue LIMIT 1)
                UNION ALL
                SELECT following.queue, ",
            $name,
            ".place + 1 FROM ",
            $name,
            " CROSS JOIN LATERAL (
                    SELECT j.queue FROM leasehold.jobs AS j WHERE ",
            $of,
            " AND j.queue > ",
            $name,
            ".queue ORDER BY j.queue LIMIT 1
                ) AS following
                WHERE ",
            $name,
            ".place < $1
            )"
        )
    };
}

const QUEUE_NAMES: &str = concat!(
    "WITH RECURSIVE ",
    walk!("due", due!()),
    ", ",
    walk!("later", "j.scheduled"),
    " SELECT queue AS name FROM (SELECT queue FROM due UNION SELECT queue FROM later) AS queues ORDER BY queue LIMIT $1"
);

// The oldest by the first of each kind, version and priority, from one to the next in the claim's index. The order of the index
// is named, so that no plan reads the table; for a count not so far that the index alone no longer does.
const QUEUE_DEPTHS: &str = concat!(
    "SELECT asked.queue, ready.jobs AS ready, later.jobs AS scheduled, (
        WITH RECURSIVE heads (kind, version, rank, run_at, place) AS (
            (SELECT j.kind, j.version, -j.priority::pg_catalog.int4, j.run_at, 1 FROM leasehold.jobs AS j
             WHERE j.queue = asked.queue AND ",
    due!(),
    " ORDER BY j.kind, j.version, -j.priority::pg_catalog.int4, j.run_at, j.id LIMIT 1)
            UNION ALL
            SELECT following.*, heads.place + 1 FROM heads CROSS JOIN LATERAL (
                SELECT j.kind, j.version, -j.priority::pg_catalog.int4, j.run_at FROM leasehold.jobs AS j
                WHERE j.queue = asked.queue AND ",
    due!(),
    " AND (j.kind, j.version, -j.priority::pg_catalog.int4) > (heads.kind, heads.version, heads.rank)
                ORDER BY j.kind, j.version, -j.priority::pg_catalog.int4, j.run_at, j.id LIMIT 1
            ) AS following
            WHERE heads.place < $3
        )
        SELECT pg_catalog.floor(extract(epoch FROM pg_catalog.clock_timestamp() - pg_catalog.min(run_at)) * 1000)::bigint FROM heads
    ) AS oldest_ms
    FROM unnest($1) AS asked (queue)
    CROSS JOIN LATERAL (SELECT pg_catalog.count(*) AS jobs FROM (
        SELECT 1 FROM leasehold.jobs AS j WHERE j.queue = asked.queue AND ",
    due!(),
    " ORDER BY j.kind, j.version LIMIT (SELECT $2)
    ) AS one) AS ready
    CROSS JOIN LATERAL (SELECT pg_catalog.count(*) AS jobs FROM (
        SELECT 1 FROM leasehold.jobs AS j WHERE j.queue = asked.queue AND j.scheduled
        ORDER BY j.kind, j.version, j.run_at LIMIT (SELECT $2)
    ) AS one) AS later"
);

const HELD_BY_QUEUE: &str = "
    SELECT queue AS name, pg_catalog.count(*) AS jobs FROM (
        SELECT j.queue FROM leasehold.jobs AS j WHERE j.worker IS NOT NULL ORDER BY j.id LIMIT $1
    ) AS held GROUP BY queue
";

// No index has the queue of what is blocked.
const BLOCKED_BY_QUEUE: &str = "
    SELECT queue AS name, pg_catalog.count(*) AS jobs FROM (
        (SELECT j.queue FROM leasehold.jobs AS j WHERE j.blocked_by = 'limit'
         ORDER BY j.kind, j.limit_key, j.limit_rank DESC, j.id LIMIT $1)
        UNION ALL
        (SELECT j.queue FROM leasehold.jobs AS j WHERE j.blocked_by = 'jobs' ORDER BY j.kind, j.id LIMIT $1)
        LIMIT $1
    ) AS blocked GROUP BY queue
";

const ENDED_BY_QUEUE: &str = "
    SELECT newest.queue, ended.state, pg_catalog.count(*) AS jobs
    FROM (VALUES ('completed'), ('discarded'), ('cancelled')) AS ended (state)
    CROSS JOIN LATERAL (
        SELECT f.queue FROM leasehold.finished_jobs AS f WHERE f.state = ended.state
        ORDER BY f.state DESC, f.finished_at DESC, f.id DESC LIMIT $1
    ) AS newest GROUP BY newest.queue, ended.state
";

// As in the list of batches: order and range of the index, and a bound that no plan counts on.
const OPEN_OF_BATCH: &str = "
    SELECT CASE WHEN scheduled THEN 'scheduled' WHEN blocked_by IS NOT NULL THEN 'blocked' ELSE state END AS name,
        pg_catalog.count(*) AS jobs
    FROM (
        SELECT j.state, j.scheduled, j.blocked_by FROM leasehold.jobs AS j
        WHERE j.batch_id >= $1 AND j.batch_id <= $1 ORDER BY j.batch_id, j.id LIMIT (SELECT $2)
    ) AS open GROUP BY 1
";

/// When a bucket begins, by its number.
macro_rules! begins {
    ($number:literal) => {
        concat!(
            "TIMESTAMPTZ 'epoch' + ($1 + ",
            $number,
            " * $2) * INTERVAL '1 millisecond'"
        )
    };
}

const FINISHED_COUNTS: &str = concat!(
    "SELECT bucket.number AS bucket, ended.state, counted.jobs
    FROM pg_catalog.generate_series(0, $3 - 1) AS bucket (number)
    CROSS JOIN (VALUES ('completed'), ('discarded'), ('cancelled')) AS ended (state)
    CROSS JOIN LATERAL (SELECT pg_catalog.count(*) AS jobs FROM (
        SELECT 1 FROM leasehold.finished_jobs AS f
        WHERE f.state = ended.state AND f.finished_at >= ",
    begins!("bucket.number"),
    " AND f.finished_at < ",
    begins!("(bucket.number + 1)"),
    " ORDER BY f.state, f.finished_at, f.id LIMIT $4
    ) AS one) AS counted
    WHERE counted.jobs > 0"
);

const FINISHED_TOOK: &str = concat!(
    "SELECT bucket.number AS bucket, first.ms
    FROM pg_catalog.generate_series(0, $3 - 1) AS bucket (number)
    CROSS JOIN LATERAL (
        SELECT pg_catalog.floor(extract(epoch FROM f.finished_at - f.run_at) * 1000)::bigint AS ms
        FROM leasehold.finished_jobs AS f
        WHERE f.state = 'completed' AND f.finished_at >= ",
    begins!("bucket.number"),
    " AND f.finished_at < ",
    begins!("(bucket.number + 1)"),
    " ORDER BY f.state, f.finished_at, f.id LIMIT $4
    ) AS first"
);

#[derive(QueryableByName)]
struct Name {
    #[diesel(sql_type = Text)]
    name: String,
}

impl FigureStatements for PgConnection {
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
            bind::<Array<Text>, _>(queues),
            bind::<BigInt, _>(at_most),
            bind::<BigInt, _>(heads),
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
