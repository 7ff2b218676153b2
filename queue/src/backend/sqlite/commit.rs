//! The fenced completion, and what a row says of its ownership.

use diesel::connection::SimpleConnection;
use diesel::result::{Error, OptionalExtension, QueryResult};
use diesel::sql_types::BigInt;
use diesel::{RunQueryDsl, SqliteConnection};

use super::settle::{Ending, move_to_finished};
use super::{fences_by_id, now_ms};
use crate::backend::{CommitStatements, Completion, Ownership};
use crate::lease::Fence;
use crate::schema::Schema;
use crate::sql::{Sql, bind};

/// Under the write lock of its transaction, so nobody else is changing it.
const LOCK_OWNERSHIP: &str = "SELECT state, generation, lease_token FROM leasehold_jobs WHERE id = $1";

const OWNERSHIP: &str = "
    SELECT state, generation, lease_token FROM leasehold_jobs WHERE id = $1
    UNION ALL
    SELECT state, generation, lease_token FROM leasehold_finished_jobs WHERE id = $1
    LIMIT 1
";

/// Takes the mark of a commit away.
pub(super) const UNMARK: &str = "RELEASE leasehold_commit";

/// Whether the transaction of the commit is still the one that is open, once: the mark is taken away.
pub(super) fn is_marked(conn: &mut SqliteConnection) -> QueryResult<bool> {
    match conn.batch_execute(UNMARK) {
        Ok(()) => Ok(true),
        // Whatever ended the transaction took its mark along, even if another one was begun since.
        Err(Error::DatabaseError(_, info)) if info.message().contains("no such savepoint") => Ok(false),
        Err(error) => Err(error),
    }
}

impl CommitStatements for SqliteConnection {
    fn complete(&mut self, schema: &Schema, fence: &Fence, strict: bool) -> QueryResult<Completion> {
        if !is_marked(self)? {
            return Ok(Completion::Ended);
        }
        let completed = Ending {
            state: "completed",
            takes_away: false,
            reason: None,
            strict,
        };
        let moved = move_to_finished(self, schema, &fences_by_id(&[*fence]), &completed, now_ms())?;
        Ok(if moved.is_empty() {
            Completion::Refused
        } else {
            Completion::Completed
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
