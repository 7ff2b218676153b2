use std::ops::RangeInclusive;

use diesel::result::{OptionalExtension, QueryResult};
use diesel::sql_types::{Array, BigInt, Nullable, Text};
use diesel::{PgConnection, RunQueryDsl};

use crate::backend::{BatchCountRow, BatchListRow, BatchLook, BatchRow, BatchStatements, NewBatch};
use crate::schema::Schema;
use crate::sql::{Id, Sql, bind};

/// The columns of a [`BatchRow`].
macro_rules! batch_columns {
    () => {
        "id, name, pg_catalog.floor(extract(epoch FROM created_at) * 1000)::bigint AS created_at_ms, done_job, discarded_job,
         pg_catalog.floor(extract(epoch FROM discarded_at) * 1000)::bigint AS discarded_at_ms,
         pg_catalog.floor(extract(epoch FROM cancelled_at) * 1000)::bigint AS cancelled_at_ms,
         pg_catalog.floor(extract(epoch FROM finished_at) * 1000)::bigint AS finished_at_ms"
    };
}

const INSERT_BATCH: &str = "
    INSERT INTO leasehold.batches (name, done_job, discarded_job) VALUES ($1, $2, $3) RETURNING id
";

// Adders share the row with each other; the check that finishes the batch takes it alone, and so waits for their commits.
const SHARE_BATCH: &str = concat!(
    "SELECT ",
    batch_columns!(),
    " FROM leasehold.batches WHERE id = $1 FOR SHARE"
);

const BATCH: &str = concat!("SELECT ", batch_columns!(), " FROM leasehold.batches WHERE id = $1");

const BATCHES_OF: &str = "
    SELECT DISTINCT batch_id AS id FROM leasehold.finished_jobs WHERE id = ANY ($1) AND batch_id IS NOT NULL
";

const BATCH_OF_CALLBACK: &str = concat!(
    "SELECT ",
    batch_columns!(),
    " FROM leasehold.batches WHERE done_job = $1
    UNION ALL
    SELECT ",
    batch_columns!(),
    " FROM leasehold.batches WHERE discarded_job = $1
    LIMIT 1"
);

// Finished jobs may be purged once their batch has finished, so it kept their numbers. One that runs again by
// hand is not its business any more.
const BATCH_COUNTS: &str = "
    WITH open AS (
        SELECT pg_catalog.count(*) FILTER (WHERE state = 'ready' AND NOT scheduled AND blocked_by IS NULL) AS ready,
            pg_catalog.count(*) FILTER (WHERE scheduled) AS scheduled,
            pg_catalog.count(*) FILTER (WHERE blocked_by IS NOT NULL) AS blocked,
            pg_catalog.count(*) FILTER (WHERE state = 'running') AS running
        FROM leasehold.jobs
        WHERE batch_id = $1 AND (SELECT finished_at FROM leasehold.batches WHERE id = $1) IS NULL
    )
    SELECT open.*, coalesce(b.completed, (
            SELECT pg_catalog.count(*) FROM leasehold.finished_jobs WHERE batch_id = $1 AND state = 'completed'
        )) AS completed, coalesce(b.discarded, (
            SELECT pg_catalog.count(*) FROM leasehold.finished_jobs WHERE batch_id = $1 AND state = 'discarded'
        )) AS discarded, coalesce(b.cancelled, (
            SELECT pg_catalog.count(*) FROM leasehold.finished_jobs WHERE batch_id = $1 AND state = 'cancelled'
        )) AS cancelled
    FROM open, leasehold.batches AS b WHERE b.id = $1
";

/// How many jobs of a batch ended in one state, up to a bound.
macro_rules! ended_in_batch {
    ($state:literal) => {
        concat!(
            "CASE WHEN b.finished_at IS NOT NULL THEN coalesce(b.",
            $state,
            ", 0) ELSE (SELECT pg_catalog.count(*) FROM (
                SELECT 1 FROM leasehold.finished_jobs AS f WHERE f.batch_id IS NOT NULL
                  AND (f.batch_id, f.state) >= (b.id, '",
            $state,
            "') AND (f.batch_id, f.state) <= (b.id, '",
            $state,
            "') ORDER BY f.batch_id, f.state, f.id LIMIT (SELECT $3)
            ) AS one) END AS ",
            $state
        )
    };
}

