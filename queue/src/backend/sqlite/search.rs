//! Looking for jobs.

use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Nullable, Text};
use diesel::{RunQueryDsl, SqliteConnection};

use super::{json, now_ms};
use crate::backend::{Matching, PlaceRow, SearchStatements, Stretch, SummaryRow};
use crate::schema::Schema;
use crate::sql::{Sql, bind};

const ALL: &str = "
    SELECT NULL AS at, id FROM (
        SELECT * FROM (SELECT id FROM leasehold_jobs WHERE id < $1 ORDER BY id DESC LIMIT $2 + 0)
        UNION ALL
        SELECT * FROM (SELECT id FROM leasehold_finished_jobs WHERE id < $1 ORDER BY id DESC LIMIT $2 + 0)
    ) ORDER BY id DESC LIMIT $2 + 0
";

const OPEN: &str = "SELECT NULL AS at, id FROM leasehold_jobs WHERE id < $1 ORDER BY id DESC LIMIT $2 + 0";

const HELD: &str = "
    SELECT NULL AS at, id FROM leasehold_jobs INDEXED BY leasehold_jobs_held WHERE worker IS NOT NULL AND id < $1
    ORDER BY id DESC LIMIT $2 + 0
";

const ENDED: &str = "
    SELECT finished_at AS at, id FROM leasehold_finished_jobs
    WHERE state = $3 AND (finished_at, id) < (coalesce($4, 9223372036854775807), $1)
    ORDER BY finished_at DESC, id DESC LIMIT $2 + 0
";

/// Those of a batch that ended in one state. The ids are in the index, too.
macro_rules! ended_of_batch {
    ($state:literal) => {
        concat!(
            "SELECT * FROM (SELECT id FROM leasehold_finished_jobs INDEXED BY leasehold_finished_jobs_batch
                WHERE ($4 IS NULL OR $4 = '",
            $state,
            "') AND batch_id = $3 AND state = '",
            $state,
            "' AND id < $1 ORDER BY id DESC LIMIT $2 + 0)"
        )
    };
}

const OF_BATCH: &str = concat!(
    "SELECT NULL AS at, id FROM (
        SELECT * FROM (SELECT id FROM leasehold_jobs INDEXED BY leasehold_jobs_batch
            WHERE ($4 IS NULL OR $4 = 'ready') AND batch_id = $3 AND id < $1 ORDER BY id DESC LIMIT $2 + 0)
        UNION ALL ",
    ended_of_batch!("completed"),
    " UNION ALL ",
    ended_of_batch!("discarded"),
    " UNION ALL ",
    ended_of_batch!("cancelled"),
    ") ORDER BY id DESC LIMIT $2 + 0"
);

const MATCHING: &str = concat!(
    "SELECT ",
    summary_columns!(),
    ", j.scheduled AS scheduled, j.blocked_by IS NOT NULL AS blocked, NULL AS finished_at_ms, NULL AS reason
    FROM json_each($7) AS asked CROSS JOIN leasehold_jobs AS j WHERE j.id = asked.value AND ",
    matching!("j.created_at", "$8"),
    " AND ($6 IS NULL OR ",
    failed_with!(),
    ")
    UNION ALL
    SELECT ",
    summary_columns!(),
    ", 0, 0, j.finished_at, j.reason
    FROM json_each($7) AS asked CROSS JOIN leasehold_finished_jobs AS j WHERE j.id = asked.value AND ",
    matching!("j.finished_at", "$8"),
    " AND ($6 IS NULL OR instr(j.reason, $6) > 0 OR ",
    failed_with!(),
    ")"
);

impl SearchStatements for SqliteConnection {
    fn stretch(&mut self, schema: &Schema, of: Stretch, before: PlaceRow, limit: i64) -> QueryResult<Vec<PlaceRow>> {
        let binds = (bind::<BigInt, _>(before.id), bind::<BigInt, _>(limit));
        match of {
            Stretch::All => Sql(schema.render(ALL), binds).load(self),
            Stretch::Open => Sql(schema.render(OPEN), binds).load(self),
            Stretch::Held => Sql(schema.render(HELD), binds).load(self),
            Stretch::Ended(state) => {
                let (id, limit) = binds;
                let binds = (
                    id,
                    limit,
                    bind::<Text, _>(state),
                    bind::<Nullable<BigInt>, _>(before.at),
                );
                Sql(schema.render(ENDED), binds).load(self)
            }
            Stretch::Batch(batch, state) => {
                let (id, limit) = binds;
                let binds = (id, limit, bind::<BigInt, _>(batch), bind::<Nullable<Text>, _>(state));
                Sql(schema.render(OF_BATCH), binds).load(self)
            }
        }
    }

    fn matching(&mut self, schema: &Schema, matching: &Matching, ids: &[i64]) -> QueryResult<Vec<SummaryRow>> {
        let binds = (
            bind::<Nullable<Text>, _>(matching.state),
            bind::<Nullable<Text>, _>(matching.kind.as_deref()),
            bind::<Nullable<Text>, _>(matching.queue.as_deref()),
            bind::<Nullable<BigInt>, _>(matching.batch_id),
            bind::<Nullable<BigInt>, _>(matching.older_than_ms),
            bind::<Nullable<Text>, _>(matching.error.as_deref()),
            bind::<Text, _>(json(ids)?),
            bind::<BigInt, _>(now_ms()),
        );
        Sql(schema.render(MATCHING), binds).load(self)
    }
}
