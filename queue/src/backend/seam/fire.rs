//! Schedules fire. What is between [`FireStatements::due_schedules`] and [`FireStatements::advance`] is one transaction.

use diesel::QueryableByName;
use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Bool, Nullable, Text};

use super::ScheduleRow;
use crate::schema::Schema;

/// A schedule at one of its fire times, in milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Hash, QueryableByName)]
pub struct Fire {
    #[diesel(sql_type = Text)]
    pub schedule: String,
    #[diesel(sql_type = BigInt)]
    pub fire_at_ms: i64,
}

/// How a schedule goes on after it fired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advance {
    pub name: String,
    pub revision: i64,
    /// As it was read under the lock.
    pub was_at_ms: i64,
    pub next_at_ms: i64,
    /// The newest fire time so far, whether it was fired or skipped.
    pub last_at_ms: Option<i64>,
}

/// When to look again.
#[derive(Debug, Clone, Copy, Default, QueryableByName)]
pub struct Ahead {
    /// Whether a schedule is due now.
    #[diesel(sql_type = Bool)]
    pub is_due: bool,
    /// Milliseconds until the next one that is not due yet.
    #[diesel(sql_type = Nullable<BigInt>)]
    pub next_ms: Option<i64>,
}

pub trait FireStatements {
    /// What is due and when more will be. Locks nothing.
    fn fires_ahead(&mut self, schema: &Schema) -> QueryResult<Ahead>;

    /// Locks schedules that are due, by name from behind `after` on, `limit` at the most, those that nobody else has locked.
    fn due_schedules(&mut self, schema: &Schema, after: &str, limit: i64) -> QueryResult<Vec<ScheduleRow>>;

    /// Which of `fires` have been fired before.
    fn fired(&mut self, schema: &Schema, fires: &[Fire]) -> QueryResult<Vec<Fire>>;

    /// Records fires with their jobs. One that is recorded already is an error: nothing may be fired twice.
    fn add_fires(&mut self, schema: &Schema, fires: &[(Fire, i64)]) -> QueryResult<usize>;

    /// Moves schedules on that are as they were read.
    fn advance(&mut self, schema: &Schema, steps: &[Advance]) -> QueryResult<usize>;

    /// Removes records of fires that are older than this, `limit` at the most.
    fn sweep_fires(&mut self, schema: &Schema, older_than_ms: i64, limit: i64) -> QueryResult<usize>;
}
