//! Queues at a glance.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use diesel::result::QueryResult;

use super::{Count, workers};
use crate::backend::{AsBackend, Backend, FigureStatements, PauseRow, PauseStatements, TallyRow};
use crate::schema::Schema;

/// Queues at the most.
const QUEUES: i64 = 1000;
/// Jobs that are counted of one figure of one queue, at the most and at the least, and of that figure of all queues.
const AT_MOST: i64 = 10_000;
const AT_LEAST: i64 = 100;
const OF_ALL: i64 = 30_000;
/// Pairs of kind and priority of one queue that are asked for their oldest job; over all queues ten times as many.
const HEADS: i64 = 1000;

/// What is in one queue.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueRecord {
    /// Its name.
    pub queue: String,
    /// Jobs that are due.
    pub ready: Count,
    /// Ready, with a run time that is still to come.
    pub scheduled: Count,
    /// Ready, and kept by a limit or by jobs that have to end first.
    pub blocked: Count,
    /// Running.
    pub running: Count,
    /// For how long the oldest of the ready jobs has been due; `None` without any.
    pub oldest: Option<Duration>,
    /// Whether it is paused, by itself or with everything. A pause of a kind does not show here.
    pub paused: bool,
}

impl QueueRecord {
    fn empty(queue: String) -> Self {
        Self {
            queue,
            ready: Count::default(),
            scheduled: Count::default(),
            blocked: Count::default(),
            running: Count::default(),
            oldest: None,
            paused: false,
        }
    }
}

/// The queues in which jobs wait or run, that a live worker serves or that are paused, in the order of their names.
///
/// It takes milliseconds however many jobs there are, for it counts up to a bound: 10,000 jobs of each figure, fewer with more
/// than three queues, and never fewer than 100. Of blocked and of running jobs it looks at 10,000 in all, so when there are more of
/// them, each queue's count of them says that there may be more. It tells of 1,000 queues at the most. [`counts`](super::counts)
/// counts every row.
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
/// Greet { name: "you".to_owned() }.enqueue(&mut conn)?;
/// for queue in inspect::queues(&mut conn, &Schema::default())? {
///     println!("{}: {} ready, {} running, the oldest due for {:?}", queue.queue, queue.ready, queue.running, queue.oldest);
/// }
/// # Ok(())
/// # }
/// ```
pub fn queues(conn: &mut impl AsBackend, schema: &Schema) -> QueryResult<Vec<QueueRecord>> {
    let conn = conn.as_backend();
    let pauses = conn.pauses(schema)?;
    let held = conn.held_by_queue(schema, AT_MOST)?;
    let blocked = conn.blocked_by_queue(schema, AT_MOST)?;
    let mut names: BTreeSet<String> = conn.queue_names(schema, QUEUES)?.into_iter().collect();
    names.extend(held.iter().chain(&blocked).map(|row| row.name.clone()));
    names.extend(
        pauses
            .iter()
            .filter(|row| row.scope == "queue")
            .map(|row| row.name.clone()),
    );
    for worker in workers(conn, schema)?.into_iter().filter(|worker| worker.live) {
        names.extend(worker.queues);
    }
    let limit = usize::try_from(QUEUES).unwrap_or(usize::MAX);
    let names: Vec<String> = names.into_iter().take(limit).collect();
    let mut queues = depths(conn, schema, names)?;
    tally(&mut queues, &held, |queue| &mut queue.running);
    tally(&mut queues, &blocked, |queue| &mut queue.blocked);
    pause(&mut queues, &pauses);
    Ok(queues.into_values().collect())
}

fn depths<C: Backend>(conn: &mut C, schema: &Schema, names: Vec<String>) -> QueryResult<BTreeMap<String, QueueRecord>> {
    let many = i64::try_from(names.len()).unwrap_or(i64::MAX).max(1);
    let at_most = (OF_ALL / many).clamp(AT_LEAST, AT_MOST);
    let heads = (HEADS * 10 / many).clamp(10, HEADS);
    let rows = conn.queue_depths(schema, &names, at_most, heads)?;
    let empty = |name: String| (name.clone(), QueueRecord::empty(name));
    let mut queues: BTreeMap<_, _> = names.into_iter().map(empty).collect();
    for row in rows {
        if let Some(queue) = queues.get_mut(&row.queue) {
            queue.ready = Count::bounded(row.ready, at_most);
            queue.scheduled = Count::bounded(row.scheduled, at_most);
            queue.oldest = row
                .oldest_ms
                .map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or(0)));
        }
    }
    Ok(queues)
}

/// Counts that were made over all queues at once, so that none is complete when looking ended early.
fn tally(
    queues: &mut BTreeMap<String, QueueRecord>,
    rows: &[TallyRow],
    figure: impl Fn(&mut QueueRecord) -> &mut Count,
) {
    let more = rows.iter().map(|row| row.jobs).sum::<i64>() >= AT_MOST;
    for queue in queues.values_mut() {
        figure(queue).more = more;
    }
    for row in rows {
        if let Some(queue) = queues.get_mut(&row.name) {
            figure(queue).rows = row.jobs.unsigned_abs();
        }
    }
}

fn pause(queues: &mut BTreeMap<String, QueueRecord>, pauses: &[PauseRow]) {
    let all = pauses.iter().any(|row| row.scope == "all");
    for (name, queue) in queues {
        queue.paused = all || pauses.iter().any(|row| row.scope == "queue" && row.name == *name);
    }
}
