//! One job's whole life, and what failed of late.

use std::time::SystemTime;

use diesel::result::QueryResult;

use super::{
    ActionFilter, ActionRecord, ErrorRecord, Held, JobSummary, ProgressRecord, RunningRecord, State, actions, errors,
    progress, running, time,
};
use crate::backend::{AsBackend, Backend, FailureRow, LifeStatements};
use crate::schema::Schema;

/// Steps that are told.
const STEPS: i64 = 1000;

/// Actions that are told.
const ACTIONS: u32 = 1000;

/// One failed attempt of any job.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailureRecord {
    /// The job.
    pub job: i64,
    /// Its queue.
    pub queue: String,
    /// Its kind.
    pub kind: String,
    /// The attempt.
    pub error: ErrorRecord,
}

impl From<FailureRow> for FailureRecord {
    fn from(row: FailureRow) -> Self {
        Self {
            job: row.job_id,
            queue: row.queue,
            kind: row.kind,
            error: ErrorRecord {
                attempt: row.attempt.unsigned_abs(),
                generation: row.generation,
                at: time(row.at_ms),
                cause: row.cause,
                error: row.error,
            },
        }
    }
}

/// The newest failed attempts of all jobs, the newest first, `limit` at the most.
///
/// # Errors
///
/// The database's.
///
/// ```
/// # include!("../doctest_setup.rs");
/// use leasehold::inspect;
/// use leasehold::Schema;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (_url, mut conn) = doctest_database();
/// for failure in inspect::failures(&mut conn, &Schema::default(), 20)? {
///     println!("{} {}: {}", failure.kind, failure.job, failure.error.error);
/// }
/// # Ok(())
/// # }
/// ```
pub fn failures(conn: &mut impl AsBackend, schema: &Schema, limit: u32) -> QueryResult<Vec<FailureRecord>> {
    let rows = conn.as_backend().newest_errors(schema, i64::from(limit))?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// What happened to a job.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Happening {
    /// It was enqueued.
    Enqueued,
    /// A step was recorded.
    Step {
        /// Its name.
        name: String,
        /// The generation of the lease.
        generation: i64,
    },
    /// Its handler said how far it has come; the newest word alone is kept.
    Progress(ProgressRecord),
    /// An attempt failed; the newest 100 are kept.
    Failed(ErrorRecord),
    /// Somebody did something to it by hand; the newest 1,000 are told.
    Acted(ActionRecord),
    /// Somebody asked the running job to stop, and it is not recorded who: an older program was asked.
    CancelRequested,
    /// It ended.
    Ended {
        /// How.
        state: State,
        /// The last attempt.
        attempt: u32,
        /// The generation under which it ended.
        generation: i64,
        /// Why it was discarded or cancelled.
        reason: Option<String>,
    },
}

/// Something that happened to a job, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Moment {
    /// When, by the database's clock.
    pub at: SystemTime,
    /// What.
    pub what: Happening,
}

/// A job's life so far.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Life {
    /// The job.
    pub job: JobSummary,
    /// The lease that somebody holds now.
    pub lease: Option<RunningRecord>,
    /// What is recorded of it, in the order of time. When it was claimed, renewed, snoozed or released is not.
    pub moments: Vec<Moment>,
}

/// The whole life of one job, for a timeline; `None` when there is none with this id.
///
/// Of its steps the first 1,000 are told, without their results. It is put together from several looks, between which the job
/// may move on: a caller who minds looks inside a transaction that sees one state of the database.
///
/// # Errors
///
/// The database's.
///
/// ```
/// # include!("../doctest_setup.rs");
/// use leasehold::inspect::{self, Happening};
/// use leasehold::Schema;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (_url, mut conn) = doctest_database();
/// let id = Greet { name: "you".to_owned() }.enqueue(&mut conn)?.id();
/// let life = inspect::life(&mut conn, &Schema::default(), id)?.expect("it is kept");
/// assert_eq!(life.moments[0].what, Happening::Enqueued);
/// # Ok(())
/// # }
/// ```
pub fn life(conn: &mut impl AsBackend, schema: &Schema, id: i64) -> QueryResult<Option<Life>> {
    let conn = conn.as_backend();
    let Some(row) = conn.summaries(schema, &[id])?.pop() else {
        return Ok(None);
    };
    let job = JobSummary::from(row);
    let held = running(conn, schema, &Held::new(), id.saturating_sub(1), 1)?.pop();
    let lease = held.filter(|held| held.id == id);
    let mut moments = recorded(conn, schema, id)?;
    moments.push(Moment {
        at: job.created_at,
        what: Happening::Enqueued,
    });
    if let Some(at) = lease.as_ref().and_then(|lease| lease.cancel_requested_at)
        && !moments.iter().any(is_request)
    {
        let what = Happening::CancelRequested;
        moments.push(Moment { at, what });
    }
    if let Some(at) = job.finished_at {
        let what = Happening::Ended {
            state: job.state,
            attempt: job.attempt,
            generation: job.generation,
            reason: job.reason.clone(),
        };
        moments.push(Moment { at, what });
    }
    moments.sort_by_key(|moment| (moment.at, place(&moment.what)));
    Ok(Some(Life { job, lease, moments }))
}

fn recorded<C: Backend>(conn: &mut C, schema: &Schema, id: i64) -> QueryResult<Vec<Moment>> {
    let steps = conn.step_times(schema, id, STEPS)?;
    let mut moments: Vec<Moment> = steps
        .into_iter()
        .map(|step| Moment {
            at: time(step.at_ms),
            what: Happening::Step {
                name: step.name,
                generation: step.generation,
            },
        })
        .collect();
    moments.extend(progress(conn, schema, id)?.map(|told| Moment {
        at: told.at,
        what: Happening::Progress(told),
    }));
    moments.extend(errors(conn, schema, id)?.into_iter().map(|error| Moment {
        at: error.at,
        what: Happening::Failed(error),
    }));
    let acted = actions(conn, schema, &ActionFilter::new().job(id), None, ACTIONS)?;
    moments.extend(acted.into_iter().rev().map(|action| Moment {
        at: action.at,
        what: Happening::Acted(action),
    }));
    Ok(moments)
}

fn is_request(moment: &Moment) -> bool {
    matches!(&moment.what, Happening::Acted(action) if action.action == "request cancel")
}

/// What of one instant comes first.
fn place(what: &Happening) -> u8 {
    match what {
        Happening::Enqueued => 0,
        Happening::Ended { .. } => 2,
        _ => 1,
    }
}
