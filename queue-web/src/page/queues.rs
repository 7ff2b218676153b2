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
        (pause(look))
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
                @if look.may_act() { td { (resume(look, pause.scope())) } }
            }
        }
    };
    let mut heads = vec![texts::WHAT, texts::SINCE, texts::BY, texts::REASON];
    if look.may_act() {
        heads.push(texts::RESUME);
    }
    html! {
        section {
            h2 { (texts::PAUSES) }
            @if pauses.is_empty() { p { (texts::NO_PAUSES) } } @else { (table(texts::PAUSES, &heads, &rows)) }
        }
    }
}

fn resume(look: &Look<'_>, scope: Scope<'_>) -> Markup {
    let (scope, name) = match scope {
        Scope::All => ("all", ""),
        Scope::Queue(name) => ("queue", name),
        Scope::Kind(name) => ("kind", name),
    };
    look.button("/resume", &[("scope", scope), ("name", name)], texts::RESUME)
}

/// The form by which a queue, a kind or everything is paused.
fn pause(look: &Look<'_>) -> Markup {
    html! {
        @if look.may_act() {
            section {
                h2 { (texts::PAUSE) }
                form.fields method="post" action=(look.to("/pause")) {
                    (look.mark())
                    label { (texts::WHAT)
                        select name="scope" {
                            option value="queue" { (texts::QUEUE) }
                            option value="kind" { (texts::KIND) }
                            option value="all" { (texts::EVERYTHING) }
                        }
                    }
                    label { (texts::PAUSE_NAME) input name="name" maxlength="128"; }
                    label { (texts::REASON) input name="reason" maxlength="500"; }
                    button.danger { (texts::PAUSE) }
                }
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
