use diesel::result::{OptionalExtension, QueryResult};
use diesel::sql_types::{BigInt, Bool, Uuid as SqlUuid};
use diesel::{PgConnection, QueryableByName, RunQueryDsl};

use crate::backend::{CommitStatements, Completion, Ownership};
use crate::lease::Fence;
use crate::schema::Schema;
use crate::sql::{Sql, bind};

/// The row is locked, and only the COMMIT is missing: if that never comes, the server frees the row in seconds, for neither the
/// sweep nor a worker that resolves a lost answer can do so. A test's transaction has no limit, and gets none.
macro_rules! hurried {
    () => {
        "pg_catalog.set_config('idle_in_transaction_session_timeout',
            CASE pg_catalog.current_setting('idle_in_transaction_session_timeout') WHEN '0' THEN '0' ELSE '5s' END, true)"
    };
}

// The mark is asked for in the same statement: after a raw COMMIT in the closure, the completion would pass in a
// transaction of its own, and the closure's writes would stand whatever becomes of it.
pub(super) const COMPLETE: &str = concat!(
    "WITH ended AS (
        DELETE FROM leasehold.jobs
        WHERE id = $1 AND generation = $2 AND lease_token = $3 AND state = 'running'
          AND pg_catalog.current_setting('in_commit.leasehold', true) = 'on'
        RETURNING *
    ),
    ",
    freed!(one: "4"),
    ", ",
    moved!(state: "'completed'", generation: "e.generation", reason: "NULL"),
    " SELECT id, ",
    hurried!(),
    " FROM moved"
);

// The clock is compared outside of the statement part that waits for the lock. In one WHERE with the fence it would be
// read before the wait, and not again unless the row has changed.
const COMPLETE_STRICTLY: &str = concat!(
    "WITH locked AS MATERIALIZED (
        SELECT id, lease_until FROM leasehold.jobs
        WHERE id = $1 AND generation = $2 AND lease_token = $3 AND state = 'running'
          AND pg_catalog.current_setting('in_commit.leasehold', true) = 'on'
        FOR NO KEY UPDATE
    ),
    ended AS (
        DELETE FROM leasehold.jobs AS j USING locked AS l
        WHERE j.id = $1 AND j.generation = $2 AND j.lease_token = $3 AND j.state = 'running'
          AND l.lease_until > pg_catalog.clock_timestamp()
        RETURNING j.*
    ),
    ",
    freed!(one: "4"),
    ", ",
    moved!(state: "'completed'", generation: "e.generation", reason: "NULL"),
    " SELECT id, ",
    hurried!(),
    " FROM moved"
);

const IS_MARKED: &str =
    "SELECT coalesce(pg_catalog.current_setting('in_commit.leasehold', true) = 'on', false) AS marked";

const LOCK_OWNERSHIP: &str = "
    SELECT state, generation, lease_token::pg_catalog.text FROM leasehold.jobs WHERE id = $1 FOR NO KEY UPDATE
";

const OWNERSHIP: &str = "
    SELECT state, generation, lease_token::pg_catalog.text FROM leasehold.jobs WHERE id = $1
    UNION ALL
    SELECT state, generation, lease_token::pg_catalog.text FROM leasehold.finished_jobs WHERE id = $1
    LIMIT 1
";

#[derive(QueryableByName)]
struct Mark {
    #[diesel(sql_type = Bool)]
    marked: bool,
}

/// Whether the transaction of the commit is still the one that is open.
pub(super) fn is_marked(conn: &mut PgConnection) -> QueryResult<bool> {
    let Mark { marked } = Sql(IS_MARKED, ()).get_result(conn)?;
    Ok(marked)
}

impl CommitStatements for PgConnection {
    fn complete(&mut self, schema: &Schema, fence: &Fence, strict: bool) -> QueryResult<Completion> {
        let text = if strict { COMPLETE_STRICTLY } else { COMPLETE };
        let binds = (
            bind::<BigInt, _>(fence.id),
            bind::<BigInt, _>(fence.generation),
            bind::<SqlUuid, _>(fence.lease_token),
        );
        if Sql(schema.render(text), binds).execute(self)? == 1 {
            return Ok(Completion::Completed);
        }
        Ok(if is_marked(self)? {
            Completion::Refused
        } else {
            Completion::Ended
        })
    }

    fn lock_ownership(&mut self, schema: &Schema, id: i64) -> QueryResult<Option<Ownership>> {
        Sql(schema.render(LOCK_OWNERSHIP), (bind::<BigInt, _>(id),))
            .get_result(self)
            .optional()
    }

    fn ownership(&mut self, schema: &Schema, id: i64) -> QueryResult<Option<Ownership>> {
        Sql(schema.render(OWNERSHIP), (bind::<BigInt, _>(id),))
            .get_result(self)
            .optional()
    }
}
