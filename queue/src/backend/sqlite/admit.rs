//! Limits let jobs through.

use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Bool, Nullable, Text};
use diesel::{QueryableByName, RunQueryDsl, SqliteConnection};

use super::{fences_json, json, now_ms, write};
use crate::backend::{AdmitStatements, CountedKind, Keys, KindLimit, LeaseStatements, Room};
use crate::lease::Fence;
use crate::schema::Schema;
use crate::sql::{Sql, bind};

const BLOCKED_KINDS: &str = "
    SELECT asked.value AS kind FROM json_each($1) AS asked
    WHERE EXISTS (SELECT 1 FROM leasehold_jobs WHERE kind = asked.value AND blocked_by = 'limit')
        AND NOT EXISTS (SELECT 1 FROM leasehold_pauses WHERE scope = 'all' OR scope = 'kind' AND name = asked.value)
    ORDER BY asked.value
";

/// What is counted for each of `keys`: no further than the limit, by the entries of the key alone. `$1` kind, `$3` how many
/// may be admitted, `$4` and `$5` the rate, `$6` whether in turn, `$7` now; what is null does not count.
macro_rules! room {
    ($keys:literal) => {
        concat!(
            "WITH RECURSIVE ",
            $keys,
            ",
            counted AS MATERIALIZED (
                SELECT limit_key,
                    (SELECT count(*) FROM (SELECT 1 FROM leasehold_jobs INDEXED BY leasehold_jobs_admitted
                        WHERE kind = $1 AND limit_key = keys.limit_key AND blocked_by IS NULL AND scheduled = 0
                        LIMIT coalesce($3, 0))) AS held,
                    (SELECT count(*) FROM (SELECT 1 FROM leasehold_jobs INDEXED BY leasehold_jobs_admitted
                        WHERE kind = $1 AND limit_key = keys.limit_key AND blocked_by IS NULL AND scheduled = 0 AND begun = 0
                        LIMIT coalesce($4, 0))) AS pending,
                    (SELECT json_array(count(*), min(at)) FROM (SELECT at FROM leasehold_starts
                        WHERE kind = $1 AND limit_key = keys.limit_key AND at > $7 - $5
                        ORDER BY at DESC LIMIT coalesce($4, 0))) AS starts,
                    (SELECT json_array(id, scheduled) FROM leasehold_jobs INDEXED BY leasehold_jobs_turn
                        WHERE kind = $1 AND limit_key = keys.limit_key AND state = 'ready' AND attempt > 0
                            AND blocked_by IS NOT 'jobs'
                        ORDER BY id LIMIT $6 + 0) AS turn
                FROM keys WHERE limit_key IS NOT NULL
            )
            SELECT limit_key, turn->>0 AS turn,
                CASE WHEN turn->>1 THEN 0 ELSE
                    min(coalesce($3 - held, 1000), coalesce($4 - (starts->>0) - pending, 1000), 1000)
                END AS room,
                CASE WHEN (starts->>0) + pending >= $4 THEN max((starts->>1) + $5 - $7, 0) END AS next_ms
            FROM counted ORDER BY limit_key"
        )
    };
}

/// From key to key in the index: the rows behind the first one of each key are not read.
const ROOM_AFTER: &str = room!(
    "keys (limit_key, place) AS (
        SELECT (SELECT limit_key FROM leasehold_jobs INDEXED BY leasehold_jobs_blocked
            WHERE kind = $1 AND blocked_by = 'limit' AND limit_key > $2 ORDER BY limit_key LIMIT 1), 1
        UNION ALL
        SELECT (SELECT limit_key FROM leasehold_jobs INDEXED BY leasehold_jobs_blocked
            WHERE kind = $1 AND blocked_by = 'limit' AND limit_key > keys.limit_key ORDER BY limit_key LIMIT 1), place + 1
        FROM keys WHERE limit_key IS NOT NULL AND place < $8
    )"
);

const ROOM_OF: &str = room!(
    "keys AS MATERIALIZED (
        SELECT given.value AS limit_key FROM json_each($2) AS given
        WHERE EXISTS (SELECT 1 FROM leasehold_jobs INDEXED BY leasehold_jobs_blocked
            WHERE kind = $1 AND limit_key = given.value AND blocked_by = 'limit')
    )"
);

/// Of one key: a limit cannot follow from the row beside it here.
const ADMIT: &str = "
    UPDATE leasehold_jobs SET blocked_by = NULL
    WHERE id IN (
        SELECT coalesce($4, id) FROM (
            SELECT id FROM leasehold_jobs INDEXED BY leasehold_jobs_blocked
            WHERE kind = $1 AND limit_key = $2 AND blocked_by = 'limit'
            ORDER BY limit_rank DESC, id LIMIT $3 + 0
        )
    ) AND state = 'ready' AND blocked_by = 'limit'
