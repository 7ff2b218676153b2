//! What people did by hand, the newest first.

use http::StatusCode;
use leasehold::inspect::{ActionFilter, ActionRecord, Target};
use maud::{Markup, html};

use crate::data::Source;
use crate::page::{Look, cut, frame, table};
use crate::request::Pairs;
use crate::respond::{Answer, Refused};
use crate::{texts, time};

/// Rows of one page.
const ROWS: u32 = 50;
/// Bytes of a reason.
const REASON: usize = 300;

pub(crate) fn page(look: &Look<'_>, source: &dyn Source, query: &Pairs) -> Result<Answer, Refused> {
    let before = query.number("before")?;
    let by = query.name("by");
    let filter = by.map_or_else(ActionFilter::new, |by| ActionFilter::new().by(by));
    let mut actions = source.actions(&filter, before, ROWS + 1)?;
    let more = actions.len() > ROWS as usize;
    actions.truncate(ROWS as usize);
    let turned = |before: Option<i64>| {
        let before = before.map(|id| id.to_string().into());
        look.link("/actions", &[("by", by.map(Into::into)), ("before", before)])
    };
    let content = html! {
        form.fields method="get" action=(look.to("/actions")) role="search" {
            label { (texts::BY) input name="by" maxlength="255" value=(by.unwrap_or_default()); }
            button { (texts::SEARCH) }
        }
        @if actions.is_empty() { p { (texts::NO_ACTIONS) } } @else { (list(look, &actions)) }
        nav.pages aria-label=(texts::TURN) {
            @if before.is_some() { a href=(turned(None)) { (texts::FIRST) } }
            @if let Some(last) = actions.last().filter(|_| more) {
                a rel="next" href=(turned(Some(last.id))) { (texts::NEXT) }
            }
        }
    };
    Ok(Answer::Page(StatusCode::OK, frame(look, texts::ACTIONS, &content)))
}

fn list(look: &Look<'_>, actions: &[ActionRecord]) -> Markup {
    let rows = html! {
        @for action in actions {
            tr {
                th scope="row" { (time::show(look.now, action.at)) }
                td.text { (action.by) }
                td { (action.action) }
                td { (target(look, &action.target)) }
                td.text { (cut(action.reason.as_deref().unwrap_or_default(), REASON)) }
            }
        }
    };
    let heads = [texts::WHEN, texts::BY, texts::ACTION, texts::WHAT, texts::REASON];
    table(texts::ACTIONS, &heads, &rows)
}

fn target(look: &Look<'_>, target: &Target) -> Markup {
    let named = |what: &str, name: &str| html! { small { (what) } " " (name) };
    match target {
        Target::Job { id, .. } => {
            html! { small { (texts::JOB) } " " a href=(look.to(&format!("/jobs/{id}"))) { (id) } }
        }
        Target::Batch(id) => {
            html! { small { (texts::BATCH) } " " a href=(look.to(&format!("/batches/{id}"))) { (id) } }
        }
        Target::Queue(name) => named(texts::QUEUE, name),
        Target::Kind(name) => named(texts::KIND, name),
        Target::Schedule(name) => named(texts::SCHEDULE, name),
        Target::All => html! { (texts::EVERYTHING) },
        // Of a newer library.
        _ => html! { "–" },
    }
}
