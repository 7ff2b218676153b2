//! What follows from the end of jobs: batches finish, and jobs that waited are let go.
//!
//! Nothing of this is part of the statement that ends a job: a counter for each batch would make all its commits wait for
//! one row, and two jobs that end at the same moment would each see the other one open. So the process that ended a job
//! looks *after* the commit. Whoever looks last sees that all have ended, since the others were committed before their own
//! looks. A process that dies between its commit and its look is made up for by every other one's maintenance.
//!
//! A batch finishes in two steps, in one transaction: its row is locked, which keeps out those who add to it, and then a
//! *new* statement looks for open jobs. One statement would look as of before the lock, and miss what was added meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::time::{Duration, Instant};

use diesel::result::{Error, QueryResult};

use crate::backend::{Backend, BatchLook, BatchRow, WaitingPlace, WaitingRow};
use crate::events::JobInfo;
use crate::inspect::State;
use crate::lease::Held;
use crate::schema::Schema;
use crate::transaction::atomically;

/// Rows in one statement.
const CHUNK: i64 = 500;
/// Batches in one look of maintenance.
const BATCHES: i64 = 200;
/// How long a statement that was refused for many may take for each: there may be more to look at.
const ONE_BY_ONE: Duration = Duration::from_secs(1);

/// Jobs that ended, by what may follow from that.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Batches that had such a job.
    pub(crate) batches: BTreeSet<i64>,
    /// Jobs that others may wait for.
    pub(crate) awaited: BTreeSet<i64>,
}

impl Ended {
    pub(crate) fn add(&mut self, held: &Held) {
        self.batches.extend(held.batch_id);
        if held.awaited {
            self.awaited.insert(held.fence.id);
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.batches.extend(other.batches);
        self.awaited.extend(other.awaited);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.batches.is_empty() && self.awaited.is_empty()
    }
}

impl WaitingRow {
    /// The job as it is after its cancel.
    pub(crate) fn info(&self) -> JobInfo<'_> {
        JobInfo {
            ran: None,
            span: crate::trace::SpanRef::default(),
            id: self.id,
            queue: &self.queue,
            kind: &self.kind,
            attempt: self.attempt.unsigned_abs(),
            generation: self.generation + 1,
        }
    }
}

/// What was done.
#[derive(Debug, Default)]
pub(crate) struct Followed {
    /// Whether jobs were let go or ended.
    pub(crate) changed: bool,
    /// Jobs that were cancelled because one that they waited for did not complete, each with the reason.
    pub(crate) cancelled: Vec<(WaitingRow, String)>,
    /// Batches that somebody else had locked: to be looked at again.
    pub(crate) locked: BTreeSet<i64>,
}

/// Where steps run, each as a whole: a test's connection, or one that a thread of the runtime lends.
pub(crate) trait Steps<C: Backend> {
    type Error: Display;

    /// Whether only this step failed, and others may succeed.
    fn is_refused(error: &Self::Error) -> bool;

    fn step<T>(&mut self, work: impl FnOnce(&mut C) -> QueryResult<T>) -> Result<T, Self::Error>;
}

/// On the caller's connection.
pub(crate) struct Direct<'a, C>(pub(crate) &'a mut C);

impl<C: Backend> Steps<C> for Direct<'_, C> {
    type Error = Error;

    /// The caller's transaction may have come to its end with it.
    fn is_refused(_: &Error) -> bool {
        false
    }

    fn step<T>(&mut self, work: impl FnOnce(&mut C) -> QueryResult<T>) -> QueryResult<T> {
        work(self.0)
    }
}

/// Does what follows from `ended`, and from what that ends in turn. It is emptied as far as that is done.
pub(crate) fn follow<C: Backend, S: Steps<C>>(
    steps: &mut S,
    schema: &Schema,
    ended: &mut Ended,
    followed: &mut Followed,
) -> Result<(), S::Error> {
    while !ended.awaited.is_empty() {
        let chunk: Vec<i64> = ended.awaited.iter().take(100).copied().collect();
        let mut after = i64::MIN;
        loop {
            let ids = steps.step(|conn| conn.dependents(schema, &chunk, after, CHUNK))?;
            let Some(last) = ids.last() else { break };
            after = *last;
            let waiting = steps.step(|conn| conn.look_at_waiting(schema, &ids, &chunk))?;
            let_go(steps, schema, waiting, ended, followed)?;
        }
        chunk.iter().for_each(|id| _ = ended.awaited.remove(id));
    }
    let mut failed = None;
    // One batch that cannot be written must not keep the others from finishing.
    for id in std::mem::take(&mut ended.batches) {
        match steps.step(|conn| check_batch(conn, schema, id)) {
            Ok(Checked::Nothing) => {}
            Ok(Checked::Changed) => followed.changed = true,
            Ok(Checked::Locked) => _ = followed.locked.insert(id),
            Err(error) => {
                ended.batches.insert(id);
                failed = Some(error);
            }
        }
    }
    failed.map_or(Ok(()), Err)
}

