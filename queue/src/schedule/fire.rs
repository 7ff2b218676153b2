//! Schedules that are due enqueue their jobs.

use std::fmt;
use std::time::SystemTime;

use chrono::{DateTime, SecondsFormat};
use diesel::connection::{AnsiTransactionManager, TransactionManager};
use diesel::result::{Error, QueryResult};

use super::times::Times;
use super::{Missed, ScheduleError, stored};
use crate::backend::{Advance, Backend, Fire, NewJob, ScheduleRow};
use crate::commit::{depth, roll_back_to};
use crate::enqueue::{self, EnqueueError, EnqueueOptions};
use crate::inspect::time;
use crate::schema::Schema;

/// Later than this, a fire time is missed rather than on time.
const ON_TIME_MS: i64 = 60_000;

/// Jobs in one transaction, about: no other statement of maintenance shall wait long.
const ENOUGH: usize = 1000;

/// As well, in bytes of payload.
const ENOUGH_BYTES: usize = 16 * 1024 * 1024;

/// One fire of a schedule, as events show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FireInfo<'a> {
    /// The schedule's name.
    pub schedule: &'a str,
    /// The fire time.
    pub fire_at: SystemTime,
    /// The id of the job: a new one, unless the kind is unique and an earlier job has not ended.
    pub job: i64,
    /// Whether the job is new.
    pub is_new: bool,
}

impl fmt::Display for FireInfo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            schedule,
            fire_at,
            job,
            is_new,
        } = self;
        let at = fire_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let at = rfc3339(i64::try_from(at.as_millis()).unwrap_or_default());
        let existing = if *is_new { "" } else { " which had not ended" };
        write!(f, "schedule={schedule:?} at={at} job={job}{existing}")
    }
}

/// What one transaction fired.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) fired: Vec<Fired>,
    /// Whether a schedule has more fire times that are due.
    pub(crate) more: bool,
    /// Schedules that this program cannot read: a newer program wrote them.
    pub(crate) unreadable: Vec<(ScheduleRevision, ScheduleError)>,
}

/// A schedule as it was at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct ScheduleRevision {
    pub(crate) name: String,
    pub(crate) revision: i64,
}

#[derive(Debug)]
pub(crate) struct Fired {
    fire: Fire,
    job_id: i64,
    is_new: bool,
}

impl Fired {
    pub(crate) fn info(&self) -> FireInfo<'_> {
        FireInfo {
            schedule: &self.fire.schedule,
            fire_at: time(self.fire.fire_at_ms),
            job: self.job_id,
            is_new: self.is_new,
        }
    }
}

/// A schedule's fires, and how it goes on after them.
struct Due {
    jobs: Vec<(Fire, NewJob)>,
    step: Advance,
}

/// Fires schedules that are due, by name from behind `after` on, `limit` at the most, in one transaction: the jobs, the
/// record of the fires and the next fire times, or nothing of it. `after` moves on to the last one that was looked at, also
/// when that fails; it stays when there is none.
pub(crate) fn fire_batch<C: Backend>(
    conn: &mut C,
    schema: &Schema,
    after: &mut ScheduleRevision,
    limit: i64,
) -> QueryResult<Batch> {
    let outer = depth(conn)?;
    conn.begin_write()?;
    let fired = fire_locked(conn, schema, after, limit);
    let ended = fired.and_then(|batch| {
        AnsiTransactionManager::commit_transaction(conn)?;
        Ok(batch)
    });
    if ended.is_err() {
        roll_back_to(conn, outer);
    }
    ended
}

fn fire_locked<C: Backend>(
    conn: &mut C,
    schema: &Schema,
    after: &mut ScheduleRevision,
    limit: i64,
) -> QueryResult<Batch> {
    let mut batch = Batch::default();
    let (mut jobs, mut steps, mut bytes) = (Vec::new(), Vec::new(), 0);
    for row in conn.due_schedules(schema, &after.name, limit)? {
        after.name.clone_from(&row.definition.name);
        after.revision = row.revision;
        match due(&row) {
            Ok(due) => {
                bytes += due.jobs.len() * row.definition.payload.len();
                batch.more |= due.step.next_at_ms <= row.now_ms;
                jobs.extend(due.jobs);
                steps.push(due.step);
            }
            Err(error) => batch.unreadable.push((after.clone(), error)),
        }
        if jobs.len() >= ENOUGH || bytes >= ENOUGH_BYTES {
            break;
        }
    }
    if steps.is_empty() {
        return Ok(batch);
    }
    // One that was removed and made again, or whose time a person moved back, has fired before.
    let fires: Vec<Fire> = jobs.iter().map(|(fire, _)| fire.clone()).collect();
    let before = conn.fired(schema, &fires)?;
    let (fires, jobs): (Vec<_>, Vec<_>) = jobs.into_iter().filter(|(fire, _)| !before.contains(fire)).unzip();
    let enqueued = enqueue_all(conn, schema, jobs)?;
    for (fire, (job_id, is_new)) in fires.into_iter().zip(enqueued) {
        batch.fired.push(Fired { fire, job_id, is_new });
    }
    if !batch.fired.is_empty() {
        let fires: Vec<(Fire, i64)> = batch
            .fired
            .iter()
            .map(|fired| (fired.fire.clone(), fired.job_id))
            .collect();
        conn.add_fires(schema, &fires)?;
    }
    if conn.advance(schema, &steps)? != steps.len() {
        // Not under its lock: nothing of the batch may stay.
        return Err(Error::RollbackTransaction);
    }
    Ok(batch)
}

