//! What a visitor may do, and how it is done: by the library's own functions.

use std::time::Duration;

use leasehold::batch::{self, BatchError};
use leasehold::inspect::State;
use leasehold::manage::{self, Cancel, Edit, EditError, RequeueError, Scope};
use leasehold::schedule::{self, ScheduleError};
use leasehold::{Backend, Schema};

use crate::data::DataError;
use crate::request::Pairs;
use crate::route::Deed;
use crate::texts;

mod many;
pub(crate) use many::{MOST_AT_ONCE, Many};

/// What is paused or resumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Paused {
    All,
    Queue(String),
    Kind(String),
}

/// One deed with what its form said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Act {
    Requeue(i64),
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
    CancelBatch {
        id: i64,
        hard: bool,
        reason: String,
    },
    Pause {
        paused: Paused,
        reason: String,
    },
    Resume(Paused),
    PauseSchedule(String),
    ResumeSchedule(String),
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
            Deed::Requeue(id) => Self::Requeue(id),
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
            Deed::Many(deed) => Self::Many(Many::read(deed, form, reason())?),
            Deed::CancelBatch(id) => Self::CancelBatch {
                id,
                hard: form.get("how") == Some("hard"),
                reason: reason(),
            },
            Deed::Pause => Self::Pause {
                paused: Paused::read(form)?,
                reason: reason(),
            },
            Deed::Resume => Self::Resume(Paused::read(form)?),
            Deed::PauseSchedule => Self::PauseSchedule(form.exact("name")?.to_owned()),
            Deed::ResumeSchedule => Self::ResumeSchedule(form.exact("name")?.to_owned()),
        })
    }

    /// Where it is seen that it was done.
    pub(crate) fn shown_at(&self, done: Done) -> String {
        match self {
            Self::Requeue(id) | Self::Cancel { id, .. } | Self::Discard { id, .. } | Self::Run { id, .. } => {
                format!("/jobs/{id}")
            }
            Self::Many(many) => many.shown_at(done),
            Self::CancelBatch { id, .. } => format!("/batches/{id}"),
            Self::Pause { .. } | Self::Resume(_) => "/queues".to_owned(),
            Self::PauseSchedule(_) | Self::ResumeSchedule(_) => "/schedules".to_owned(),
        }
    }

    pub(crate) fn run<C: Backend>(&self, conn: &mut C, schema: &Schema, who: &str) -> Result<Done, NotDone> {
        match self {
            Self::Requeue(id) => manage::requeue(conn, schema, *id, who)?,
            Self::Cancel { id, hard, reason } => {
                let cancelled = manage::cancel(conn, schema, *id, how(*hard), who, reason)?;
                if !cancelled {
                    return Err(ended(conn, schema, *id)?);
                }
            }
            Self::Discard { id, reason } => {
                let discarded = manage::discard(conn, schema, *id, who, reason)?;
                if !discarded {
                    return Err(ended(conn, schema, *id)?);
                }
            }
            Self::Run { id, generation } => {
                let now = Edit::new().delay(Duration::ZERO);
                manage::edit(conn, schema, *id, *generation, &now, who)?;
            }
            Self::Many(many) => return many.run(conn, schema, who),
            Self::CancelBatch { id, hard, reason } => {
                batch::cancel(conn, schema, *id, how(*hard), who, reason)?;
            }
            Self::Pause { paused, reason } => manage::pause(conn, schema, paused.scope(), who, reason)?,
            Self::Resume(paused) => {
                let resumed = manage::resume(conn, schema, paused.scope(), who)?;
                resumed.then_some(()).ok_or(NotDone::Missing)?;
            }
            Self::PauseSchedule(name) => found(schedule::pause(conn, schema, name, who))?,
            Self::ResumeSchedule(name) => found(schedule::resume(conn, schema, name, who))?,
        }
        Ok(Done(1))
    }
}

fn how(hard: bool) -> Cancel {
    match hard {
        true => Cancel::Hard,
        false => Cancel::Soft,
    }
}

impl Paused {
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

impl From<BatchError> for NotDone {
    fn from(error: BatchError) -> Self {
        match error {
            BatchError::Missing { .. } => Self::Missing,
            BatchError::Database(error) => error.into(),
            error => Self::Conflict(error.to_string()),
        }
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
