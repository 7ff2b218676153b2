//! How the whole queue is.

use maud::{Markup, html};

use crate::data::{Data, Source};
use crate::page::queues::{States, pauses};
use crate::page::{Look, frame, number};
use crate::texts;

pub(crate) fn page(look: &Look<'_>, source: &dyn Source) -> Data<Markup> {
    let queues = source.queues()?;
    let all = queues
        .counts
        .iter()
        .fold(States::default(), |all, count| all.with(count));
    let content = html! {
        section aria-label=(texts::STATES) {
            ul.tiles {
                @for (state, jobs) in all.named() {
                    li {
                        a class={ "tile " (state) } href=(look.to(&format!("/jobs?state={state}"))) {
                            strong { (number(jobs)) } " " span { (state) }
                        }
                    }
                }
            }
        }
        (pauses(look, &queues.pauses))
    };
    Ok(frame(look, texts::OVERVIEW, &content))
}
