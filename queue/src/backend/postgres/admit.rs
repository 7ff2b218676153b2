use diesel::result::QueryResult;
use diesel::sql_types::{Array, BigInt, Bool, Integer, Nullable, Text};
use diesel::{PgConnection, QueryableByName, RunQueryDsl};

use super::bind_fences;
use crate::backend::{AdmitStatements, CountedKind, Keys, KindLimit, Room};
use crate::lease::Fence;
use crate::schema::Schema;
use crate::sql::{Id, Sql, bind};

/// The first key of the advisory lock; the second one is the hash of the schema's name. The bytes `Admi`.
const LOCK: i32 = 0x4164_6d69;

// To the transaction's end, so it works through a pooler. Not waited for: whoever has it is doing the same work.
const TRY_LOCK: &str = "SELECT pg_catalog.pg_try_advisory_xact_lock($1, pg_catalog.hashtext($2)) AS locked";

// With a limit, or the planner would join with all that is blocked.
const BLOCKED_KINDS: &str = "
    SELECT asked.kind FROM unnest($1) AS asked (kind) CROSS JOIN LATERAL (
        SELECT 1 FROM leasehold.jobs AS j WHERE j.kind = asked.kind AND j.blocked_by = 'limit' LIMIT 1
    ) AS one
    WHERE NOT EXISTS (SELECT 1 FROM leasehold.pauses WHERE scope = 'all')
      AND asked.kind <> ALL (ARRAY(SELECT name FROM leasehold.pauses WHERE scope = 'kind'))
    ORDER BY asked.kind
";

/// What is counted for each of `keys`: no further than the limit, by the entries of the key alone. `$1` kind, `$3` how many
/// may be admitted, `$4` and `$5` the rate, `$6` whether in turn; what is null does not count.
macro_rules! room {
    ($keys:literal) => {
        concat!(
            "WITH RECURSIVE ",
            $keys,
            "
            SELECT keys.limit_key, turn.id AS turn,
                CASE WHEN turn.scheduled THEN 0 ELSE
                    least($3 - held.jobs, $4 - starts.jobs - pending.jobs, 1000)
                END AS room,
                CASE WHEN starts.jobs + pending.jobs >= $4 THEN
                    greatest(0, pg_catalog.ceil(extract(epoch FROM
                        starts.first + $5 * INTERVAL '1 millisecond' - pg_catalog.clock_timestamp()) * 1000)::bigint)
                END AS next_ms
            FROM keys
            CROSS JOIN LATERAL (
                SELECT pg_catalog.count(*) AS jobs FROM (
                    SELECT 1 FROM leasehold.jobs AS j
                    WHERE j.kind = $1 AND j.limit_key = keys.limit_key AND j.blocked_by IS NULL AND NOT j.scheduled
                    LIMIT coalesce($3, 0)
                ) AS one
            ) AS held
            CROSS JOIN LATERAL (
                SELECT pg_catalog.count(*) AS jobs FROM (
                    SELECT 1 FROM leasehold.jobs AS j
                    WHERE j.kind = $1 AND j.limit_key = keys.limit_key AND j.blocked_by IS NULL AND NOT j.scheduled
                      AND NOT j.begun
                    LIMIT coalesce($4, 0)
                ) AS one
            ) AS pending
            CROSS JOIN LATERAL (
                SELECT pg_catalog.count(*) AS jobs, pg_catalog.min(one.at) AS first FROM (
                    SELECT s.at FROM leasehold.starts AS s
                    WHERE s.kind = $1 AND s.limit_key = keys.limit_key
                      AND s.at > (SELECT pg_catalog.clock_timestamp() - $5 * INTERVAL '1 millisecond')
                    ORDER BY s.at DESC LIMIT coalesce($4, 0)
                ) AS one
            ) AS starts
            LEFT JOIN LATERAL (
                SELECT j.id, j.scheduled FROM leasehold.jobs AS j
                WHERE j.kind = $1 AND j.limit_key = keys.limit_key AND j.state = 'ready' AND j.attempt > 0
                  AND j.blocked_by IS DISTINCT FROM 'jobs'
                ORDER BY j.id LIMIT $6::integer
            ) AS turn ON true
            ORDER BY keys.limit_key"
        )
    };
}

