//! Jobs, chosen by what is asked for and turned page by page.

use std::borrow::Cow;

use http::StatusCode;
use leasehold::inspect::{Count, JobSummary};
use maud::{Markup, html};

use crate::data::Source;
use crate::page::{Look, badge, cut, frame, jobs_said, many, number, table};
use crate::request::{Pairs, SELECTED};
use crate::respond::{Answer, Refused};
use crate::search::{self, Found, Key, STATES, Wanted, standing};
use crate::{texts, time};

/// Rows of one page.
const ROWS: usize = 50;
/// Bytes of a reason in a list; the job's page has all of it.
const REASON: usize = 300;

/// The page, or the job itself for who knows its id or key.
pub(crate) fn page(look: &Look<'_>, source: &dyn Source, query: &Pairs) -> Result<Answer, Refused> {
    if query.get("id").is_some() {
        let id: i64 = query.number("id").ok().flatten().ok_or(Refused::Missing)?;
        return Ok(Answer::To(look.to(&format!("/jobs/{id}")), None));
    }
    let key = Key::read(query);
    if let Some(key) = &key
        && let Some(id) = source.holder(key)?
    {
        return Ok(Answer::To(look.to(&format!("/jobs/{id}")), None));
    }
    let wanted = Wanted::read(query)?;
    let (found, count) = source.jobs(&wanted, ROWS)?;
    let content = html! {
        @if let Some(done) = many::done(query) { p.note role="status" { (done) } }
        @if key.is_some() { p role="alert" { (texts::NO_KEY) } }
        (form(look, query, &wanted))
        (one(look, query))
        p.total { (total(&found, count)) }
        @if !found.jobs.is_empty() { (many::choose(look, query, wanted.state, &list(look, &found.jobs, selectable(look, &wanted)))) }
        nav.pages aria-label=(texts::TURN) {
            @if wanted.from.is_some() { a href=(turned(look, query, None)) { (texts::FIRST) } }
            @if let Some(next) = found.next {
                a rel="next" href=(turned(look, query, Some(next.to_string()))) {
                    @if found.jobs.is_empty() { (texts::LOOK_ON) } @else { (texts::NEXT) }
                }
            }
        }
    };
    Ok(Answer::Page(StatusCode::OK, frame(look, texts::JOBS, &content)))
}

fn selectable(look: &Look<'_>, wanted: &Wanted) -> bool {
    look.may_act() && wanted.state.is_some_and(|state| state != texts::COMPLETED)
}

/// How many there are; where counting ended, or looking, that is said.
fn total(found: &Found, count: Option<Count>) -> String {
    match count {
        Some(count) if !count.more && count.rows == 0 => texts::NO_JOBS.to_owned(),
        Some(count) if !count.more => jobs_said(count.rows),
        Some(count) if search::is_full(count) => {
            format!("{} {}", texts::MORE_THAN, jobs_said(count.rows))
        }
        Some(_) | None if found.jobs.is_empty() && found.next.is_none() => texts::NO_MORE_JOBS.to_owned(),
        Some(count) => format!("{} {} {}", number(count.rows), texts::AMONG, number(found.looked)),
        None => format!(
            "{} {} {}",
            number(found.jobs.len() as u64),
            texts::AMONG,
            number(found.looked)
        ),
    }
}

fn form(look: &Look<'_>, query: &Pairs, wanted: &Wanted) -> Markup {
    let age = query.get("age").unwrap_or_default();
    html! {
        form.fields method="get" action=(look.to("/jobs")) role="search" {
            label { (texts::STATE)
                select name="state" {
                    option value="" { (texts::ANY) }
                    @for state in STATES { option value=(state) selected[wanted.state == Some(state)] { (state) } }
                }
            }
            label { (texts::QUEUE) input name="queue" maxlength="128" value=(query.exact("queue").unwrap_or_default()); }
            label { (texts::KIND) input name="kind" maxlength="128" value=(query.exact("kind").unwrap_or_default()); }
            label { (texts::ERROR_TEXT) input name="error" maxlength="500" value=(query.get("error").unwrap_or_default()); }
            label { (texts::AGE)
                select name="age" {
                    option value="" { (texts::ANY) }
                    @for (value, name, _) in texts::AGES { option value=(value) selected[age == value] { (name) } }
                }
            }
            @if let Some(batch) = query.get("batch") {
                label { (texts::BATCH) input name="batch" inputmode="numeric" size="8" value=(batch); }
            }
            button { (texts::SEARCH) }
        }
    }
}

/// The ways to one job alone.
fn one(look: &Look<'_>, query: &Pairs) -> Markup {
    let value = |name: &str| query.exact(name).unwrap_or_default().to_owned();
    html! {
        details.one open[query.name("key").or(query.name("unique")).is_some()] {
            summary { (texts::FIND_ONE) }
            form.fields method="get" action=(look.to("/jobs")) role="search" aria-label=(texts::FIND_ONE) {
                label { (texts::ID) input name="id" inputmode="numeric" size="8"; }
                label { (texts::IDEMPOTENCY_KEY) input name="key" maxlength="255" value=(value("key")); }
                label { (texts::UNIQUE_KEY) input name="unique" maxlength="1000" placeholder=(texts::KEY_SHAPE) value=(value("unique")); }
                label { (texts::KIND_OF_KEY) input name="kind" maxlength="128" value=(value("kind")); }
                label { (texts::QUEUE_OF_KEY) input name="queue" maxlength="128" value=(value("queue")); }
                button { (texts::OPEN) }
            }
        }
    }
}

/// Jobs as a table, each with the way to it, and with a box to select it by if it may be.
pub(crate) fn list(look: &Look<'_>, jobs: &[JobSummary], selectable: bool) -> Markup {
    let rows = html! {
        @for job in jobs {
            tr {
                @if selectable {
                    td { input type="checkbox" name=(SELECTED) value=(job.id) aria-label={ (texts::SELECT) " " (job.id) }; }
                }
                th scope="row" { a href=(look.to(&format!("/jobs/{}", job.id))) { (job.id) } }
                td { (badge(standing(job))) }
                td { (job.kind) }
                td { (job.queue) }
                td.number { (job.attempt) "/" (job.max_attempts) }
                td { (time::show(look.now, job.created_at)) }
                td { (time::show(look.now, job.finished_at.unwrap_or(job.run_at))) }
                td.text { (cut(job.reason.as_deref().unwrap_or_default(), REASON)) }
            }
        }
    };
    let last = match jobs.iter().all(|job| job.finished_at.is_some()) {
        true => texts::ENDED.to_owned(),
        false => format!("{} / {}", texts::RUNS, texts::ENDED),
    };
    let mut heads = vec![
        texts::ID,
        texts::STATE,
        texts::KIND,
        texts::QUEUE,
        texts::ATTEMPT,
        texts::ENQUEUED,
        &last,
        texts::REASON,
    ];
    if selectable {
        heads.insert(0, texts::SELECT);
    }
    table(texts::JOBS, &heads, &rows)
}

fn turned(look: &Look<'_>, query: &Pairs, from: Option<String>) -> String {
    let mut pairs = search::fields(query);
    pairs.push(("from", from.map(Cow::Owned)));
    look.link("/jobs", &pairs)
}
