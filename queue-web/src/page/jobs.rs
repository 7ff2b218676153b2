//! Jobs, chosen by what is asked for and turned page by page.

use std::borrow::Cow;
use std::time::Duration;

use leasehold::inspect::{Filter, JobRecord, State};
use maud::{Markup, html};

use crate::data::{Data, Source, Wanted};
use crate::page::{Look, badge, frame, state_of, table};
use crate::request::Pairs;
use crate::{texts, time};

/// Rows of one page.
const ROWS: u32 = 50;
const STATES: [State; 5] = [
    State::Ready,
    State::Running,
    State::Completed,
    State::Discarded,
    State::Cancelled,
];

/// The page, or the path to go to instead: who knows a job's id goes to the job.
pub(crate) fn page(look: &Look<'_>, source: &dyn Source, query: &Pairs) -> Data<Result<Markup, String>> {
    if let Some(id) = query
        .get("id")
        .and_then(|id| id.parse::<u32>().ok().map(i64::from).or(id.parse().ok()))
    {
        return Ok(Err(format!("/jobs/{id}")));
    }
    let after = query.get("after").and_then(|id| id.parse().ok()).unwrap_or(0);
    let mut jobs = source.jobs(&Wanted {
        filter: filter(query),
        after,
        limit: ROWS + 1,
    })?;
    let more = jobs.len() > ROWS as usize;
    jobs.truncate(ROWS as usize);
    let next = jobs.last().filter(|_| more).map(|job| job.id);
    let content = html! {
        (form(look, query))
        @if jobs.is_empty() { p { (texts::NO_JOBS) } } @else { (list(look, &jobs)) }
        nav.pages {
            @if after > 0 { a href=(turned(look, query, None)) { (texts::FIRST) } }
            @if let Some(next) = next { a rel="next" href=(turned(look, query, Some(next))) { (texts::NEXT) } }
        }
    };
    Ok(Ok(frame(look, texts::JOBS, &content)))
}

/// Scheduled and blocked jobs are ready ones: the list says of each which it is.
fn state(query: &Pairs) -> Option<State> {
    let name = match query.get("state")? {
        texts::SCHEDULED | texts::BLOCKED => texts::READY,
        name => name,
    };
    STATES.into_iter().find(|state| state.as_str() == name)
}

fn filter(query: &Pairs) -> Filter {
    let mut filter = Filter::new();
    if let Some(state) = state(query) {
        filter = filter.state(state);
    }
    if let Some(queue) = query.exact("queue").filter(|queue| !queue.is_empty()) {
        filter = filter.queue(queue);
    }
    if let Some(kind) = query.exact("kind").filter(|kind| !kind.is_empty()) {
        filter = filter.kind(kind);
    }
    if let Some(batch) = query.get("batch").and_then(|id| id.parse().ok()) {
        filter = filter.batch(batch);
    }
    if let Some(text) = query.get("error") {
        filter = filter.error(text);
    }
    let age = query
        .get("age")
        .and_then(|age| texts::AGES.iter().find(|(name, ..)| *name == age));
    match age {
        Some((.., seconds)) => filter.older_than(Duration::from_secs(*seconds)),
        None => filter,
    }
}

fn form(look: &Look<'_>, query: &Pairs) -> Markup {
    let chosen = state(query);
    let age = query.get("age").unwrap_or_default();
    html! {
        form.fields method="get" action=(look.to("/jobs")) role="search" {
            label { (texts::ID) input name="id" inputmode="numeric" size="8"; }
            label { (texts::STATE)
                select name="state" {
                    option value="" { (texts::ANY) }
                    @for state in STATES {
                        option value=(state.as_str()) selected[chosen == Some(state)] { (state.as_str()) }
                    }
                }
            }
            label { (texts::QUEUE) input name="queue" value=(query.exact("queue").unwrap_or_default()); }
            label { (texts::KIND) input name="kind" value=(query.exact("kind").unwrap_or_default()); }
            label { (texts::ERROR_TEXT) input name="error" value=(query.get("error").unwrap_or_default()); }
            label { (texts::AGE)
                select name="age" {
                    option value="" { (texts::ANY) }
                    @for (value, name, _) in texts::AGES { option value=(value) selected[age == value] { (name) } }
                }
            }
            @if let Some(batch) = query.get("batch") { input type="hidden" name="batch" value=(batch); }
            button { (texts::SEARCH) }
        }
    }
}

/// Jobs as a table, each with the way to it.
pub(crate) fn list(look: &Look<'_>, jobs: &[JobRecord]) -> Markup {
    let rows = html! {
        @for job in jobs {
            tr {
                th scope="row" { a href=(look.to(&format!("/jobs/{}", job.id))) { (job.id) } }
                td { (badge(state_of(job, look.now))) }
                td { (job.kind) }
                td { (job.queue) }
                td.number { (job.attempt) "/" (job.max_attempts) }
                td { (time::show(look.now, job.created_at)) }
                td { (time::show(look.now, job.finished_at.unwrap_or(job.run_at))) }
                td.text { (job.reason.as_deref().unwrap_or_default()) }
            }
        }
    };
    let last = match jobs.iter().all(|job| job.finished_at.is_some()) {
        true => texts::ENDED.to_owned(),
        false => format!("{} / {}", texts::RUNS, texts::ENDED),
    };
    let heads = [
        texts::ID,
        texts::STATE,
        texts::KIND,
        texts::QUEUE,
        texts::ATTEMPT,
        texts::ENQUEUED,
        &last,
        texts::REASON,
    ];
    table(texts::JOBS, &heads, &rows)
}

fn turned(look: &Look<'_>, query: &Pairs, after: Option<i64>) -> String {
    let kept = ["state", "queue", "kind", "error", "age", "batch"];
    let mut pairs: Vec<(&str, Option<Cow<'_, str>>)> = kept
        .iter()
        .map(|name| (*name, query.get(name).map(Cow::Borrowed)))
        .collect();
    pairs.push(("after", after.map(|id| Cow::Owned(id.to_string()))));
    look.link("/jobs", &pairs)
}
