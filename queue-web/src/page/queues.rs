//! The queues, with how many jobs each has in which state.

use std::collections::BTreeMap;

use leasehold::inspect::{QueueCount, State};
use leasehold::manage::{Pause, Scope};
use maud::{Markup, html};

use crate::data::{Data, Source};
use crate::page::{Look, frame, number, table};
use crate::{texts, time};

/// How many jobs are in which state, in the order of a job's life.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct States([u64; 7]);

const NAMES: [&str; 7] = [
    texts::READY,
    texts::SCHEDULED,
    texts::BLOCKED,
    texts::RUNNING,
    texts::COMPLETED,
    texts::DISCARDED,
    texts::CANCELLED,
];

impl States {
    pub(crate) fn with(mut self, count: &QueueCount) -> Self {
        let place = match count.state {
            _ if count.scheduled => 1,
            _ if count.blocked => 2,
            State::Running => 3,
            State::Completed => 4,
            State::Discarded => 5,
            State::Cancelled => 6,
            _ => 0,
        };
        self.0[place] += count.jobs;
        self
    }

    pub(crate) fn named(self) -> impl Iterator<Item = (&'static str, u64)> {
        NAMES.into_iter().zip(self.0)
    }
}

pub(crate) fn page(look: &Look<'_>, source: &dyn Source) -> Data<Markup> {
    let queues = source.queues()?;
    let mut by_queue: BTreeMap<&str, States> = BTreeMap::new();
    for count in &queues.counts {
        let states = by_queue.entry(&count.queue).or_default();
        *states = states.with(count);
    }
    let paused = |queue: &str| queues.pauses.iter().any(|pause| pause.scope() == Scope::Queue(queue));
    let rows = html! {
        @for (queue, states) in &by_queue {
            tr {
                th scope="row" {
                    a href=(look.link("/jobs", &[("queue", Some((*queue).into()))])) { (queue) }
                    @if paused(queue) { " " span.paused { (texts::PAUSED) } }
                }
                @for (state, jobs) in states.named() {
                    td.number {
                        @if jobs == 0 { "0" } @else {
                            a href=(look.link("/jobs", &[
                                ("queue", Some((*queue).into())),
                                ("state", Some(state.into())),
                            ])) { (number(jobs)) }
                        }
                    }
                }
            }
        }
    };
    let heads: Vec<&str> = [texts::QUEUE].into_iter().chain(NAMES).collect();
    let content = html! {
        @if by_queue.is_empty() { p { (texts::NO_QUEUES) } } @else { (table(texts::STATES, &heads, &rows)) }
        (pauses(look, &queues.pauses))
    };
    Ok(frame(look, texts::QUEUES, &content))
}

/// What is paused, by whom and why.
pub(crate) fn pauses(look: &Look<'_>, pauses: &[Pause]) -> Markup {
    let rows = html! {
        @for pause in pauses {
            tr {
                th scope="row" { (scope(pause.scope())) }
                td { (time::show(look.now, pause.at)) }
                td { (pause.by) }
                td { (pause.reason) }
            }
        }
    };
    html! {
        section {
            h2 { (texts::PAUSES) }
            @if pauses.is_empty() { p { (texts::NO_PAUSES) } } @else {
                (table(texts::PAUSES, &[texts::WHAT, texts::SINCE, texts::BY, texts::REASON], &rows))
            }
        }
    }
}

fn scope(scope: Scope<'_>) -> Markup {
    html! {
        @match scope {
            Scope::All => (texts::EVERYTHING),
            Scope::Queue(name) => { small { (texts::QUEUE) } " " (name) },
            Scope::Kind(name) => { small { (texts::KIND) } " " (name) },
        }
    }
}
