//! What a visitor may do, and how it is done: by the library's own functions.

use std::time::{Duration, Instant};

use leasehold::inspect::State;
use leasehold::manage::{self, Cancel, Edit, EditError, RequeueError, Scope};
use leasehold::schedule::{self, ScheduleError};
use leasehold::{Backend, Schema};

use crate::data::DataError;
use crate::request::{Pairs, query};
use crate::route::{Deed, ManyDeed};
use crate::{search, texts};

/// Jobs that are acted on by one form.
pub(crate) const MOST_AT_ONCE: usize = 500;
/// Whoever acts on many jobs would rather be told how far it went.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is paused or resumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Held {
    All,
    Queue(String),
    Kind(String),
}

/// One deed with what its form said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Act {
    Retry(i64),
    Cancel {
        id: i64,
        hard: bool,
        reason: String,
    },
    Discard {
        id: i64,
        reason: String,
    },
    /// To run as soon as it can, if it is as the visitor saw it.
    Run {
        id: i64,
        generation: i64,
    },
    Many(Many),
    Pause {
        held: Held,
        reason: String,
    },
    Resume(Held),
    PauseSchedule(String),
    ResumeSchedule(String),
}

/// The same deed for many jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Many {
    deed: ManyDeed,
    /// In their order, as whatever locks many of them takes them.
    ids: Vec<i64>,
    hard: bool,
    reason: String,
    /// The query of the list that they were chosen from.
    list: String,
}

/// How many jobs were acted on, where more than one was meant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Done(u64);

/// Why nothing was done.
#[derive(Debug)]
pub(crate) enum NotDone {
    /// There is no such job or schedule.
    Missing,
    /// It is not as the visitor saw it any more, or another job has its key.
    Conflict(String),
    Data(DataError),
}

impl Act {
    /// `None` when the form lacks something.
    pub(crate) fn read(deed: Deed, form: &Pairs) -> Option<Self> {
        let reason = || form.get("reason").unwrap_or(texts::NO_REASON).to_owned();
        Some(match deed {
            Deed::Retry(id) => Self::Retry(id),
            Deed::Cancel(id) => Self::Cancel {
                id,
                hard: form.get("how") == Some("hard"),
                reason: reason(),
            },
            Deed::Discard(id) => Self::Discard { id, reason: reason() },
            Deed::Run(id) => Self::Run {
                id,
                generation: form.number("generation").ok()??,
            },
            Deed::Many(deed) => Self::Many(Many {
                deed,
                ids: ids(form.get("ids")?)?,
                hard: form.get("how") == Some("hard"),
                reason: reason(),
                list: query(&search::fields(form)),
            }),
            Deed::Pause => Self::Pause {
                held: Held::read(form)?,
                reason: reason(),
            },
            Deed::Resume => Self::Resume(Held::read(form)?),
            Deed::PauseSchedule => Self::PauseSchedule(form.exact("name")?.to_owned()),
            Deed::ResumeSchedule => Self::ResumeSchedule(form.exact("name")?.to_owned()),
        })
    }

    /// Where it is seen that it was done.
    pub(crate) fn shown_at(&self, done: Done) -> String {
        match self {
            Self::Retry(id) | Self::Cancel { id, .. } | Self::Discard { id, .. } | Self::Run { id, .. } => {
                format!("/jobs/{id}")
            }
            Self::Many(Many { deed, ids, list, .. }) => {
                let (deed, done, of) = (deed.as_str(), done.0, ids.len());
                format!("/jobs?{list}&deed={deed}&done={done}&of={of}")
            }
            Self::Pause { .. } | Self::Resume(_) => "/queues".to_owned(),
            Self::PauseSchedule(_) | Self::ResumeSchedule(_) => "/schedules".to_owned(),
        }
    }

    pub(crate) fn run<C: Backend>(&self, conn: &mut C, schema: &Schema, who: &str) -> Result<Done, NotDone> {
        match self {
            Self::Retry(id) => manage::requeue(conn, schema, *id)?,
            Self::Cancel { id, hard, reason } => {
                let cancelled = manage::cancel(conn, schema, *id, how(*hard), &signed(reason, who))?;
                if !cancelled {
                    return Err(ended(conn, schema, *id)?);
                }
            }
            Self::Discard { id, reason } => {
                let discarded = manage::discard(conn, schema, *id, &signed(reason, who))?;
                if !discarded {
                    return Err(ended(conn, schema, *id)?);
                }
            }
            Self::Run { id, generation } => {
                let now = Edit::new().delay(Duration::ZERO);
                manage::edit(conn, schema, *id, *generation, &now)?;
            }
            Self::Many(many) => return many.run(conn, schema, who),
            Self::Pause { held, reason } => manage::pause(conn, schema, held.scope(), who, reason)?,
            Self::Resume(held) => {
                let resumed = manage::resume(conn, schema, held.scope())?;
                resumed.then_some(()).ok_or(NotDone::Missing)?;
            }
            Self::PauseSchedule(name) => found(schedule::pause(conn, schema, name))?,
            Self::ResumeSchedule(name) => found(schedule::resume(conn, schema, name))?,
        }
        Ok(Done(1))
    }
}

