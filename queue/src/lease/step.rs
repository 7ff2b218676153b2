//! Recorded steps: effects outside of the database whose results later attempts take from it.
//!
//! Between an effect and its record the process may die, and nothing can be done about that here: the effect is called
//! again, with the same key. What can be done is all else. A record is durable and fenced, one that could not be written is
//! tried again while the lease lasts, and what was recorded is never called again, whatever a newer program makes of it.

use std::any::type_name;

use diesel::result::Error;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{LeaseGuard, Refusal};
use crate::backend::{Backend, NewStep, StepRow};
use crate::handler::JobError;
use crate::name;
use crate::results::StoredResult;

mod error;
pub use error::StepError;

mod record;

/// What an execution knows of the steps of its job.
#[derive(Debug)]
pub(super) struct Steps {
    /// As they were when the first was asked for.
    recorded: Vec<StepRow>,
    /// In order; a step's place here is its position.
    asked: Vec<Asked>,
}

#[derive(Debug)]
struct Asked {
    name: String,
    answered: bool,
}

/// Where the result of a step comes from.
enum Answer {
    Recorded(String),
    /// From the effect; at this position.
    Effect(usize),
}

impl Steps {
    /// Notes that a step is asked for.
    fn ask(&mut self, name: &str) -> Result<Answer, StepError> {
        let asked_before = self.asked.iter().position(|asked| asked.name == name);
        if let Some(position) = asked_before {
            // One that failed is not recorded, and may be tried again under its name: another would mean another key.
            return match self.asked[position].answered {
                true => Err(StepError::Repeated { step: name.to_owned() }),
                false => Ok(Answer::Effect(position)),
            };
        }
        let position = self.asked.len();
        let recorded = self.recorded.iter().find(|row| row.name == name);
        if recorded.is_none()
            && let Some(other) = self.recorded_at(position)
        {
            return Err(StepError::Renamed {
                recorded: other.to_owned(),
                asked: name.to_owned(),
            });
        }
        self.asked.push(Asked {
            name: name.to_owned(),
            answered: recorded.is_some(),
        });
        Ok(recorded.map_or(Answer::Effect(position), |row| Answer::Recorded(row.result.clone())))
    }

    /// What is recorded at a position and was not asked for.
    fn recorded_at(&self, position: usize) -> Option<&str> {
        let here = |row: &&StepRow| usize::try_from(row.position) == Ok(position);
        let asked = |name: &str| self.asked.iter().any(|asked| asked.name == name);
        let mut names = self.recorded.iter().filter(here).map(|row| row.name.as_str());
        names.find(|name| !asked(name))
    }
}