/// Lets go those that wait for nothing more, and cancels those for which that will not come. Maintenance comes back to those
/// for which the database refuses it.
fn let_go<C: Backend, S: Steps<C>>(
    steps: &mut S,
    schema: &Schema,
    waiting: Vec<WaitingRow>,
    ended: &mut Ended,
    followed: &mut Followed,
) -> Result<(), S::Error> {
    let free: Vec<(i64, i64)> = waiting
        .iter()
        .filter(|row| row.failed_on.is_none() && !row.open)
        .map(|row| (row.id, row.generation))
        .collect();
    if !free.is_empty() {
        let unblocked = one_by_one(steps, &free, |conn, jobs| conn.unblock(schema, jobs))?;
        followed.changed |= !unblocked.is_empty();
    }
    let mut failed: BTreeMap<i64, Vec<WaitingRow>> = BTreeMap::new();
    for row in waiting {
        if let Some(failed_on) = row.failed_on {
            failed.entry(failed_on).or_default().push(row);
        }
    }
    for (failed_on, rows) in failed {
        let reason = format!("job {failed_on}, for which it waited, did not complete");
        let ids: Vec<i64> = rows.iter().map(|row| row.id).collect();
        let cancelled = one_by_one(steps, &ids, |conn, ids| {
            conn.end_open(schema, ids, false, State::Cancelled, &reason)
        })?;
        for row in rows.into_iter().filter(|row| cancelled.contains(&row.id)) {
            ended.awaited.insert(row.id);
            ended.batches.extend(row.batch_id);
            followed.changed = true;
            followed.cancelled.push((row, reason.clone()));
        }
    }
    Ok(())
}

/// Changes jobs in one statement, and one by one when the database refuses that: one row is to blame (an application's
/// foreign key keeps it from ending, say), and must not keep all the others waiting. The ids of those that were changed.
fn one_by_one<C: Backend, S: Steps<C>, T>(
    steps: &mut S,
    jobs: &[T],
    mut change: impl FnMut(&mut C, &[T]) -> QueryResult<Vec<i64>>,
) -> Result<Vec<i64>, S::Error> {
    match steps.step(|conn| change(conn, jobs)) {
        Err(error) if S::is_refused(&error) => {}
        done => return done,
    }
    let (begun, mut changed) = (Instant::now(), Vec::new());
    for job in jobs {
        match steps.step(|conn| change(conn, std::slice::from_ref(job))) {
            Ok(ids) => changed.extend(ids),
            Err(error) if S::is_refused(&error) => {
                log::error!("a job that waited for others cannot be changed: {error}");
            }
            Err(error) => return Err(error),
        }
        if begun.elapsed() > ONE_BY_ONE {
            break;
        }
    }
    Ok(changed)
}

/// How a batch was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Checked {
    Nothing,
    Changed,
    Locked,
}

/// Finishes a batch whose jobs have all ended, and tells of the first discarded one.
fn check_batch<C: Backend>(conn: &mut C, schema: &Schema, id: i64) -> QueryResult<Checked> {
    // Most looks find an open job, and take no lock. Whoever ends that one looks after it.
    if !look(conn, schema, id)?.is_some_and(|look| is_news(&look)) {
        return Ok(Checked::Nothing);
    }
    // A transaction that sees an older state would miss a job that was added since. A worker's maintenance looks later.
    if !conn.sees_commits()? {
        return Ok(Checked::Nothing);
    }
    atomically(conn, |conn| {
        let Some(batch) = conn.lock_batch(schema, id)? else {
            return Ok(Checked::Locked);
        };
        let Some(look) = look(conn, schema, id)? else {
            return Ok(Checked::Nothing);
        };
        if look.discarded {
            conn.mark_batch_discarded(schema, id)?;
            call_back(conn, schema, batch.discarded_job)?;
        }
        if !look.open {
            conn.finish_batch(schema, id)?;
            call_back(conn, schema, batch.done_job)?;
            drop_unused(conn, schema, &batch, look.discarded)?;
        }
        Ok(match is_news(&look) {
            true => Checked::Changed,
            false => Checked::Nothing,
        })
    })
}