impl Many {
    /// One after the other, each in a transaction of its own. A job that has moved on meanwhile is left as it is.
    fn run<C: Backend>(&self, conn: &mut C, schema: &Schema, who: &str) -> Result<Done, NotDone> {
        let (since, reason) = (Instant::now(), signed(&self.reason, who));
        let mut done = 0;
        for id in self.ids.iter().take_while(|_| since.elapsed() < PATIENCE) {
            let acted = match self.deed {
                ManyDeed::Retry => match manage::requeue(conn, schema, *id) {
                    Ok(()) => true,
                    Err(RequeueError::Database(error)) => return Err(error.into()),
                    Err(_) => false,
                },
                ManyDeed::Cancel => manage::cancel(conn, schema, *id, how(self.hard), &reason)?,
                ManyDeed::Discard => manage::discard(conn, schema, *id, &reason)?,
            };
            done += u64::from(acted);
        }
        Ok(Done(done))
    }
}

/// Ids with commas between them.
fn ids(text: &str) -> Option<Vec<i64>> {
    let ids: Result<Vec<i64>, _> = text.split(',').map(str::parse).collect();
    let mut ids = ids.ok().filter(|ids| ids.len() <= MOST_AT_ONCE)?;
    ids.sort_unstable();
    ids.dedup();
    Some(ids)
}

fn how(hard: bool) -> Cancel {
    match hard {
        true => Cancel::Hard,
        false => Cancel::Soft,
    }
}

impl Held {
    fn read(form: &Pairs) -> Option<Self> {
        let name = || form.name("name").map(str::to_owned);
        match form.get("scope")? {
            "all" => Some(Self::All),
            "queue" => name().map(Self::Queue),
            "kind" => name().map(Self::Kind),
            _ => None,
        }
    }

    fn scope(&self) -> Scope<'_> {
        match self {
            Self::All => Scope::All,
            Self::Queue(name) => Scope::Queue(name),
            Self::Kind(name) => Scope::Kind(name),
        }
    }
}

/// With who has given it: it is kept with the job.
fn signed(reason: &str, who: &str) -> String {
    format!("{reason} ({} {who})", texts::BY_HAND)
}

/// Why there was nothing to end.
fn ended<C: Backend>(conn: &mut C, schema: &Schema, id: i64) -> Result<NotDone, NotDone> {
    let job = leasehold::inspect::job(conn, schema, id)?;
    Ok(match job.map(|job| job.state) {
        None => NotDone::Missing,
        Some(state @ (State::Completed | State::Discarded | State::Cancelled)) => {
            NotDone::Conflict(format!("{} {id}: {state}. {}", texts::JOB, texts::ENDED_ALREADY))
        }
        Some(_) => NotDone::Conflict(texts::TRY_AGAIN.to_owned()),
    })
}

fn found(done: Result<bool, ScheduleError>) -> Result<(), NotDone> {
    match done {
        Ok(true) => Ok(()),
        Ok(false) => Err(NotDone::Missing),
        Err(error @ ScheduleError::Database(_)) => Err(NotDone::Data(DataError::Schedule(error))),
        Err(error) => Err(NotDone::Conflict(error.to_string())),
    }
}

impl From<diesel::result::Error> for NotDone {
    fn from(error: diesel::result::Error) -> Self {
        Self::Data(error.into())
    }
}

impl From<EditError> for NotDone {
    fn from(error: EditError) -> Self {
        match error {
            EditError::Missing { .. } => Self::Missing,
            EditError::Database(error) => error.into(),
            error => Self::Conflict(error.to_string()),
        }
    }
}

impl From<RequeueError> for NotDone {
    fn from(error: RequeueError) -> Self {
        match error {
            RequeueError::Missing { .. } => Self::Missing,
            RequeueError::Database(error) => error.into(),
            error => Self::Conflict(error.to_string()),
        }
    }
}