// Order and range are the index's: for an equality a planner that takes many jobs to be of the batch reads the table until it has
// found so many. The bound is a sub-select, so that no plan counts on having to read all that there is.
const LIST_BATCHES: &str = concat!(
    "SELECT ",
    batch_columns!(),
    ", (SELECT pg_catalog.count(*) FROM (
            SELECT 1 FROM leasehold.jobs AS j WHERE j.batch_id >= b.id AND j.batch_id <= b.id AND b.finished_at IS NULL
            ORDER BY j.batch_id, j.id LIMIT (SELECT $3)
        ) AS one) AS open, ",
    ended_in_batch!("completed"),
    ", ",
    ended_in_batch!("discarded"),
    ", ",
    ended_in_batch!("cancelled"),
    " FROM leasehold.batches AS b WHERE b.id < $1 ORDER BY b.id DESC LIMIT $2"
);

// Scalar sub-selects, which stay look-ups in an index whatever the planner thinks of the tables.
const LOOK_AT_BATCHES: &str = "
    SELECT b.id, (SELECT 1 FROM leasehold.jobs AS j WHERE j.batch_id = b.id LIMIT 1) IS NOT NULL AS open,
        b.discarded_at IS NULL AND (
            SELECT 1 FROM leasehold.finished_jobs AS f WHERE f.batch_id = b.id AND f.state = 'discarded' LIMIT 1
        ) IS NOT NULL AS discarded
    FROM leasehold.batches AS b WHERE b.finished_at IS NULL AND b.id BETWEEN $1 AND $2 ORDER BY b.id LIMIT $3
";

const LOCK_BATCH: &str = concat!(
    "SELECT ",
    batch_columns!(),
    " FROM leasehold.batches WHERE id = $1 AND finished_at IS NULL FOR NO KEY UPDATE SKIP LOCKED"
);

const MARK_BATCH_DISCARDED: &str = "
    UPDATE leasehold.batches SET discarded_at = pg_catalog.clock_timestamp() WHERE id = $1 AND discarded_at IS NULL
";

const FINISH_BATCH: &str = "
    UPDATE leasehold.batches SET finished_at = pg_catalog.clock_timestamp(),
        completed = (SELECT pg_catalog.count(*) FROM leasehold.finished_jobs WHERE batch_id = $1 AND state = 'completed'),
        discarded = (SELECT pg_catalog.count(*) FROM leasehold.finished_jobs WHERE batch_id = $1 AND state = 'discarded'),
        cancelled = (SELECT pg_catalog.count(*) FROM leasehold.finished_jobs WHERE batch_id = $1 AND state = 'cancelled')
    WHERE id = $1 AND finished_at IS NULL
";

const CANCEL_BATCH: &str = "
    UPDATE leasehold.batches SET cancelled_at = coalesce(cancelled_at, pg_catalog.clock_timestamp())
    WHERE id = $1 AND finished_at IS NULL
";

const SWEEP_BATCHES: &str = "
    DELETE FROM leasehold.batches WHERE id = ANY (ARRAY(
        SELECT id FROM leasehold.batches
        WHERE finished_at IS NOT NULL
          AND finished_at <= (SELECT pg_catalog.clock_timestamp()) - $1 * INTERVAL '1 millisecond'
        ORDER BY finished_at LIMIT $2 FOR UPDATE SKIP LOCKED
    ))
";

const OPEN_IN_BATCH: &str = "
    SELECT id FROM leasehold.jobs WHERE batch_id = $1 AND id > $2 ORDER BY id LIMIT $3
";

impl BatchStatements for PgConnection {
    fn insert_batch(&mut self, schema: &Schema, batch: &NewBatch) -> QueryResult<i64> {
        let binds = (
            bind::<Text, _>(batch.name.as_str()),
            bind::<Nullable<BigInt>, _>(batch.done_job),
            bind::<Nullable<BigInt>, _>(batch.discarded_job),
        );
        let row: Id = Sql(schema.render(INSERT_BATCH), binds).get_result(self)?;
        Ok(row.id)
    }