fn look<C: Backend>(conn: &mut C, schema: &Schema, id: i64) -> QueryResult<Option<BatchLook>> {
    Ok(conn.look_at_batches(schema, id..=id, 1)?.pop())
}

fn is_news(look: &BatchLook) -> bool {
    look.discarded || !look.open
}

/// Lets a callback go. One that was cancelled meanwhile is not called.
fn call_back<C: Backend>(conn: &mut C, schema: &Schema, job_id: Option<i64>) -> QueryResult<()> {
    let Some(job_id) = job_id else { return Ok(()) };
    if let Some(row) = conn.lock_ownership(schema, job_id)?.filter(|row| row.state == "ready") {
        conn.unblock(schema, &[(job_id, row.generation)])?;
    }
    Ok(())
}

/// No job was discarded, so the callback for that will not be called.
fn drop_unused<C: Backend>(conn: &mut C, schema: &Schema, batch: &BatchRow, discarded: bool) -> QueryResult<()> {
    let unused = batch
        .discarded_job
        .filter(|_| !discarded && batch.discarded_at_ms.is_none());
    if let Some(job_id) = unused
        && conn.withdraw(schema, &[job_id])? == 0
    {
        // It was changed by hand since its enqueue.
        conn.end_open(
            schema,
            &[job_id],
            false,
            State::Cancelled,
            "no job of the batch was discarded",
        )?;
    }
    Ok(())
}

/// Where maintenance's look at everything has come to.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    batch: i64,
    waiting: WaitingPlace,
}

impl Cursor {
    fn is_at_the_start(&self) -> bool {
        self.batch == 0 && self.waiting == WaitingPlace::default()
    }
}

/// Looks at the next batches and waiting jobs, for those whose process died before it looked. Whether it has come round.
pub(crate) fn look_round<C: Backend, S: Steps<C>>(
    steps: &mut S,
    schema: &Schema,
    cursor: &mut Cursor,
    followed: &mut Followed,
) -> Result<bool, S::Error> {
    let mut ended = Ended::default();
    let from = cursor.batch;
    let looks = steps.step(|conn| conn.look_at_batches(schema, from.saturating_add(1)..=i64::MAX, BATCHES))?;
    cursor.batch = if is_full(looks.len(), BATCHES) {
        looks.last().map_or(0, |look| look.id)
    } else {
        i64::MAX
    };
    ended
        .batches
        .extend(looks.iter().filter(|look| is_news(look)).map(|look| look.id));
    let from = cursor.waiting.clone();
    let places = steps.step(|conn| conn.waiting_jobs(schema, &from, CHUNK))?;
    let waiting_is_through = !is_full(places.len(), CHUNK);
    let ids: Vec<i64> = places.iter().map(|place| place.id).collect();
    if let Some(last) = places.into_iter().next_back() {
        cursor.waiting = last;
    }
    if !ids.is_empty() {
        let waiting = steps.step(|conn| conn.look_at_waiting(schema, &ids, &[]))?;
        let_go(steps, schema, waiting, &mut ended, followed)?;
    }
    follow(steps, schema, &mut ended, followed)?;
    if cursor.batch == i64::MAX && waiting_is_through {
        *cursor = Cursor::default();
    }
    Ok(cursor.is_at_the_start())
}

fn is_full(rows: usize, limit: i64) -> bool {
    i64::try_from(rows) == Ok(limit)
}

/// Looks at everything once.
pub(crate) fn look_at_all<C: Backend, S: Steps<C>>(
    steps: &mut S,
    schema: &Schema,
    followed: &mut Followed,
) -> Result<(), S::Error> {
    let mut cursor = Cursor::default();
    while !look_round(steps, schema, &mut cursor, followed)? {}
    Ok(())
}
