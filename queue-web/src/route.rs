//! The paths of a site.

use http::Method;
use percent_encoding::percent_decode_str;

use crate::texts;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    Overview,
    Queues,
    Jobs,
    Job(i64),
    /// Asks whether it is to be done to many jobs.
    Ask(ManyDeed),
    Schedules,
    Workers,
    Actions,
    Batches,
    Workflow(i64),
    Batch(i64),
    Do(Deed),
    Style,
    LogIn,
    LogOut,
}

/// What can be done by a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deed {
    Requeue(i64),
    Run(i64),
    Cancel(i64),
    Discard(i64),
    Many(ManyDeed),
    CancelBatch(i64),
    Pause,
    Resume,
    PauseSchedule,
    ResumeSchedule,
}

/// What can be done to many jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ManyDeed {
    Requeue,
    Cancel,
    Discard,
}

impl ManyDeed {
    /// As paths and queries spell it.
    pub(crate) fn read(text: &str) -> Option<Self> {
        [Self::Requeue, Self::Cancel, Self::Discard]
            .into_iter()
            .find(|deed| deed.as_str() == text)
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Requeue => "requeue",
            Self::Cancel => "cancel",
            Self::Discard => "discard",
        }
    }

    pub(crate) fn path(self) -> String {
        format!("/jobs/{}", self.as_str())
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Requeue => texts::REQUEUE,
            Self::Cancel => texts::CANCEL,
            Self::Discard => texts::DISCARD,
        }
    }

    /// Those that a state allows.
    pub(crate) fn of(state: &str) -> &'static [Self] {
        match state {
            texts::READY | texts::SCHEDULED | texts::BLOCKED | texts::RUNNING => &[Self::Cancel, Self::Discard],
            texts::DISCARDED | texts::CANCELLED => &[Self::Requeue],
            _ => &[],
        }
    }
}

/// Why a path leads nowhere.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    Missing,
    /// By another method it would not; these are allowed.
    Method(&'static str),
}

const READ: &str = "GET, HEAD";
const WRITE: &str = "POST";

/// The path without what the site is mounted under.
pub(crate) fn inside<'p>(base: &str, path: &'p str) -> Option<&'p str> {
    let rest = path.strip_prefix(base)?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

pub(crate) fn find(method: &Method, path: &str) -> Result<Route, Lost> {
    let is_read = method == Method::GET || method == Method::HEAD;
    let parts: Result<Vec<String>, _> = path
        .split('/')
        .skip(1)
        .map(|part| percent_decode_str(part).decode_utf8().map(|part| part.into_owned()))
        .collect();
    let parts = parts.map_err(|_| Lost::Missing)?;
    let mut parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    // One at the end is forgiven, the others are other paths.
    parts.pop_if(|last| last.is_empty());
    let (route, allowed) = match parts.as_slice() {
        [] => (Route::Overview, READ),
        ["style.css"] => (Route::Style, READ),
        ["queues"] => (Route::Queues, READ),
        ["jobs"] => (Route::Jobs, READ),
        ["jobs", part] => match ManyDeed::read(part) {
            Some(deed) if is_read => (Route::Ask(deed), READ),
            Some(deed) => (Route::Do(Deed::Many(deed)), WRITE),
            None => (Route::Job(number(part)?), READ),
        },
        ["jobs", id, "requeue"] => (Route::Do(Deed::Requeue(number(id)?)), WRITE),
        ["jobs", id, "run"] => (Route::Do(Deed::Run(number(id)?)), WRITE),
        ["jobs", id, "cancel"] => (Route::Do(Deed::Cancel(number(id)?)), WRITE),
        ["jobs", id, "discard"] => (Route::Do(Deed::Discard(number(id)?)), WRITE),
        ["schedules"] => (Route::Schedules, READ),
        ["workers"] => (Route::Workers, READ),
        ["actions"] => (Route::Actions, READ),
        ["workflows", id] => (Route::Workflow(number(id)?), READ),
        ["batches"] => (Route::Batches, READ),
        ["batches", id] => (Route::Batch(number(id)?), READ),
        ["batches", id, "cancel"] => (Route::Do(Deed::CancelBatch(number(id)?)), WRITE),
        ["pause"] => (Route::Do(Deed::Pause), WRITE),
        ["resume"] => (Route::Do(Deed::Resume), WRITE),
        ["schedules", "pause"] => (Route::Do(Deed::PauseSchedule), WRITE),
        ["schedules", "resume"] => (Route::Do(Deed::ResumeSchedule), WRITE),
        ["login"] => (Route::LogIn, WRITE),
        ["logout"] => (Route::LogOut, WRITE),
        _ => return Err(Lost::Missing),
    };
    match if is_read { READ } else { WRITE } == allowed && (is_read || method == Method::POST) {
        true => Ok(route),
        false => Err(Lost::Method(allowed)),
    }
}

/// An id is written in one way only.
fn number(text: &str) -> Result<i64, Lost> {
    let id: i64 = text.parse().map_err(|_| Lost::Missing)?;
    (id >= 0 && id.to_string() == text).then_some(id).ok_or(Lost::Missing)
}
