//! One batch.

use leasehold::batch::BatchGlance;
use leasehold::inspect::Count;
use maud::{Markup, html};

use crate::data::{Data, Source};
use crate::page::job::end;
use crate::page::overview::add;
use crate::page::queues::bounded;
use crate::page::{Look, frame};
use crate::{texts, time};

pub(crate) fn page(look: &Look<'_>, source: &dyn Source, id: i64) -> Data<Option<Markup>> {
    Ok(source.batch(id)?.map(|glance| whole(look, &glance)))
}

fn whole(look: &Look<'_>, glance: &BatchGlance) -> Markup {
    let batch = &glance.batch;
    let total = named(glance)
        .into_iter()
        .map(|(_, count)| count)
        .fold(Count::default(), add);
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
        section { h2 { (texts::SHARE) } (shares(glance))
            ul.tiles {
                @for (state, count) in named(glance) {
                    li {
                        a class={ "tile " (state) } href=(jobs(state)) {
                            strong { (bounded(count)) } " " span { (state) }
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
                dd { a href=(look.to(&format!("/jobs?batch={}", batch.id))) { (bounded(total)) } }
            }
        }
    };
    frame(look, &format!("{} {}", texts::BATCH, batch.id), &content)
}

/// In the order of a job's life.
fn named(glance: &BatchGlance) -> [(&'static str, Count); 7] {
    [
        (texts::READY, glance.ready),
        (texts::SCHEDULED, glance.scheduled),
        (texts::BLOCKED, glance.blocked),
        (texts::RUNNING, glance.running),
        (texts::COMPLETED, glance.batch.completed),
        (texts::DISCARDED, glance.batch.discarded),
        (texts::CANCELLED, glance.batch.cancelled),
    ]
}

/// How many jobs are in which state, as one bar; of a large batch as far as they were counted.
fn shares(glance: &BatchGlance) -> Markup {
    const WIDTH: u64 = 1000;
    let total = named(glance).iter().map(|(_, count)| count.rows).sum::<u64>().max(1);
    let mut before = 0;
    let mut parts = Vec::new();
    for (state, count) in named(glance) {
        let (from, to) = (before * WIDTH / total, (before + count.rows) * WIDTH / total);
        before += count.rows;
        parts.push((state, count, from, to - from));
    }
    html! {
        svg.shares viewBox="0 0 1000 16" preserveAspectRatio="none" role="img" aria-label=(texts::SHARE) {
            @for (state, count, x, width) in parts {
                @if width > 0 {
                    rect class=(state) x=(x) y="0" width=(width) height="16" { title { (state) ": " (bounded(count)) } }
                }
            }
        }
    }
}
