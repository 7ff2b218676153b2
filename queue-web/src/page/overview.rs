//! How the whole queue is: what waits, what runs, and what ended within the last hour.

use std::time::SystemTime;

use leasehold::inspect::{Count, Latency, QueueRecord, Rate};
use maud::{Markup, html};

use crate::data::{Data, Source};
use crate::page::failures::failures;
use crate::page::queues::{bounded, pauses};
use crate::page::{Look, frame};
use crate::plot::{Plot, Series, count, millis};
use crate::texts;

pub(crate) fn page(look: &Look<'_>, source: &dyn Source) -> Data<Markup> {
    let queues = source.queues()?;
    let rates = source.rates()?;
    let content = html! {
        section aria-label=(texts::STATES) { ul.tiles { (waiting(look, &queues.queues)) (ended(look, &rates)) } }
        (plots(&rates))
        section { h2 { (texts::DEPTH) } (depths(look, &queues.queues)) }
        section { h2 { (texts::FAILURES) } (failures(look, &source.failures()?)) }
        (pauses(look, &queues.pauses))
    };
    Ok(frame(look, texts::OVERVIEW, &content))
}

fn waiting(look: &Look<'_>, queues: &[QueueRecord]) -> Markup {
    let sum = |figure: fn(&QueueRecord) -> Count| queues.iter().map(figure).fold(Count::default(), add);
    html! {
        (tile(look, texts::READY, sum(|queue| queue.ready), None))
        (tile(look, texts::SCHEDULED, sum(|queue| queue.scheduled), None))
        (tile(look, texts::BLOCKED, sum(|queue| queue.blocked), None))
        (tile(look, texts::RUNNING, sum(|queue| queue.running), None))
    }
}

fn ended(look: &Look<'_>, rates: &[Rate]) -> Markup {
    let sum = |figure: fn(&Rate) -> Count| rates.iter().map(figure).fold(Count::default(), add);
    let hour = Some(texts::LAST_HOUR);
    html! {
        (tile(look, texts::COMPLETED, sum(|rate| rate.completed), hour))
        (tile(look, texts::DISCARDED, sum(|rate| rate.discarded), hour))
        (tile(look, texts::CANCELLED, sum(|rate| rate.cancelled), hour))
    }
}

pub(crate) fn add(mut all: Count, one: Count) -> Count {
    all.rows += one.rows;
    all.more |= one.more;
    all
}

fn tile(look: &Look<'_>, state: &str, jobs: Count, when: Option<&str>) -> Markup {
    html! {
        li {
            a class={ "tile " (state) } href=(look.to(&format!("/jobs?state={state}"))) {
                strong { (bounded(jobs)) } " " span { (state) }
                @if let Some(when) = when { " " small { (when) } }
            }
        }
    }
}

fn plots(rates: &[Rate]) -> Markup {
    let times: Vec<SystemTime> = rates.iter().map(|rate| rate.from).collect();
    let counted = |figure: fn(&Rate) -> Count| rates.iter().map(|rate| Some(figure(rate).rows as f64)).collect();
    let took = |figure: fn(&Latency) -> f64| rates.iter().map(|rate| rate.latency.as_ref().map(figure)).collect();
    let throughput = [
        Series {
            class: texts::COMPLETED,
            name: texts::COMPLETED,
            values: counted(|rate| rate.completed),
        },
        Series {
            class: texts::DISCARDED,
            name: texts::DISCARDED,
            values: counted(|rate| rate.discarded),
        },
        Series {
            class: texts::CANCELLED,
            name: texts::CANCELLED,
            values: counted(|rate| rate.cancelled),
        },
    ];
    let latency = [
        Series {
            class: texts::RUNNING,
            name: texts::MEDIAN,
            values: took(|latency| latency.median.as_millis() as f64),
        },
        Series {
            class: texts::SCHEDULED,
            name: texts::P95,
            values: took(|latency| latency.p95.as_millis() as f64),
        },
    ];
    html! {
        div.plots {
            (Plot { title: texts::THROUGHPUT, times: &times, series: &throughput, say: count }.bars())
            (Plot { title: texts::LATENCY, times: &times, series: &latency, say: millis }.lines())
        }
    }
}

/// How much waits in each queue, side by side.
fn depths(look: &Look<'_>, queues: &[QueueRecord]) -> Markup {
    let most = queues
        .iter()
        .map(|queue| queue.ready.rows)
        .max()
        .unwrap_or_default()
        .max(1);
    html! {
        @if queues.is_empty() { p { (texts::NO_QUEUES) } }
        ul.depths {
            @for queue in queues {
                li {
                    a href=(look.link("/jobs", &[
                        ("queue", Some(queue.queue.as_str().into())),
                        ("state", Some(texts::READY.into())),
                    ])) { (queue.queue) }
                    svg viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true" {
                        rect.ready x="0" y="0" height="10" width=(queue.ready.rows.saturating_mul(1000) / most) {}
                    }
                    span { (bounded(queue.ready)) }
                }
            }
        }
    }
}
