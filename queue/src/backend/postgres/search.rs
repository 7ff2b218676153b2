use diesel::result::QueryResult;
use diesel::sql_types::{Array, BigInt, Nullable, Text};
use diesel::{PgConnection, RunQueryDsl};

use crate::backend::{Matching, PlaceRow, SearchStatements, Stretch, SummaryRow};
use crate::schema::Schema;
use crate::sql::{Sql, bind};

const ALL: &str = "
    SELECT NULL::bigint AS at, id FROM (
        (SELECT j.id FROM leasehold.jobs AS j WHERE j.id < $1 ORDER BY j.id DESC LIMIT $2)
        UNION ALL
        (SELECT f.id FROM leasehold.finished_jobs AS f WHERE f.id < $1 ORDER BY f.id DESC LIMIT $2)
    ) AS both_tables ORDER BY id DESC LIMIT $2
";

const OPEN: &str = "
    SELECT NULL::bigint AS at, j.id FROM leasehold.jobs AS j WHERE j.id < $1 ORDER BY j.id DESC LIMIT $2
";

// `id + 0` is in no index, so that the few that are held are read.
const HELD: &str = "
    SELECT NULL::bigint AS at, j.id FROM leasehold.jobs AS j WHERE j.worker IS NOT NULL AND j.id + 0 < $1
    ORDER BY j.id DESC LIMIT $2
";

const ENDED: &str = "
    SELECT pg_catalog.round(extract(epoch FROM f.finished_at) * 1000000)::bigint AS at, f.id FROM leasehold.finished_jobs AS f
    WHERE f.state = $3
      AND (f.finished_at, f.id) < (TIMESTAMPTZ 'epoch' + coalesce($4, 253402300799000000) * INTERVAL '1 microsecond', $1)
    ORDER BY f.finished_at DESC, f.id DESC LIMIT $2
";

/// Those of a batch that ended in one state. Order and range are the index's: for an equality a planner may walk the other one.
macro_rules! ended_of_batch {
    ($state:literal) => {
        concat!(
            "(SELECT f.id FROM leasehold.finished_jobs AS f
             WHERE ($4 IS NULL OR $4 = '",
            $state,
            "') AND f.batch_id IS NOT NULL AND (f.batch_id, f.state, f.id) < ($3, '",
            $state,
            "', $1) AND (f.batch_id, f.state) >= ($3, '",
            $state,
            "') ORDER BY f.batch_id DESC, f.state DESC, f.id DESC LIMIT $2)"
        )
    };
}

const OF_BATCH: &str = concat!(
    "SELECT NULL::bigint AS at, id FROM (
        (SELECT j.id FROM leasehold.jobs AS j
         WHERE ($4 IS NULL OR $4 = 'ready') AND j.batch_id IS NOT NULL AND (j.batch_id, j.id) < ($3, $1) AND j.batch_id >= $3
         ORDER BY j.batch_id DESC, j.id DESC LIMIT $2)
        UNION ALL ",
    ended_of_batch!("completed"),
    " UNION ALL ",
    ended_of_batch!("discarded"),
    " UNION ALL ",
    ended_of_batch!("cancelled"),
    ") AS of_batch ORDER BY id DESC LIMIT $2"
);

const MATCHING: &str = concat!(
    "SELECT one.* FROM unnest($7) AS asked (id) CROSS JOIN LATERAL (
        SELECT ",
    summary_columns!(),
    ", scheduled, blocked_by IS NOT NULL AS blocked, NULL::bigint AS finished_at_ms, NULL::pg_catalog.text AS reason
        FROM leasehold.jobs AS j WHERE j.id = asked.id AND ",
    matching!("j.created_at"),
    " AND ($6 IS NULL OR ",
    failed_with!(),
    ")
        UNION ALL
        SELECT ",
    summary_columns!(),
    ", false, false, pg_catalog.floor(extract(epoch FROM finished_at) * 1000)::bigint, reason
        FROM leasehold.finished_jobs AS j WHERE j.id = asked.id AND ",
    matching!("j.finished_at"),
    " AND ($6 IS NULL OR pg_catalog.strpos(j.reason, $6) > 0 OR ",
    failed_with!(),
    ")
        LIMIT 1
    ) AS one"
);

impl SearchStatements for PgConnection {
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
            bind::<Array<BigInt>, _>(ids),
        );
        Sql(schema.render(MATCHING), binds).load(self)
    }
}
