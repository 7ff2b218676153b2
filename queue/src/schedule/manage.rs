//! Schedules are written, changed and looked at.

use std::fmt;
use std::time::SystemTime;

use super::times::Times;
use super::{Schedule, ScheduleError, define, stored};
use crate::backend::{AsBackend, Backend, ScheduleDefinition, ScheduleRow, ScheduleStatements};
use crate::inspect::time;
use crate::job::Hidden;
use crate::manage::Deed;
use crate::migrate::Migrate;
use crate::schema::Schema;

const CODE: &str = "code";
const CALL: &str = "call";

/// Who defined a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefinedBy {
    /// The code of a program; its next start may change it.
    Code,
    /// [`put()`] or [`change()`]; starts leave it alone.
    Call,
}

/// One schedule as it is stored.
#[derive(Clone)]
#[non_exhaustive]
pub struct ScheduleRecord {
    /// Its name.
    pub name: String,
    /// Its cron text.
    pub cron: String,
    /// Its time zone.
    pub zone: String,
    /// What becomes of missed fire times: `skip`, `run once` or `run all(10)`; a newer program may have another text here.
    pub missed: String,
    /// The kind of its jobs.
    pub kind: String,
    /// Their payload's version.
    pub version: u32,
    /// Their payload, as JSON. Not shown by `Debug`: it may hold secrets.
    pub payload: String,
    /// Their queue.
    pub queue: String,
    /// Their priority.
    pub priority: i16,
    /// How often they may be begun.
    pub max_attempts: u32,
    /// The next fire time, if it is not paused.
    pub next_at: SystemTime,
    /// The last fire time so far.
    pub last_at: Option<SystemTime>,
    /// Whether it is paused.
    pub paused: bool,
    /// Who defined it.
    pub defined_by: DefinedBy,
    /// Grows with every change, but not when it fires; see [`change()`].
    pub revision: i64,
    next_at_ms: i64,
}

impl From<ScheduleRow> for ScheduleRecord {
    fn from(row: ScheduleRow) -> Self {
        let definition = row.definition;
        Self {
            name: definition.name,
            cron: definition.cron,
            zone: definition.zone,
            missed: definition.missed,
            kind: definition.kind,
            version: definition.version.unsigned_abs(),
            payload: definition.payload,
            queue: definition.queue,
            priority: i16::try_from(definition.priority).unwrap_or_default(),
            max_attempts: definition.max_attempts.unsigned_abs(),
            next_at: time(row.next_at_ms),
            last_at: row.last_at_ms.map(time),
            paused: row.paused,
            defined_by: match row.defined_by.as_str() {
                CODE => DefinedBy::Code,
                _ => DefinedBy::Call,
            },
            revision: row.revision,
            next_at_ms: row.next_at_ms,
        }
    }
}

impl ScheduleRecord {
    /// The next fire times, [`ScheduleRecord::next_at`] being the first, `count` or fewer.
    ///
    /// # Errors
    ///
    /// [`ScheduleError::Cron`] or [`ScheduleError::Zone`] when this program cannot read what a newer one wrote.
    pub fn upcoming(&self, count: usize) -> Result<Vec<SystemTime>, ScheduleError> {
        let times = Times::new(&self.cron, &self.zone)?;
        let all = std::iter::successors(Some(self.next_at_ms), |ms| times.after(*ms));
        Ok(all.take(count).map(time).collect())
    }
}

impl fmt::Debug for ScheduleRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScheduleRecord")
            .field("name", &self.name)
            .field("cron", &self.cron)
            .field("zone", &self.zone)
            .field("missed", &self.missed)
            .field("kind", &self.kind)
            .field("payload", &Hidden(&self.payload))
            .field("next_at", &self.next_at)
            .field("paused", &self.paused)
            .field("defined_by", &self.defined_by)
            .field("revision", &self.revision)
            .finish_non_exhaustive()
    }
}

