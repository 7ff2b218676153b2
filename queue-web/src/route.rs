//! The paths of a site.

use http::Method;
use percent_encoding::percent_decode_str;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    Overview,
    Queues,
    Jobs,
    Job(i64),
    Schedules,
    Workers,
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
    Retry(i64),
    Cancel(i64),
    Discard(i64),
    Pause,
    Resume,
    PauseSchedule,
    ResumeSchedule,
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
    let parts: Vec<String> = path
        .split('/')
        .filter(|part| !part.is_empty())
        .map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned())
        .collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let (route, allowed) = match parts.as_slice() {
        [] => (Route::Overview, READ),
        ["style.css"] => (Route::Style, READ),
        ["queues"] => (Route::Queues, READ),
        ["jobs"] => (Route::Jobs, READ),
        ["jobs", id] => (Route::Job(number(id)?), READ),
        ["jobs", id, "retry"] => (Route::Do(Deed::Retry(number(id)?)), WRITE),
        ["jobs", id, "cancel"] => (Route::Do(Deed::Cancel(number(id)?)), WRITE),
        ["jobs", id, "discard"] => (Route::Do(Deed::Discard(number(id)?)), WRITE),
        ["schedules"] => (Route::Schedules, READ),
        ["workers"] => (Route::Workers, READ),
        ["workflows", id] => (Route::Workflow(number(id)?), READ),
        ["batches"] => (Route::Batches, READ),
        ["batches", id] => (Route::Batch(number(id)?), READ),
        ["pause"] => (Route::Do(Deed::Pause), WRITE),
        ["resume"] => (Route::Do(Deed::Resume), WRITE),
        ["schedules", "pause"] => (Route::Do(Deed::PauseSchedule), WRITE),
        ["schedules", "resume"] => (Route::Do(Deed::ResumeSchedule), WRITE),
        ["login"] => (Route::LogIn, WRITE),
        ["logout"] => (Route::LogOut, WRITE),
        _ => return Err(Lost::Missing),
    };
    let is_read = method == Method::GET || method == Method::HEAD;
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