impl<C: Backend> LeaseGuard<'_, C> {
    /// Calls `effect` and records its result, or returns the result that an earlier attempt recorded, without a call.
    ///
    /// For what happens outside of the database: a payment, a mail. The effect is given a key to hand on:
    /// [`LeaseGuard::idempotency_key`], a slash and the name. It is the same in every attempt, and another for each step and
    /// each job.
    ///
    /// The name has 1 to 128 bytes, no slash, and is used once in an execution; in a loop it needs a counter. A step whose
    /// effect failed is not recorded, and may be asked for again. The result is recorded as JSON, 1 MiB at the most; what is
    /// returned was read from that, the first time, too. Keep names, their order and types as they are while jobs have
    /// records of them; [`LeaseGuard::recorded_steps`] says what a job has.
    ///
    /// Records outlive retries, snoozes, releases, sweeps and a [requeue by hand](crate::manage::requeue()), and go when the
    /// finished job is purged. If the process dies, or the lease is lost, between the effect and the record, the next
    /// attempt calls the effect again, with the same key: only the other system can then recognise it. The
    /// [guide](https://github.com/leasehold/leasehold/blob/main/docs/guide/steps.md) has a page about that.
    ///
    /// # Errors
    ///
    /// - the effect's error; nothing is recorded then;
    /// - [`StepError`] behind the [`JobError`], which says whether the effect has happened;
    /// - [`JobError::refusal`] when the job is not this worker's any more: before the first effect of an execution the
    ///   database is asked, before the others this process, and each record is fenced;
    /// - the database is away: before the first effect as [`LeaseGuard::read`]; a record is tried again until the lease ends,
    ///   also while somebody else's lock is in its way.
    ///
    /// ```
    /// # include!("../doctest_setup.rs");
    /// # fn charge(_cents: u64, _key: &str) -> Result<String, std::io::Error> { Ok("ch_1".to_owned()) }
    /// # #[derive(serde::Serialize, serde::Deserialize, Job)]
    /// # #[job(kind = "order")]
    /// # struct Order { cents: u64 }
    /// impl Handler<SqliteConnection> for Order {
    ///     fn run<'j>(self, mut lease: LeaseGuard<'j, SqliteConnection>, _: &()) -> Outcome<'j> {
    ///         let charge: String = lease.step("charge", |key| charge(self.cents, key))?;
    ///         // … whatever fails from here on: no later attempt charges again.
    ///         lease.finish_result(&charge)
    ///     }
    /// }
    /// # fn main() {}
    /// ```
    pub fn step<T, E>(&mut self, name: &str, effect: impl FnOnce(&str) -> Result<T, E>) -> Result<T, JobError>
    where
        T: Serialize + DeserializeOwned,
        E: Into<JobError>,
    {
        check_name(name)?;
        let position = match self.steps()?.ask(name)? {
            Answer::Recorded(json) => return Ok(decode(name, &json)?),
            Answer::Effect(position) => position,
        };
        self.check()?;
        let key = format!("{}/{name}", self.held.idempotency_key);
        let value = effect(&key).map_err(Into::into)?;
        let (result, value) = stored(name, &value)?;
        let step = NewStep {
            name: name.to_owned(),
            position: i64::try_from(position).unwrap_or(i64::MAX),
            result: result.json().to_owned(),
        };
        // Also when this process takes the lease for lost by now: the effect has happened, and the database decides.
        if let Some(refusal) = self.record(step)? {
            return Err(self.lose(refusal));
        }
        if let Some(asked) = self.steps.as_mut().and_then(|steps| steps.asked.get_mut(position)) {
            asked.answered = true;
        }
        Ok(value)
    }

    /// The names of the steps that earlier attempts recorded, in the order in which they were asked for. For a handler that
    /// has been changed, and goes on differently with a job that the program before has begun. Read once in an execution.
    ///
    /// # Errors
    ///
    /// As [`LeaseGuard::read`], and the refusal when the job is not this worker's any more.
    pub fn recorded_steps(&mut self) -> Result<Vec<String>, JobError> {
        Ok(self.steps()?.recorded.iter().map(|row| row.name.clone()).collect())
    }

    /// What was recorded before this execution, read when it is first asked for, and from a job that is still ours.
    fn steps(&mut self) -> Result<&mut Steps, JobError> {
        self.check()?;
        let steps = match self.steps.take() {
            Some(steps) => steps,
            None => self.read_steps()?,
        };
        Ok(self.steps.insert(steps))
    }

    fn read_steps(&mut self) -> Result<Steps, JobError> {
        let (schema, fence) = (self.slot.schema().clone(), self.held.fence);
        let found = self.read(|conn| {
            Ok::<_, Error>(match conn.held_steps(&schema, &fence)? {
                Some(recorded) => Ok(recorded),
                None => Err(Refusal::of(&fence, conn.ownership(&schema, fence.id)?.as_ref())),
            })
        })?;
        let recorded = found.map_err(|refusal| match refusal {
            Some(refusal) => self.lose(refusal),
            None => JobError::retry("no row has this fence, and yet the job is this worker's"),
        })?;
        Ok(Steps {
            recorded,
            asked: Vec::new(),
        })
    }

    fn lose(&self, refusal: Refusal) -> JobError {
        self.held.mark_lost(refusal.clone());
        JobError::refused(refusal)
    }
}

fn check_name(name: &str) -> Result<(), StepError> {
    name::check(name, 128).map_err(StepError::Name)?;
    match name.contains('/') {
        true => Err(StepError::Slash { step: name.to_owned() }),
        false => Ok(()),
    }
}

/// What is recorded of a step, and what every later attempt makes of it: so does this one.
fn stored<T: Serialize + DeserializeOwned>(name: &str, value: &T) -> Result<(StoredResult, T), StepError> {
    let step = || name.to_owned();
    let result = StoredResult::new(value).map_err(|source| StepError::Unstorable { step: step(), source })?;
    let value = serde_json::from_str(result.json()).map_err(|source| StepError::Unreadable {
        step: step(),
        type_name: type_name::<T>(),
        source,
    })?;
    Ok((result, value))
}

fn decode<T: DeserializeOwned>(name: &str, json: &str) -> Result<T, StepError> {
    serde_json::from_str(json).map_err(|source| StepError::Decode {
        step: name.to_owned(),
        type_name: type_name::<T>(),
        source,
    })
}
