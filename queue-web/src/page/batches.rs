//! Batches.

use maud::{Markup, html};

use crate::data::{Data, Source};
use crate::page::{Look, frame};
use crate::request::Pairs;
use crate::texts;

/// The page, or the path to go to instead: who knows a batch's id goes to the batch.
pub(crate) fn page(look: &Look<'_>, _source: &dyn Source, query: &Pairs) -> Data<Result<Markup, String>> {
    if let Some(id) = query.get("id").and_then(|id| id.parse::<i64>().ok()) {
        return Ok(Err(format!("/batches/{id}")));
    }
    let content = html! {
        form.fields method="get" action=(look.to("/batches")) {
            label { (texts::ID) input name="id" inputmode="numeric" size="8" required; }
            button { (texts::OPEN_BATCH) }
        }
    };
    Ok(Ok(frame(look, texts::BATCHES, &content)))
}
