//! What people did by hand, and who it was.

use std::time::SystemTime;

use diesel::result::QueryResult;

use super::time;
use crate::backend::{ActionRow, ActionStatements, AsBackend};
use crate::schema::Schema;

/// To what somebody did something.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// A job.
    Job {
        /// Its id.
        id: i64,
        /// Its generation before.
        generation: i64,
        /// Its generation afterwards; the same where nobody was to lose the job.
        new_generation: i64,
    },
    /// Every job.
    All,
    /// The jobs of a queue.
    Queue(String),
    /// The jobs of a kind.
    Kind(String),
    /// A schedule.
    Schedule(String),
    /// A batch. What became of its jobs is recorded with each of them.
    Batch(i64),
}

/// Something that somebody did by hand.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ActionRecord {
    /// Its id; larger ones are newer.
    pub id: i64,
    /// When, by the database's clock.
    pub at: SystemTime,
    /// Who, as the caller of [`manage`](crate::manage) said.
    pub by: String,
    /// What: `cancel`, `request cancel` (a running handler was asked to stop), `discard`, `requeue`, `edit`, `forget steps`,
    /// `pause`, `resume` or `remove`.
    pub action: String,
    /// To what.
    pub target: Target,
    /// Why, where the caller was asked.
    pub reason: Option<String>,
}

impl From<ActionRow> for ActionRecord {
    fn from(row: ActionRow) -> Self {
        let name = row.target.unwrap_or_default();
        let target = match (row.job_id, row.scope.as_deref()) {
            (Some(id), _) => Target::Job {
                id,
                generation: row.generation.unwrap_or_default(),
                new_generation: row.new_generation.unwrap_or_default(),
            },
            (None, Some("queue")) => Target::Queue(name),
            (None, Some("kind")) => Target::Kind(name),
            (None, Some("schedule")) => Target::Schedule(name),
            (None, Some("batch")) => Target::Batch(name.parse().unwrap_or_default()),
            (None, _) => Target::All,
        };
        Self {
            id: row.id,
            at: time(row.at_ms),
            by: row.by,
            action: row.action,
            target,
            reason: row.reason,
        }
    }
}

/// Which actions are meant. Every condition that is set must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ActionFilter {
    job: Option<i64>,
    by: Option<String>,
}

impl ActionFilter {
    /// All.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// To this job.
    #[must_use]
    pub fn job(mut self, id: i64) -> Self {
        self.job = Some(id);
        self
    }

    /// By this person, letter for letter.
    #[must_use]
    pub fn by(mut self, name: &str) -> Self {
        self.by = Some(crate::manage::signature(name));
        self
    }
}

/// The actions that match and have an id below `before`, the newest first, `limit` at the most: for the next page give the last
/// id.
///
/// It reads as many as it returns; with both a job and a person, all actions to the job from there on, if need be.
///
/// Workers remove them after 90 days, or after [`Retention::actions`](crate::manage::Retention::actions).
///
/// # Errors
///
/// The database's.
///
/// ```
/// # include!("../doctest_setup.rs");
/// use leasehold::inspect::{self, ActionFilter, Target};
/// use leasehold::manage::{self, Cancel};
/// use leasehold::Schema;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (_url, mut conn) = doctest_database();
/// let schema = Schema::default();
/// let id = Greet { name: "you".to_owned() }.enqueue(&mut conn)?.id();
/// manage::cancel(&mut conn, &schema, id, Cancel::Hard, "Ada", "on holiday")?;
///
/// let did = inspect::actions(&mut conn, &schema, &ActionFilter::new().by("Ada"), None, 20)?;
/// assert_eq!((did[0].action.as_str(), did[0].reason.as_deref()), ("cancel", Some("on holiday")));
/// assert_eq!(did[0].target, Target::Job { id, generation: 0, new_generation: 1 });
/// # Ok(())
/// # }
/// ```
pub fn actions(
    conn: &mut impl AsBackend,
    schema: &Schema,
    filter: &ActionFilter,
    before: Option<i64>,
    limit: u32,
) -> QueryResult<Vec<ActionRecord>> {
    let (conn, before, limit) = (conn.as_backend(), before.unwrap_or(i64::MAX), i64::from(limit));
    let rows = match (filter.job, filter.by.as_deref()) {
        (Some(id), by) => conn.actions_of_job(schema, id, by, before, limit),
        (None, Some(by)) => conn.actions_by(schema, by, before, limit),
        (None, None) => conn.actions(schema, before, limit),
    }?;
    Ok(rows.into_iter().map(Into::into).collect())
}
