//! Batches, the newest first.

use http::StatusCode;
use leasehold::batch::BatchSummary;
use maud::{Markup, html};

use crate::data::Source;
use crate::page::queues::bounded;
use crate::page::{Look, frame, table};
use crate::request::Pairs;
use crate::respond::{Answer, Refused};
use crate::{texts, time};

/// Rows of one page.
const ROWS: u32 = 50;

/// The page, or the path to go to instead: who knows a batch's id goes to the batch.
pub(crate) fn page(look: &Look<'_>, source: &dyn Source, query: &Pairs) -> Result<Answer, Refused> {
    if query.get("id").is_some() {
        let id: i64 = query.number("id").ok().flatten().ok_or(Refused::Missing)?;
        return Ok(Answer::To(look.to(&format!("/batches/{id}")), None));
    }
    let before = query.number("before")?;
    let mut batches = source.batches(before, ROWS + 1)?;
    let more = batches.len() > ROWS as usize;
    batches.truncate(ROWS as usize);
    let next = batches.last().filter(|_| more).map(|batch| batch.id);
    let content = html! {
        form.fields method="get" action=(look.to("/batches")) {
            label { (texts::ID) input name="id" inputmode="numeric" size="8" required; }
            button { (texts::OPEN_BATCH) }
        }
        @if batches.is_empty() { p { (texts::NO_BATCHES) } } @else { (list(look, &batches)) }
        nav.pages aria-label=(texts::TURN) {
            @if before.is_some() { a href=(look.to("/batches")) { (texts::FIRST) } }
            @if let Some(next) = next {
                a rel="next" href=(look.to(&format!("/batches?before={next}"))) { (texts::NEXT) }
            }
        }
    };
    Ok(Answer::Page(StatusCode::OK, frame(look, texts::BATCHES, &content)))
}

fn list(look: &Look<'_>, batches: &[BatchSummary]) -> Markup {
    let rows = html! {
        @for batch in batches {
            tr {
                th scope="row" { a href=(look.to(&format!("/batches/{}", batch.id))) { (batch.id) } }
                td { (batch.name) }
                td { (time::show(look.now, batch.created_at)) }
                td { (time::show_some(look.now, batch.finished_at)) }
                @for count in [batch.open, batch.completed, batch.discarded, batch.cancelled] {
                    td.number { (bounded(count)) }
                }
            }
        }
    };
    let heads = [
        texts::ID,
        texts::NAME_OF_BATCH,
        texts::ENQUEUED,
        texts::FINISHED,
        texts::OPEN_JOBS,
        texts::COMPLETED,
        texts::DISCARDED,
        texts::CANCELLED,
    ];
    table(texts::BATCHES, &heads, &rows)
}
