//! Cron schedules: how they are kept.

use diesel::QueryableByName;
use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Bool, Integer, Nullable, Text};

use crate::schema::Schema;

/// What a schedule says, as it is stored. Checked before it gets here.
#[derive(Debug, Clone, PartialEq, Eq, QueryableByName)]
pub struct ScheduleDefinition {
    #[diesel(sql_type = Text)]
    pub name: String,
    #[diesel(sql_type = Text)]
    pub cron: String,
    /// A name of the IANA database.
    #[diesel(sql_type = Text)]
    pub zone: String,
    /// What becomes of missed fire times: `skip`, `run once` or `run all(10)`.
    #[diesel(sql_type = Text)]
    pub missed: String,
    #[diesel(sql_type = Text)]
    pub kind: String,
    #[diesel(sql_type = Integer)]
    pub version: i32,
    #[diesel(sql_type = Text)]
    pub payload: String,
    #[diesel(sql_type = Text)]
    pub queue: String,
    #[diesel(sql_type = Integer)]
    pub priority: i32,
    #[diesel(sql_type = Integer)]
    pub max_attempts: i32,
    #[diesel(sql_type = BigInt)]
    pub lease_ms: i64,
    /// What else an enqueue is told, as JSON.
    #[diesel(sql_type = Text)]
    pub options: String,
}

/// One schedule.
#[derive(Debug, Clone, QueryableByName)]
pub struct ScheduleRow {
    #[diesel(embed)]
    pub definition: ScheduleDefinition,
    /// The next fire time, in milliseconds since 1970.
    #[diesel(sql_type = BigInt)]
    pub next_at_ms: i64,
    /// The last one that was fired.
    #[diesel(sql_type = Nullable<BigInt>)]
    pub last_at_ms: Option<i64>,
    #[diesel(sql_type = Bool)]
    pub paused: bool,
    /// `code` or `run time`.
    #[diesel(sql_type = Text)]
    pub defined_by: String,
    /// Grows with every change by hand or by code, and stays when it fires.
    #[diesel(sql_type = BigInt)]
    pub revision: i64,
    /// The database's clock when the row was read.
    #[diesel(sql_type = BigInt)]
    pub now_ms: i64,
}

pub trait ScheduleStatements {
    /// The database's clock, in milliseconds since 1970.
    fn clock(&mut self) -> QueryResult<i64>;

    /// All schedules, by name.
    fn schedules(&mut self, schema: &Schema) -> QueryResult<Vec<ScheduleRow>>;

    /// The schedule of this name.
    fn schedule(&mut self, schema: &Schema, name: &str) -> QueryResult<Option<ScheduleRow>>;

    /// Adds a schedule, unless there is one of this name.
    fn add_schedule(
        &mut self,
        schema: &Schema,
        definition: &ScheduleDefinition,
        defined_by: &str,
        next_at_ms: i64,
    ) -> QueryResult<usize>;

    /// Gives the schedule of that name another definition, unless its revision is another one; without `next_at_ms` its
    /// next fire time stays.
    fn replace_schedule(
        &mut self,
        schema: &Schema,
        definition: &ScheduleDefinition,
        defined_by: &str,
        revision: i64,
        next_at_ms: Option<i64>,
    ) -> QueryResult<usize>;

    /// Pauses or resumes a schedule, unless its revision is another one.
    fn pause_schedule(
        &mut self,
        schema: &Schema,
        name: &str,
        revision: i64,
        paused: bool,
        next_at_ms: i64,
    ) -> QueryResult<usize>;

    /// Removes a schedule.
    fn remove_schedule(&mut self, schema: &Schema, name: &str) -> QueryResult<usize>;
}