    fn share_batch(&mut self, schema: &Schema, id: i64) -> QueryResult<Option<BatchRow>> {
        let sql = Sql(schema.render(SHARE_BATCH), (bind::<BigInt, _>(id),));
        sql.get_result(self).optional()
    }

    fn batch(&mut self, schema: &Schema, id: i64) -> QueryResult<Option<BatchRow>> {
        let sql = Sql(schema.render(BATCH), (bind::<BigInt, _>(id),));
        sql.get_result(self).optional()
    }

    fn batches_of(&mut self, schema: &Schema, ended: &[i64]) -> QueryResult<Vec<i64>> {
        let ids: Vec<Id> = Sql(schema.render(BATCHES_OF), (bind::<Array<BigInt>, _>(ended),)).load(self)?;
        Ok(ids.into_iter().map(|row| row.id).collect())
    }

    fn batch_of_callback(&mut self, schema: &Schema, job_id: i64) -> QueryResult<Option<BatchRow>> {
        let sql = Sql(schema.render(BATCH_OF_CALLBACK), (bind::<BigInt, _>(job_id),));
        sql.get_result(self).optional()
    }

    fn batch_counts(&mut self, schema: &Schema, id: i64) -> QueryResult<BatchCountRow> {
        Sql(schema.render(BATCH_COUNTS), (bind::<BigInt, _>(id),)).get_result(self)
    }

    fn list_batches(
        &mut self,
        schema: &Schema,
        before: i64,
        limit: i64,
        at_most: i64,
    ) -> QueryResult<Vec<BatchListRow>> {
        let binds = (
            bind::<BigInt, _>(before),
            bind::<BigInt, _>(limit),
            bind::<BigInt, _>(at_most),
        );
        Sql(schema.render(LIST_BATCHES), binds).load(self)
    }

    fn look_at_batches(
        &mut self,
        schema: &Schema,
        ids: RangeInclusive<i64>,
        limit: i64,
    ) -> QueryResult<Vec<BatchLook>> {
        let binds = (
            bind::<BigInt, _>(*ids.start()),
            bind::<BigInt, _>(*ids.end()),
            bind::<BigInt, _>(limit),
        );
        Sql(schema.render(LOOK_AT_BATCHES), binds).load(self)
    }

    fn lock_batch(&mut self, schema: &Schema, id: i64) -> QueryResult<Option<BatchRow>> {
        let sql = Sql(schema.render(LOCK_BATCH), (bind::<BigInt, _>(id),));
        sql.get_result(self).optional()
    }

    fn mark_batch_discarded(&mut self, schema: &Schema, id: i64) -> QueryResult<usize> {
        Sql(schema.render(MARK_BATCH_DISCARDED), (bind::<BigInt, _>(id),)).execute(self)
    }

    fn finish_batch(&mut self, schema: &Schema, id: i64) -> QueryResult<usize> {
        Sql(schema.render(FINISH_BATCH), (bind::<BigInt, _>(id),)).execute(self)
    }

    fn cancel_batch(&mut self, schema: &Schema, id: i64) -> QueryResult<usize> {
        Sql(schema.render(CANCEL_BATCH), (bind::<BigInt, _>(id),)).execute(self)
    }

    fn sweep_batches(&mut self, schema: &Schema, older_than_ms: i64, limit: i64) -> QueryResult<usize> {
        let binds = (bind::<BigInt, _>(older_than_ms), bind::<BigInt, _>(limit));
        Sql(schema.render(SWEEP_BATCHES), binds).execute(self)
    }

    fn open_in_batch(&mut self, schema: &Schema, id: i64, after: i64, limit: i64) -> QueryResult<Vec<i64>> {
        let binds = (
            bind::<BigInt, _>(id),
            bind::<BigInt, _>(after),
            bind::<BigInt, _>(limit),
        );
        let ids: Vec<Id> = Sql(schema.render(OPEN_IN_BATCH), binds).load(self)?;
        Ok(ids.into_iter().map(|row| row.id).collect())
    }
}
