//! Recorded steps of handlers.

use diesel::QueryableByName;
use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Nullable, Text};

use crate::lease::Fence;
use crate::schema::Schema;

/// A step whose effect has happened. Checked before it gets here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewStep {
    pub name: String,
    /// How many other steps its execution had asked for before it.
    pub position: i64,
    /// As JSON.
    pub result: String,
}

/// A recorded step.
#[derive(Debug, Clone, PartialEq, Eq, QueryableByName)]
pub struct StepRow {
    #[diesel(sql_type = Text)]
    pub name: String,
    #[diesel(sql_type = BigInt)]
    pub position: i64,
    #[diesel(sql_type = BigInt)]
    pub generation: i64,
    #[diesel(sql_type = Text)]
    pub result: String,
    #[diesel(sql_type = BigInt)]
    pub at_ms: i64,
}

/// What a look at a held job finds of its steps: one row without a name when there is none.
#[derive(Debug, QueryableByName)]
pub(crate) struct HeldStep {
    #[diesel(sql_type = Nullable<Text>)]
    name: Option<String>,
    #[diesel(sql_type = Nullable<BigInt>)]
    position: Option<i64>,
    #[diesel(sql_type = Nullable<BigInt>)]
    generation: Option<i64>,
    #[diesel(sql_type = Nullable<Text>)]
    result: Option<String>,
    #[diesel(sql_type = Nullable<BigInt>)]
    at_ms: Option<i64>,
}

impl HeldStep {
    /// The steps of such a look; `None` when it found no job.
    pub(crate) fn all(rows: Vec<Self>) -> Option<Vec<StepRow>> {
        let step = |row: Self| {
            Some(StepRow {
                name: row.name?,
                position: row.position?,
                generation: row.generation?,
                result: row.result?,
                at_ms: row.at_ms?,
            })
        };
        (!rows.is_empty()).then(|| rows.into_iter().filter_map(step).collect())
    }
}

pub trait StepStatements {
    /// What is recorded of a running job, in the order in which it was asked for; `None` when the job is not running under
    /// this fence.
    fn held_steps(&mut self, schema: &Schema, fence: &Fence) -> QueryResult<Option<Vec<StepRow>>>;

    /// Records a step of a running job; 0 when it is not running under this fence. Once more, by the same lease, does no
    /// harm.
    fn record_step(&mut self, schema: &Schema, fence: &Fence, step: &NewStep) -> QueryResult<usize>;

    /// What is recorded of a job, in the order in which it was asked for.
    fn steps(&mut self, schema: &Schema, job_id: i64) -> QueryResult<Vec<StepRow>>;

    /// Removes what is recorded of a job that is not running, and says how much it was; `None` when there is no such job.
    fn forget_steps(&mut self, schema: &Schema, job_id: i64) -> QueryResult<Option<i64>>;
}
