//! One batch.

use leasehold::batch::{BatchCounts, BatchRecord};
use maud::{Markup, html};

use crate::data::{Data, Source};
use crate::page::job::end;
use crate::page::{Look, frame, number};
use crate::{texts, time};

pub(crate) fn page(look: &Look<'_>, source: &dyn Source, id: i64) -> Data<Option<Markup>> {
    Ok(source.batch(id)?.map(|batch| whole(look, &batch)))
}

fn whole(look: &Look<'_>, batch: &BatchRecord) -> Markup {
    let jobs = |state: &str| {
        let pairs = [
            ("batch", Some(batch.id.to_string().into())),
            ("state", Some(state.to_owned().into())),
        ];
        look.link("/jobs", &pairs)
    };
    let content = html! {
        p.summary { strong { (batch.name) } }
        @if look.may_act() && batch.finished_at.is_none() && batch.cancelled_at.is_none() {
            div.actions { (end(look, &format!("/batches/{}/cancel", batch.id), texts::CANCEL_BATCH, true)) }
        }
        section { h2 { (texts::SHARE) } (shares(&batch.counts))
            ul.tiles {
                @for (state, count) in named(&batch.counts) {
                    li {
                        a class={ "tile " (state) } href=(jobs(state)) {
                            strong { (number(count)) } " " span { (state) }
                        }
                    }
                }
            }
        }
        section {
            h2 { (texts::FACTS) }
            dl.facts {
                dt { (texts::ENQUEUED) } dd { (time::show(look.now, batch.created_at)) }
                dt { (texts::FINISHED) }
                dd {
                    @match batch.finished_at {
                        Some(at) => (time::show(look.now, at)),
                        None => (texts::NOT_FINISHED),
                    }
                }
                @if let Some(at) = batch.discarded_at { dt { (texts::DISCARDED) } dd { (time::show(look.now, at)) } }
                @if let Some(at) = batch.cancelled_at { dt { (texts::CANCELLED) } dd { (time::show(look.now, at)) } }
                dt { (texts::JOBS_OF_BATCH) }
                dd { a href=(look.to(&format!("/jobs?batch={}", batch.id))) { (number(batch.counts.total())) } }
            }
        }
    };
    frame(look, &format!("{} {}", texts::BATCH, batch.id), &content)
}

/// In the order of a job's life.
fn named(counts: &BatchCounts) -> [(&'static str, u64); 7] {
    [
        (texts::READY, counts.ready),
        (texts::SCHEDULED, counts.scheduled),
        (texts::BLOCKED, counts.blocked),
        (texts::RUNNING, counts.running),
        (texts::COMPLETED, counts.completed),
        (texts::DISCARDED, counts.discarded),
        (texts::CANCELLED, counts.cancelled),
    ]
}

/// How many jobs are in which state, as one bar.
pub(crate) fn shares(counts: &BatchCounts) -> Markup {
    const WIDTH: u64 = 1000;
    let total = counts.total().max(1);
    let mut before = 0;
    let mut parts = Vec::new();
    for (state, count) in named(counts) {
        let (from, to) = (before * WIDTH / total, (before + count) * WIDTH / total);
        before += count;
        parts.push((state, count, from, to - from));
    }
    html! {
        svg.shares viewBox="0 0 1000 16" preserveAspectRatio="none" role="img" aria-label=(texts::SHARE) {
            @for (state, count, x, width) in parts {
                @if width > 0 {
                    rect class=(state) x=(x) y="0" width=(width) height="16" { title { (state) ": " (number(count)) } }
                }
            }
        }
    }
}