/// Creates a schedule, or replaces the one of its name, whoever defined it; returns its revision.
///
/// The next fire time is computed anew if the cron text or the zone is another one. A paused schedule stays paused.
///
/// # Errors
///
/// [`ScheduleError`].
///
/// ```
/// # include!("../doctest_setup.rs");
/// use leasehold::Schema;
/// use leasehold::schedule::{self, Schedule};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (_url, mut conn) = doctest_database();
/// let schema = Schema::default();
/// let hourly = Schedule::new("hourly", "@hourly").job(&Greet { name: "you".to_owned() });
/// let revision = schedule::put(&mut conn, &schema, &hourly)?;
///
/// let often = Schedule::new("hourly", "*/10 * * * *").job(&Greet { name: "you".to_owned() });
/// schedule::change(&mut conn, &schema, &often, revision)?;
/// for schedule in schedule::list(&mut conn, &schema)? {
///     println!("{}: {} at {:?}", schedule.name, schedule.kind, schedule.upcoming(3)?);
/// }
/// # Ok(())
/// # }
/// ```
pub fn put(conn: &mut impl AsBackend, schema: &Schema, schedule: &Schedule) -> Result<i64, ScheduleError> {
    let (definition, times) = define(schedule)?;
    patiently(conn, |conn| {
        loop {
            let revision = match conn.schedule(schema, &definition.name)? {
                None => add(conn, schema, &definition, &times, CALL)?,
                Some(row) => replace(conn, schema, &definition, &times, CALL, &row)?,
            };
            if let Some(revision) = revision {
                return Ok(revision);
            }
        }
    })
}

/// Replaces the schedule of that name if it still has this revision; returns the new one. As [`put()`] otherwise.
///
/// # Errors
///
/// [`ScheduleError::Conflict`] when somebody was faster, with the revision as it is now; else as [`put()`].
pub fn change(
    conn: &mut impl AsBackend,
    schema: &Schema,
    schedule: &Schedule,
    revision: i64,
) -> Result<i64, ScheduleError> {
    let (definition, times) = define(schedule)?;
    patiently(conn, |conn| {
        let row = conn.schedule(schema, &definition.name)?;
        let conflict = |revision| ScheduleError::Conflict {
            name: definition.name.clone(),
            revision,
        };
        let row = row.ok_or_else(|| conflict(None))?;
        if row.revision != revision {
            return Err(conflict(Some(row.revision)));
        }
        match replace(conn, schema, &definition, &times, CALL, &row)? {
            Some(revision) => Ok(revision),
            None => Err(conflict(
                conn.schedule(schema, &definition.name)?.map(|row| row.revision),
            )),
        }
    })
}

/// Pauses a schedule until it is resumed, in all programs; whether there is one of that name.
///
/// # Errors
///
/// [`ScheduleError::Database`].
pub fn pause(conn: &mut impl AsBackend, schema: &Schema, name: &str, by: &str) -> Result<bool, ScheduleError> {
    set_paused(conn, schema, name, true, &Deed::new(by, None))
}

/// Resumes a schedule with its next fire time from now on; whether there is one of that name.
///
/// # Errors
///
/// [`ScheduleError::Database`]; [`ScheduleError::Cron`] or [`ScheduleError::Zone`] when this program cannot read what a
/// newer one wrote.
pub fn resume(conn: &mut impl AsBackend, schema: &Schema, name: &str, by: &str) -> Result<bool, ScheduleError> {
    set_paused(conn, schema, name, false, &Deed::new(by, None))
}

/// Removes a schedule; whether there was one of that name. The jobs that it enqueued stay.
///
/// # Errors
///
/// [`ScheduleError::Database`].
pub fn remove(conn: &mut impl AsBackend, schema: &Schema, name: &str, by: &str) -> Result<bool, ScheduleError> {
    let deed = Deed::new(by, None);
    patiently(conn, |conn| {
        deed.to(conn, schema, "remove", ("schedule", name), |conn| {
            Ok(conn.remove_schedule(schema, name)? > 0)
        })
    })
}

/// All schedules, by name.
///
/// # Errors
///
/// [`ScheduleError::Database`].
pub fn list(conn: &mut impl AsBackend, schema: &Schema) -> Result<Vec<ScheduleRecord>, ScheduleError> {
    patiently(conn, |conn| {
        let rows = conn.schedules(schema)?;
        Ok(rows.into_iter().map(Into::into).collect())
    })
}

/// The schedule of this name.
///
/// # Errors
///
/// [`ScheduleError::Database`].
pub fn find(conn: &mut impl AsBackend, schema: &Schema, name: &str) -> Result<Option<ScheduleRecord>, ScheduleError> {
    patiently(conn, |conn| Ok(conn.schedule(schema, name)?.map(Into::into)))
}

