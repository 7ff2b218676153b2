//! Sweep.

use std::collections::BTreeMap;

use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Bool, Integer, Nullable, Text};
use diesel::{QueryableByName, RunQueryDsl, SqliteConnection};

use super::settle::{Ending, move_to_finished, record_errors};
use super::{json, now_ms, write};
use crate::backend::{AttemptError, SweepStatements, Swept};
use crate::schema::Schema;
use crate::sql::{Sql, bind};

/// Held rows, and the end that they had coming: a job that was asked to stop does not run again, and one that began and
/// has used up its attempts may be what kills its worker. A row at the end of its numbers is left out, for it would fail
/// the sweep of its neighbours.
const EXPIRED: &str = "
    SELECT id, queue, kind, attempt, generation, lease_token, begun, CASE
        WHEN cancel_requested_at IS NOT NULL THEN 'cancelled'
        WHEN begun AND attempt >= max_attempts THEN 'discarded'
        ELSE 'ready' END AS fate
    FROM leasehold_jobs INDEXED BY leasehold_jobs_held
    WHERE worker IS NOT NULL AND state = 'running' AND lease_until <= $1 AND generation < 9223372036854775806
        AND ($3 IS NULL OR id = $3)
    ORDER BY id LIMIT $2 + 0
";

const TAKE_BACK: &str = "
    UPDATE leasehold_jobs AS j SET state = 'ready', generation = j.generation + 1,
        attempt = CASE WHEN j.begun THEN j.attempt ELSE max(j.attempt - 1, 0) END,
        blocked_by = CASE WHEN j.limit_key IS NOT NULL AND j.begun THEN 'limit' END,
        lease_until = NULL, worker = NULL, begun = 0
    FROM json_each($1) AS f
    WHERE j.id = f.value->>0 AND j.generation = f.value->>1 AND j.lease_token = f.value->>2 AND j.state = 'running'
";

const SWEEP_KEYS: &str = "
    DELETE FROM leasehold_unique_keys WHERE key IN (
        SELECT key FROM leasehold_unique_keys WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2 + 0
    )
";

#[derive(QueryableByName)]
struct Expired {
    #[diesel(sql_type = BigInt)]
    id: i64,
    #[diesel(sql_type = Text)]
    queue: String,
    #[diesel(sql_type = Text)]
    kind: String,
    #[diesel(sql_type = Integer)]
    attempt: i32,
    #[diesel(sql_type = BigInt)]
    generation: i64,
    #[diesel(sql_type = Text)]
    lease_token: String,
    #[diesel(sql_type = Bool)]
    begun: bool,
    #[diesel(sql_type = Text)]
    fate: String,
}

impl SweepStatements for SqliteConnection {
    fn sweep(&mut self, schema: &Schema, limit: i64) -> QueryResult<Vec<Swept>> {
        sweep(self, schema, limit, None)
    }

    fn expired(&mut self, schema: &Schema, limit: i64) -> QueryResult<Vec<i64>> {
        let expired = expired(self, schema, now_ms(), limit, None)?;
        Ok(expired.into_iter().map(|row| row.id).collect())
    }

    fn sweep_one(&mut self, schema: &Schema, id: i64) -> QueryResult<Option<Swept>> {
        Ok(sweep(self, schema, 1, Some(id))?.pop())
    }

    fn sweep_keys(&mut self, schema: &Schema, limit: i64) -> QueryResult<usize> {
        write(self, |conn, now| {
            Sql(
                schema.render(SWEEP_KEYS),
                (bind::<BigInt, _>(now), bind::<BigInt, _>(limit)),
            )
            .execute(conn)
        })
    }
}

fn expired(
    conn: &mut SqliteConnection,
    schema: &Schema,
    now: i64,
    limit: i64,
    only: Option<i64>,
) -> QueryResult<Vec<Expired>> {
    let binds = (
        bind::<BigInt, _>(now),
        bind::<BigInt, _>(limit),
        bind::<Nullable<BigInt>, _>(only),
    );
    Sql(schema.render(EXPIRED), binds).load(conn)
}

/// Of all that have expired, or of one.
fn sweep(conn: &mut SqliteConnection, schema: &Schema, limit: i64, only: Option<i64>) -> QueryResult<Vec<Swept>> {
    write(conn, |conn, now| {
        let expired = expired(conn, schema, now, limit, only)?;
        let error = "the lease ran out without a heartbeat".to_owned();
        let error = AttemptError {
            cause: "lease expired",
            error,
        };
        record_errors(conn, schema, &fences_of(&expired, |row| row.begun)?, &error, now)?;
        for state in ["cancelled", "discarded"] {
            let ending = Ending {
                state,
                takes_away: true,
                reason: Some("lease expired"),
                strict: false,
            };
            let ended = expired.iter().filter(|row| row.fate == state);
            let fences = ended.map(|row| (row.id.to_string(), format!("{}.{}", row.generation, row.lease_token)));
            move_to_finished(conn, schema, &json(&fences.collect::<BTreeMap<_, _>>())?, &ending, now)?;
        }
        let ready = fences_of(&expired, |row| row.fate == "ready")?;
        Sql(schema.render(TAKE_BACK), (bind::<Text, _>(ready),)).execute(conn)?;
        Ok(expired.into_iter().map(Expired::swept).collect())
    })
}

impl Expired {
    fn swept(self) -> Swept {
        let given_back = i32::from(self.fate == "ready" && !self.begun);
        Swept {
            id: self.id,
            queue: self.queue,
            kind: self.kind,
            attempt: (self.attempt - given_back).max(0),
            generation: self.generation + 1,
            begun: self.begun,
            state: self.fate,
        }
    }
}

fn fences_of(rows: &[Expired], of: impl Fn(&Expired) -> bool) -> QueryResult<String> {
    json(
        &rows
            .iter()
            .filter(|row| of(row))
            .map(|row| (row.id, row.generation, &row.lease_token))
            .collect::<Vec<_>>(),
    )
}
