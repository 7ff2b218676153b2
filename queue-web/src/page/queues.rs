//! The queues, with what waits and runs in each.

use leasehold::inspect::{Count, QueueRecord};
use leasehold::manage::{Pause, Scope};
use maud::{Markup, html};

use crate::data::{Data, Source};
use crate::page::{Look, frame, number, table};
use crate::{texts, time};

pub(crate) fn page(look: &Look<'_>, source: &dyn Source) -> Data<Markup> {
    let queues = source.queues()?;
    let rows = html! { @for queue in &queues.queues { (row(look, queue, &queues.pauses)) } };
    let mut heads = vec![
        texts::QUEUE,
        texts::READY,
        texts::SCHEDULED,
        texts::BLOCKED,
        texts::RUNNING,
        texts::OLDEST,
    ];
    if look.may_act() {
        heads.push(texts::ACTION);
    }
    let content = html! {
        @if queues.queues.is_empty() { p { (texts::NO_QUEUES) } } @else { (table(texts::STATES, &heads, &rows)) }
        (pauses(look, &queues.pauses))
        (pause(look))
    };
    Ok(frame(look, texts::QUEUES, &content))
}

fn row(look: &Look<'_>, queue: &QueueRecord, pauses: &[Pause]) -> Markup {
    let name = || Some(queue.queue.as_str().into());
    let figures = [
        (texts::READY, queue.ready),
        (texts::SCHEDULED, queue.scheduled),
        (texts::BLOCKED, queue.blocked),
        (texts::RUNNING, queue.running),
    ];
    html! {
        tr {
            th scope="row" {
                a href=(look.link("/jobs", &[("queue", name())])) { (queue.queue) }
                @if queue.paused { " " span.paused { (texts::PAUSED) } }
            }
            @for (state, jobs) in figures {
                td.number {
                    @if jobs == Count::default() { "0" } @else {
                        a href=(look.link("/jobs", &[("queue", name()), ("state", Some(state.into()))])) { (bounded(jobs)) }
                    }
                }
            }
            td { @match queue.oldest { Some(age) => (time::span(age)), None => "–" } }
            @if look.may_act() { td { (pause_or_resume(look, queue, pauses)) } }
        }
    }
}

/// The button for one queue; what is paused with everything is resumed with everything, too.
fn pause_or_resume(look: &Look<'_>, queue: &QueueRecord, pauses: &[Pause]) -> Markup {
    let scope = Scope::Queue(&queue.queue);
    match pauses.iter().any(|pause| pause.scope() == scope) {
        true => resume(look, scope),
        false => look.button("/pause", &[("scope", "queue"), ("name", &queue.queue)], texts::PAUSE),
    }
}

/// A count, with a sign where counting ended.
pub(crate) fn bounded(count: Count) -> String {
    format!("{}{}", number(count.rows), if count.more { "+" } else { "" })
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