";

/// Of those that the same transaction has begun.
const COUNT_BEGUN: &str = "
    INSERT OR IGNORE INTO leasehold_starts (kind, limit_key, at, job_id, expires_at)
    SELECT j.kind, j.limit_key, $3, j.id, $3 + (c.value->>1)
    FROM json_each($1) AS f CROSS JOIN leasehold_jobs AS j
        ON j.id = f.value->>0 AND j.generation = f.value->>1 AND j.lease_token = f.value->>2 AND j.state = 'running'
    JOIN json_each($2) AS c ON j.kind = c.value->>0
    WHERE j.limit_key IS NOT NULL AND j.begun
";

const SWEEP_STARTS: &str = "
    DELETE FROM leasehold_starts WHERE (kind, limit_key, at, job_id) IN (
        SELECT kind, limit_key, at, job_id FROM leasehold_starts WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2 + 0
    )
";

#[derive(QueryableByName)]
struct Kind {
    #[diesel(sql_type = Text)]
    kind: String,
}

impl AdmitStatements for SqliteConnection {
    fn blocked_kinds(&mut self, schema: &Schema, kinds: &[&str]) -> QueryResult<Vec<String>> {
        let rows: Vec<Kind> = Sql(schema.render(BLOCKED_KINDS), (bind::<Text, _>(json(kinds)?),)).load(self)?;
        Ok(rows.into_iter().map(|row| row.kind).collect())
    }

    fn try_lock_admission(&mut self, _: &Schema) -> QueryResult<bool> {
        // Its transaction has the write lock.
        Ok(true)
    }

    fn room(&mut self, schema: &Schema, limit: &KindLimit, keys: Keys<'_>) -> QueryResult<Vec<Room>> {
        let kind = bind::<Text, _>(limit.kind.as_str());
        let max = bind::<Nullable<BigInt>, _>(limit.max);
        let rate = bind::<Nullable<BigInt>, _>(limit.rate.map(|rate| rate.max));
        let per = bind::<Nullable<BigInt>, _>(limit.rate.map(|rate| rate.per_ms));
        let serial = bind::<Bool, _>(limit.serial);
        let now = bind::<BigInt, _>(now_ms());
        match keys {
            Keys::After(key, at_most) => {
                let (key, at_most) = (bind::<Text, _>(key), bind::<BigInt, _>(at_most));
                Sql(
                    schema.render(ROOM_AFTER),
                    (kind, key, max, rate, per, serial, now, at_most),
                )
                .load(self)
            }
            Keys::These(keys) => {
                let keys = bind::<Text, _>(json(keys)?);
                Sql(schema.render(ROOM_OF), (kind, keys, max, rate, per, serial, now)).load(self)
            }
        }
    }

    fn admit(&mut self, schema: &Schema, kind: &str, rooms: &[Room]) -> QueryResult<usize> {
        let mut admitted = 0;
        for room in rooms {
            let binds = (
                bind::<Text, _>(kind),
                bind::<Text, _>(room.limit_key.as_str()),
                bind::<BigInt, _>(room.room),
                bind::<Nullable<BigInt>, _>(room.turn),
            );
            admitted += Sql(schema.render(ADMIT), binds).execute(self)?;
        }
        Ok(admitted)
    }

    fn tell_admitted(&mut self, _: &Schema) -> QueryResult<()> {
        // Other processes see that the database has changed.
        Ok(())
    }

    fn begin_counted(&mut self, schema: &Schema, fences: &[Fence], counted: &[CountedKind]) -> QueryResult<Vec<i64>> {
        write(self, |conn, now| {
            let begun = conn.begin(schema, fences)?;
            count_begun(conn, schema, fences, counted, now)?;
            Ok(begun)
        })
    }

    fn sweep_starts(&mut self, schema: &Schema, limit: i64) -> QueryResult<usize> {
        write(self, |conn, now| {
            Sql(
                schema.render(SWEEP_STARTS),
                (bind::<BigInt, _>(now), bind::<BigInt, _>(limit)),
            )
            .execute(conn)
        })
    }
}

/// Writes down the starts of those under `fences` that have begun, in the transaction that records that.
pub(super) fn count_begun(
    conn: &mut SqliteConnection,
    schema: &Schema,
    fences: &[Fence],
    counted: &[CountedKind],
    now: i64,
) -> QueryResult<()> {
    let counted: Vec<_> = counted.iter().map(|counted| (&counted.kind, counted.per_ms)).collect();
    let binds = (
        bind::<Text, _>(fences_json(fences)),
        bind::<Text, _>(json(&counted)?),
        bind::<BigInt, _>(now),
    );
    Sql(schema.render(COUNT_BEGUN), binds).execute(conn).map(drop)
}
