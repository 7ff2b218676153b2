//! What people did by hand, and who it was.

use diesel::QueryableByName;
use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Nullable, Text};

use crate::schema::Schema;

/// An action that was taken.
#[derive(Debug, Clone, Copy)]
pub struct NewAction<'a> {
    /// Milliseconds since 1970.
    pub at_ms: i64,
    pub by: &'a str,
    pub action: &'static str,
    pub reason: Option<&'a str>,
}

/// An action as it is stored: to a job with its generations, or to what has the name `target` in `scope`.
#[derive(Debug, Clone, QueryableByName)]
pub struct ActionRow {
    #[diesel(sql_type = BigInt)]
    pub id: i64,
    #[diesel(sql_type = BigInt)]
    pub at_ms: i64,
    #[diesel(sql_type = Text)]
    pub by: String,
    #[diesel(sql_type = Text)]
    pub action: String,
    #[diesel(sql_type = Nullable<BigInt>)]
    pub job_id: Option<i64>,
    #[diesel(sql_type = Nullable<BigInt>)]
    pub generation: Option<i64>,
    #[diesel(sql_type = Nullable<BigInt>)]
    pub new_generation: Option<i64>,
    /// `all`, `queue`, `kind`, `schedule` or `batch`.
    #[diesel(sql_type = Nullable<Text>)]
    pub scope: Option<String>,
    #[diesel(sql_type = Nullable<Text>)]
    pub target: Option<String>,
    #[diesel(sql_type = Nullable<Text>)]
    pub reason: Option<String>,
}

pub trait ActionStatements {
    /// Records an action to each of these jobs, which the same transaction has changed: the generation that each has now, and
    /// that less `raised`, which it had before.
    fn record_job_actions(
        &mut self,
        schema: &Schema,
        action: &NewAction<'_>,
        ids: &[i64],
        raised: i64,
    ) -> QueryResult<usize>;

    /// Records an action to something else.
    fn record_action(
        &mut self,
        schema: &Schema,
        action: &NewAction<'_>,
        scope: &str,
        target: &str,
    ) -> QueryResult<usize>;

    /// Actions with an id below `before`, the newest first.
    fn actions(&mut self, schema: &Schema, before: i64, limit: i64) -> QueryResult<Vec<ActionRow>>;

    /// Those of one person.
    fn actions_by(&mut self, schema: &Schema, by: &str, before: i64, limit: i64) -> QueryResult<Vec<ActionRow>>;

    /// Those to one job, by one person if there is one.
    fn actions_of_job(
        &mut self,
        schema: &Schema,
        job_id: i64,
        by: Option<&str>,
        before: i64,
        limit: i64,
    ) -> QueryResult<Vec<ActionRow>>;

    /// Removes actions that were taken at least so many milliseconds ago, the oldest first, `limit` at the most.
    fn purge_actions(&mut self, schema: &Schema, older_than_ms: i64, limit: i64) -> QueryResult<usize>;
}