// From key to key in the index: the rows behind the first one of each key are not read.
const ROOM_AFTER: &str = room!(
    "keys (limit_key, place) AS (
        (SELECT j.limit_key, 1::bigint FROM leasehold.jobs AS j
         WHERE j.kind = $1 AND j.blocked_by = 'limit' AND j.limit_key > $2 ORDER BY j.limit_key LIMIT 1)
        UNION ALL
        SELECT following.limit_key, keys.place + 1 FROM keys CROSS JOIN LATERAL (
            SELECT j.limit_key FROM leasehold.jobs AS j
            WHERE j.kind = $1 AND j.blocked_by = 'limit' AND j.limit_key > keys.limit_key ORDER BY j.limit_key LIMIT 1
        ) AS following
        WHERE keys.place < $7
    )"
);

const ROOM_OF: &str = room!(
    "keys AS MATERIALIZED (
        SELECT given.limit_key FROM unnest($2) AS given (limit_key) CROSS JOIN LATERAL (
            SELECT 1 FROM leasehold.jobs AS j
            WHERE j.kind = $1 AND j.limit_key = given.limit_key AND j.blocked_by = 'limit' LIMIT 1
        ) AS one
    )"
);

// The first in order, whether somebody has locked them or not: were they stepped over, a job would run before its turn. The
// key is asked for again under the lock, for an edit may have changed it. That the job is blocked is asked for in a way that is
// in no index, and not again once it is locked: a planner might read all of `jobs_blocked` for it.
const ADMIT: &str = "
    WITH first AS MATERIALIZED (
        SELECT coalesce(given.turn, best.id) AS id, given.limit_key
        FROM unnest($2, $3, $4) AS given (limit_key, room, turn)
        CROSS JOIN LATERAL (
            SELECT j.id FROM leasehold.jobs AS j
            WHERE j.kind = $1 AND j.limit_key = given.limit_key AND j.blocked_by = 'limit'
            ORDER BY j.limit_rank DESC, j.id LIMIT given.room
        ) AS best
    )
    UPDATE leasehold.jobs AS j SET blocked_by = NULL
    WHERE j.id = ANY (ARRAY(
        SELECT mine.id FROM first CROSS JOIN LATERAL (
            SELECT l.id FROM leasehold.jobs AS l
            WHERE l.id = first.id AND l.limit_key = first.limit_key AND l.state = 'ready' AND coalesce(l.blocked_by, '') = 'limit'
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS mine
    )) AND j.state = 'ready'
";

const TELL_ADMITTED: &str = concat!("SELECT ", tell!("leasehold"));

const BEGIN_COUNTED: &str = concat!(
    "WITH ",
    locked!("FOR NO KEY UPDATE"),
    ",
    begun AS (
        UPDATE leasehold.jobs AS j SET begun = true WHERE ",
    under_the_fence!(),
    " RETURNING j.id, j.kind, j.limit_key, j.generation
    ),
    ",
    counted!(from: "begun", kinds: "$4", periods: "$5"),
    " SELECT id, ",
    durable!(),
    " FROM begun"
);

// The outer part does not name the expiry: it would let the planner read the whole index on it.
const SWEEP_STARTS: &str = "
    DELETE FROM leasehold.starts WHERE (kind, limit_key, at, job_id) IN (
        SELECT kind, limit_key, at, job_id FROM leasehold.starts
        WHERE expires_at <= (SELECT pg_catalog.clock_timestamp())
        ORDER BY expires_at LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED
    )
";

#[derive(QueryableByName)]
struct Locked {
    #[diesel(sql_type = Bool)]
    locked: bool,
}

#[derive(QueryableByName)]
struct Kind {
    #[diesel(sql_type = Text)]
    kind: String,
}

impl AdmitStatements for PgConnection {
    fn blocked_kinds(&mut self, schema: &Schema, kinds: &[&str]) -> QueryResult<Vec<String>> {
        let rows: Vec<Kind> = Sql(schema.render(BLOCKED_KINDS), (bind::<Array<Text>, _>(kinds),)).load(self)?;
        Ok(rows.into_iter().map(|row| row.kind).collect())
    }

    fn try_lock_admission(&mut self, schema: &Schema) -> QueryResult<bool> {
        let binds = (bind::<Integer, _>(LOCK), bind::<Text, _>(schema.name()));
        let row: Locked = Sql(TRY_LOCK, binds).get_result(self)?;
        Ok(row.locked)
    }

    fn room(&mut self, schema: &Schema, limit: &KindLimit, keys: Keys<'_>) -> QueryResult<Vec<Room>> {
        let kind = bind::<Text, _>(limit.kind.as_str());
        let max = bind::<Nullable<BigInt>, _>(limit.max);
        let rate = bind::<Nullable<BigInt>, _>(limit.rate.map(|rate| rate.max));
        let per = bind::<Nullable<BigInt>, _>(limit.rate.map(|rate| rate.per_ms));
        let serial = bind::<Bool, _>(limit.serial);
        match keys {
            Keys::After(key, at_most) => {
                let (key, at_most) = (bind::<Text, _>(key), bind::<BigInt, _>(at_most));
                Sql(schema.render(ROOM_AFTER), (kind, key, max, rate, per, serial, at_most)).load(self)
            }
            Keys::These(keys) => {
                let keys = bind::<Array<Text>, _>(keys);
                Sql(schema.render(ROOM_OF), (kind, keys, max, rate, per, serial)).load(self)
            }
        }
    }

    fn admit(&mut self, schema: &Schema, kind: &str, rooms: &[Room]) -> QueryResult<usize> {
        let keys: Vec<&str> = rooms.iter().map(|room| room.limit_key.as_str()).collect();
        let counts: Vec<i64> = rooms.iter().map(|room| room.room).collect();
        let turns: Vec<Option<i64>> = rooms.iter().map(|room| room.turn).collect();
        let binds = (
            bind::<Text, _>(kind),
            bind::<Array<Text>, _>(keys),
            bind::<Array<BigInt>, _>(counts),
            bind::<Array<Nullable<BigInt>>, _>(turns),
        );
        Sql(schema.render(ADMIT), binds).execute(self)
    }

    fn tell_admitted(&mut self, schema: &Schema) -> QueryResult<()> {
        Sql(schema.render(TELL_ADMITTED), ()).execute(self).map(drop)
    }

    fn begin_counted(&mut self, schema: &Schema, fences: &[Fence], counted: &[CountedKind]) -> QueryResult<Vec<i64>> {
        let (ids, generations, tokens) = bind_fences(fences);
        let kinds: Vec<&str> = counted.iter().map(|counted| counted.kind.as_str()).collect();
        let periods: Vec<i64> = counted.iter().map(|counted| counted.per_ms).collect();
        let (kinds, periods) = (bind::<Array<Text>, _>(kinds), bind::<Array<BigInt>, _>(periods));
        let begun: Vec<Id> =
            Sql(schema.render(BEGIN_COUNTED), (ids, generations, tokens, kinds, periods)).load(self)?;
        Ok(begun.into_iter().map(|row| row.id).collect())
    }

    fn sweep_starts(&mut self, schema: &Schema, limit: i64) -> QueryResult<usize> {
        Sql(schema.render(SWEEP_STARTS), (bind::<BigInt, _>(limit),)).execute(self)
    }
}