/// Enqueues the jobs; their ids, and whether they are new.
fn enqueue_all<C: Backend>(conn: &mut C, schema: &Schema, jobs: Vec<NewJob>) -> QueryResult<Vec<(i64, bool)>> {
    let options = EnqueueOptions::new().schema(schema);
    let found = |enqueued: enqueue::Enqueued| (enqueued.id(), enqueued.is_new());
    match enqueue::insert(jobs.clone(), conn, &options) {
        Ok(enqueued) => return Ok(enqueued.into_iter().map(found).collect()),
        Err(EnqueueError::Database(error)) => return Err(error),
        // Another job has one of the keys, and the kind may say that this is an error. It must not keep the others from
        // firing, nor the schedule from going on.
        Err(_) => {}
    }
    let one = |job: NewJob| match enqueue::insert(vec![job], conn, &options) {
        Ok(enqueued) => Ok(enqueued.into_iter().next().map_or((0, false), found)),
        Err(EnqueueError::KeyConflict { id } | EnqueueError::UniqueConflict { id }) => Ok((id, false)),
        Err(EnqueueError::Database(error)) => Err(error),
        Err(error) => Err(Error::QueryBuilderError(error.to_string().into())),
    };
    jobs.into_iter().map(one).collect()
}

/// What a schedule fires now, and when next.
fn due(row: &ScheduleRow) -> Result<Due, ScheduleError> {
    let definition = &row.definition;
    let (times, missed) = stored::read(definition)?;
    let never = || ScheduleError::Cron {
        text: definition.cron.clone(),
        source: super::CronError::Never,
    };
    let mut next_at_ms = times.after(row.now_ms).ok_or_else(never)?;
    let (mut fires, mut last) = fire_times(&times, missed, row.next_at_ms, row.now_ms);
    // The rest is as if it came due later.
    let enough = (ENOUGH_BYTES / definition.payload.len().max(1)).max(1);
    if let Some(rest) = fires.get(enough) {
        next_at_ms = *rest;
        fires.truncate(enough);
        last = fires.last().copied().unwrap_or(last);
    }
    let job = |fire_at_ms: i64| {
        let fire = Fire {
            schedule: definition.name.clone(),
            fire_at_ms,
        };
        let job = stored::job(definition, fire_at_ms, key(&fire))?;
        Ok((fire, job))
    };
    Ok(Due {
        jobs: fires.into_iter().map(job).collect::<Result<_, ScheduleError>>()?,
        step: Advance {
            name: definition.name.clone(),
            revision: row.revision,
            was_at_ms: row.next_at_ms,
            next_at_ms,
            last_at_ms: Some(last),
        },
    })
}

/// The fire times to fire now, oldest first, and the newest one that is due. Looks back from now, so that a schedule of
/// every second costs nothing after a year.
fn fire_times(times: &Times, missed: Missed, next_at_ms: i64, now_ms: i64) -> (Vec<i64>, i64) {
    // Whole seconds, also where a person has written it.
    let first = next_at_ms - next_at_ms.rem_euclid(1000);
    let before = |ms: i64| times.until(ms).filter(|at| *at > first);
    let mut fires: Vec<i64> = std::iter::successors(before(now_ms), |at| before(at - 1))
        .take(missed.at_most())
        .collect();
    if fires.len() < missed.at_most() {
        fires.push(first);
    }
    fires.reverse();
    let last = fires.last().copied().unwrap_or(first);
    if missed == Missed::Skip {
        fires.retain(|at| now_ms - at <= ON_TIME_MS);
    }
    (fires, last)
}

/// The idempotency key of a fire's job; the time has 20 characters, so it can be told from the name.
fn key(fire: &Fire) -> String {
    format!("schedule:{}:{}", fire.schedule, rfc3339(fire.fire_at_ms))
}

fn rfc3339(ms: i64) -> String {
    DateTime::from_timestamp_millis(ms)
        .unwrap_or_default()
        .to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// The fire time in an idempotency key that [`key`] made.
pub(super) fn fire_time_of(key: &str) -> Option<SystemTime> {
    let rest = key.strip_prefix("schedule:")?;
    let (_, at) = rest.split_at_checked(rest.len().checked_sub("2025-03-30T01:00:00Z".len())?)?;
    let at = DateTime::parse_from_rfc3339(at).ok()?;
    Some(time(at.timestamp_millis()))
}
