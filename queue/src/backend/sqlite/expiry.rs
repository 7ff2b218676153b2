//! Discarding what has become too old to run.

use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Nullable, Text};
use diesel::{QueryableByName, RunQueryDsl, SqliteConnection};

use super::settle::{Moved, complete_move};
use super::{json, now_ms, write};
use crate::backend::{ExpiryStatements, Swept};
use crate::schema::Schema;
use crate::sql::{Id, Sql, bind};

/// A row at the end of its numbers is left out, for it would fail its neighbours.
const COPY_EXPIRED: &str = "
    INSERT OR REPLACE INTO leasehold_finished_jobs
        (id, queue, kind, version, payload, priority, run_at, attempt, max_attempts, lease_token, lease_ms,
         idempotency_key, unique_key, unique_states, limit_key, limit_rank, batch_id, created_at, state, generation, reason, finished_at)
    SELECT id, queue, kind, version, payload, priority, run_at, attempt, max_attempts, lease_token, lease_ms,
        idempotency_key, unique_key, unique_states, limit_key, limit_rank, batch_id, created_at, 'discarded', generation + 1, 'expired', $1
    FROM leasehold_jobs INDEXED BY leasehold_jobs_expires
    WHERE state = 'ready' AND expires_at IS NOT NULL AND expires_at <= $1 AND generation < 9223372036854775806
        AND ($3 IS NULL OR id = $3)
    ORDER BY expires_at LIMIT $2 + 0
    RETURNING id, unique_key, queue, kind, attempt, generation, state, false AS begun
";

/// Nobody owns such a row, so the copy made under the same write lock is presented.
const DELETE_EXPIRED: &str = "
    DELETE FROM leasehold_jobs AS j
    WHERE j.id IN (SELECT value FROM json_each($1)) AND j.state = 'ready' AND EXISTS (
        SELECT 1 FROM leasehold_finished_jobs AS copy
        WHERE copy.id = j.id AND copy.generation = j.generation + 1 AND copy.lease_token IS j.lease_token
    )
";

const EXPIRED_JOBS: &str = "
    SELECT id FROM leasehold_jobs INDEXED BY leasehold_jobs_expires
    WHERE state = 'ready' AND expires_at IS NOT NULL AND expires_at <= $1 ORDER BY expires_at LIMIT $2 + 0
";

#[derive(QueryableByName)]
struct Discarded {
    #[diesel(embed)]
    job: Swept,
    #[diesel(sql_type = Nullable<Text>)]
    unique_key: Option<String>,
}

impl ExpiryStatements for SqliteConnection {
    fn discard_expired(&mut self, schema: &Schema, limit: i64) -> QueryResult<Vec<Swept>> {
        discard(self, schema, limit, None)
    }

    fn expired_jobs(&mut self, schema: &Schema, limit: i64) -> QueryResult<Vec<i64>> {
        let binds = (bind::<BigInt, _>(now_ms()), bind::<BigInt, _>(limit));
        let ids: Vec<Id> = Sql(schema.render(EXPIRED_JOBS), binds).load(self)?;
        Ok(ids.into_iter().map(|row| row.id).collect())
    }

    fn discard_expired_one(&mut self, schema: &Schema, id: i64) -> QueryResult<Option<Swept>> {
        Ok(discard(self, schema, 1, Some(id))?.pop())
    }
}

/// Of all jobs, or of one.
fn discard(conn: &mut SqliteConnection, schema: &Schema, limit: i64, only: Option<i64>) -> QueryResult<Vec<Swept>> {
    write(conn, |conn, now| {
        let binds = (
            bind::<BigInt, _>(now),
            bind::<BigInt, _>(limit),
            bind::<Nullable<BigInt>, _>(only),
        );
        let copied: Vec<Discarded> = Sql(schema.render(COPY_EXPIRED), binds).load(conn)?;
        if copied.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<i64> = copied.iter().map(|row| row.job.id).collect();
        let deleted = Sql(schema.render(DELETE_EXPIRED), (bind::<Text, _>(json(&ids)?),)).execute(conn)?;
        let (jobs, moved) = copied.into_iter().map(Discarded::split).unzip();
        complete_move(conn, schema, moved, "discarded", deleted)?;
        Ok(jobs)
    })
}

impl Discarded {
    fn split(self) -> (Swept, Moved) {
        let id = self.job.id;
        let unique_key = self.unique_key;
        (self.job, Moved { id, unique_key })
    }
}