/// Writes what the code defines, when a worker starts. All are checked before the first is written.
pub(crate) fn define_all<C: Backend>(
    conn: &mut C,
    schema: &Schema,
    schedules: &[Schedule],
) -> Result<(), ScheduleError> {
    let defined = schedules.iter().map(define).collect::<Result<Vec<_>, _>>()?;
    for (index, (definition, _)) in defined.iter().enumerate() {
        if defined[..index].iter().any(|(other, _)| other.name == definition.name) {
            let name = definition.name.clone();
            return Err(ScheduleError::Twice { name });
        }
    }
    patiently(conn, |conn| {
        defined
            .iter()
            .try_for_each(|(definition, times)| define_by_code(conn, schema, definition, times))
    })
}

fn define_by_code<C: Backend>(
    conn: &mut C,
    schema: &Schema,
    definition: &ScheduleDefinition,
    times: &Times,
) -> Result<(), ScheduleError> {
    loop {
        let written = match conn.schedule(schema, &definition.name)? {
            None => add(conn, schema, definition, times, CODE)?,
            Some(row) if row.defined_by != CODE || row.definition == *definition => return Ok(()),
            // A newer program wrote it.
            Some(row) if row.definition.version > definition.version => return Ok(()),
            Some(row) => replace(conn, schema, definition, times, CODE, &row)?,
        };
        if let Some(revision) = written {
            log::info!(
                "schedule {:?} was defined by code, revision {revision}",
                definition.name
            );
            return Ok(());
        }
    }
}

/// The new schedule's revision; `None` when somebody else has added one of its name.
fn add<C: Backend>(
    conn: &mut C,
    schema: &Schema,
    definition: &ScheduleDefinition,
    times: &Times,
    defined_by: &str,
) -> Result<Option<i64>, ScheduleError> {
    let next = next_after(definition, times, conn.clock()?)?;
    let added = conn.add_schedule(schema, definition, defined_by, next)?;
    Ok((added > 0).then_some(1))
}

/// The changed schedule's revision; `None` when it is not as it was read any more.
fn replace<C: Backend>(
    conn: &mut C,
    schema: &Schema,
    definition: &ScheduleDefinition,
    times: &Times,
    defined_by: &str,
    row: &ScheduleRow,
) -> Result<Option<i64>, ScheduleError> {
    let is_same_time = row.definition.cron == definition.cron && row.definition.zone == definition.zone;
    let next = match is_same_time {
        true => None,
        false => Some(next_after(definition, times, row.now_ms)?),
    };
    let replaced = conn.replace_schedule(schema, definition, defined_by, row.revision, next)?;
    Ok((replaced > 0).then_some(row.revision + 1))
}

fn next_after(definition: &ScheduleDefinition, times: &Times, now_ms: i64) -> Result<i64, ScheduleError> {
    times.after(now_ms).ok_or_else(|| ScheduleError::Cron {
        text: definition.cron.clone(),
        source: super::CronError::Never,
    })
}

fn set_paused(
    conn: &mut impl AsBackend,
    schema: &Schema,
    name: &str,
    paused: bool,
    deed: &Deed,
) -> Result<bool, ScheduleError> {
    let action = if paused { "pause" } else { "resume" };
    patiently(conn, |conn| {
        loop {
            let Some(row) = conn.schedule(schema, name)? else {
                return Ok(false);
            };
            if row.paused == paused {
                return Ok(true);
            }
            let next = match paused {
                true => row.next_at_ms,
                // What was due meanwhile is not made up for.
                false => next_after(&row.definition, &stored::read(&row.definition)?.0, row.now_ms)?,
            };
            let done = deed.to(conn, schema, action, ("schedule", name), |conn| {
                Ok::<_, ScheduleError>(conn.pause_schedule(schema, name, row.revision, paused, next)? > 0)
            })?;
            if done {
                return Ok(true);
            }
        }
    })
}

/// As an enqueue does: a connection of the application's may be told to wait for no other writer.
fn patiently<A: AsBackend, T>(
    conn: &mut A,
    work: impl FnOnce(&mut A::Connection) -> Result<T, ScheduleError>,
) -> Result<T, ScheduleError> {
    conn.as_backend().patiently(work)?
}
