//! Jobs that wait for each other.

use std::collections::{BTreeMap, BTreeSet};

use diesel::result::QueryResult;

use super::JobSummary;
use crate::backend::{AsBackend, LifeStatements, WaitRow};
use crate::schema::Schema;

/// Waits that are told for each job that may be told.
const WAITS_PER_JOB: usize = 4;

/// That one job waits or waited for another.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitRecord {
    /// The job that waits.
    pub job: i64,
    /// The job that has to end first.
    pub on: i64,
    /// Under which the waiting job's handler finds the other one's result.
    pub name: String,
    /// It runs even if the other one is discarded or cancelled.
    pub anyway: bool,
}

impl From<WaitRow> for WaitRecord {
    fn from(row: WaitRow) -> Self {
        Self {
            job: row.job_id,
            on: row.on_job_id,
            name: row.name,
            anyway: row.anyway,
        }
    }
}

/// Jobs that wait for each other, as a graph.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waits {
    /// The jobs, in the order of their ids. One that was purged is missing, and is named by its waits alone.
    pub jobs: Vec<JobSummary>,
    /// The waits between them, by the job that waits.
    pub waits: Vec<WaitRecord>,
    /// Whether there may be more of either.
    pub more: bool,
}

/// The workflow around one job: what it waits for and what waits for it, what those wait for, and so on.
///
/// `limit` jobs at the most, those that are nearest to it, and four times as many waits. The job alone when it waits for none
/// and none for it; nothing when there is no such job.
///
/// # Errors
///
/// The database's.
///
/// ```
/// # include!("../doctest_setup.rs");
/// use leasehold::inspect;
/// use leasehold::{Schema, Workflow};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (_url, mut conn) = doctest_database();
/// let workflow = Workflow::new();
/// let first = workflow.add(&Greet { name: "Ada".to_owned() });
/// let then = workflow.add(&Greet { name: "Grace".to_owned() }).after(first);
/// let ids = workflow.enqueue(&mut conn)?;
/// let graph = inspect::waits(&mut conn, &Schema::default(), ids.id_of(first), 500)?;
/// assert_eq!(graph.waits[0].job, ids.id_of(then));
/// # Ok(())
/// # }
/// ```
pub fn waits(conn: &mut impl AsBackend, schema: &Schema, id: i64, limit: u32) -> QueryResult<Waits> {
    let conn = conn.as_backend();
    let limit = usize::try_from(limit).unwrap_or(usize::MAX).max(1);
    let most_waits = limit.saturating_mul(WAITS_PER_JOB);
    let look = i64::try_from(most_waits).unwrap_or(i64::MAX).saturating_add(1);
    let mut jobs = BTreeSet::from([id]);
    let mut waits = BTreeMap::new();
    let mut more = false;
    let mut outermost = vec![id];
    while !outermost.is_empty() {
        let mut rows = conn.waits_of(schema, &outermost, look)?;
        more |= rows.len() > most_waits;
        let on = conn.waits_on(schema, &outermost, look)?;
        more |= on.len() > most_waits;
        rows.extend(on);
        outermost.clear();
        for row in rows {
            for end in [row.job_id, row.on_job_id] {
                if jobs.contains(&end) {
                    continue;
                }
                if jobs.len() < limit {
                    jobs.insert(end);
                    outermost.push(end);
                } else {
                    more = true;
                }
            }
            waits.insert((row.job_id, row.on_job_id), row);
        }
    }
    waits.retain(|(job, on), _| jobs.contains(job) && jobs.contains(on));
    more |= waits.len() > most_waits;
    let ids: Vec<i64> = jobs.into_iter().collect();
    Ok(Waits {
        jobs: conn.summaries(schema, &ids)?.into_iter().map(Into::into).collect(),
        waits: waits.into_values().take(most_waits).map(Into::into).collect(),
        more,
    })
}
