//! One job's whole life.

use std::time::SystemTime;

use leasehold::inspect::{JobRecord, State};
use maud::{Markup, html};

use crate::data::{Data, Life, Source};
use crate::page::workers::left;
use crate::page::{Look, badge, frame, state_of, table};
use crate::{texts, time};

pub(crate) fn page(look: &Look<'_>, source: &dyn Source, id: i64) -> Data<Option<Markup>> {
    Ok(source.life(id)?.map(|life| whole(look, &life)))
}

fn whole(look: &Look<'_>, life: &Life) -> Markup {
    let title = format!("{} {}", texts::JOB, life.job.id);
    let content = html! {
        p.summary { (badge(state_of(&life.job, look.now))) " " strong { (life.job.kind) } }
        (actions(look, &life.job))
        section { h2 { (texts::TIMELINE) } (timeline(look, life)) }
        section { h2 { (texts::FACTS) } (facts(look, life)) }
        @if !life.steps.is_empty() { section { h2 { (texts::STEPS) } (steps(look, life)) } }
        section { h2 { (texts::PAYLOAD) } (secret(look, &life.job.payload)) }
        @if let Some(result) = &life.result { section { h2 { (texts::RESULT) } (secret(look, &result.to_string())) } }
    };
    frame(look, &title, &content)
}

/// What can be done now. What cannot be undone is folded away, and asks for a reason.
fn actions(look: &Look<'_>, job: &JobRecord) -> Markup {
    let path = |deed: &str| format!("/jobs/{}/{deed}", job.id);
    let is_open = matches!(job.state, State::Ready | State::Running);
    html! {
        @if look.may_act() {
            div.actions {
                @if matches!(job.state, State::Discarded | State::Cancelled) { (look.button(&path("retry"), &[], texts::RETRY)) }
                @if is_open {
                    (end(look, &path("cancel"), texts::CANCEL, job.state == State::Running))
                    (end(look, &path("discard"), texts::DISCARD, false))
                }
            }
        }
    }
}

fn end(look: &Look<'_>, path: &str, name: &str, asks_how: bool) -> Markup {
    html! {
        details {
            summary { (name) "…" }
            form.fields method="post" action=(look.to(path)) {
                (look.mark())
                @if asks_how {
                    label { (texts::HOW)
                        select name="how" {
                            option value="soft" { (texts::SOFT) }
                            option value="hard" { (texts::HARD) }
                        }
                    }
                }
                label { (texts::REASON) input name="reason" maxlength="500"; }
                button.danger { (name) }
            }
        }
    }
}

/// What happened, and when.
struct Moment {
    at: SystemTime,
    class: &'static str,
    what: Markup,
}

fn timeline(look: &Look<'_>, life: &Life) -> Markup {
    let mut moments = moments(life);
    moments.sort_by_key(|moment| moment.at);
    html! {
        ol.timeline {
            @for moment in &moments {
                li class=(moment.class) { (time::show(look.now, moment.at)) div { (moment.what) } }
            }
        }
    }
}

fn moments(life: &Life) -> Vec<Moment> {
    let job = &life.job;
    let mut moments = vec![Moment {
        at: job.created_at,
        class: texts::READY,
        what: html! { (texts::WAS_ENQUEUED) },
    }];
    moments.extend(life.errors.iter().map(|error| Moment {
        at: error.at,
        class: texts::DISCARDED,
        what: html! {
            (texts::ATTEMPT) " " (error.attempt) ", " (texts::GENERATION) " " (error.generation) ": "
            (texts::WAS_FAILED) " (" (error.cause) ")"
            pre { (error.error) }
        },
    }));
    moments.extend(life.steps.iter().map(|step| Moment {
        at: step.at,
        class: texts::RUNNING,
        what: html! { (texts::WAS_STEP) " " code { (step.name) } ", " (texts::GENERATION) " " (step.generation) },
    }));
    moments.extend(life.progress.iter().map(|progress| Moment {
        at: progress.at,
        class: texts::RUNNING,
        what: html! { (texts::WAS_PROGRESS) " " (progress.done) "/" (progress.total) " " (progress.text) },
    }));
    moments.extend(last(job));
    moments
}

fn last(job: &JobRecord) -> Option<Moment> {
    Some(Moment {
        at: job.finished_at?,
        class: job.state.as_str(),
        what: html! {
            (job.state.as_str()) ", " (texts::GENERATION) " " (job.generation)
            @if let Some(reason) = &job.reason { pre { (reason) } }
        },
    })
}

fn facts(look: &Look<'_>, life: &Life) -> Markup {
    let job = &life.job;
    let progress = life.progress.as_ref();
    html! {
        dl.facts {
            dt { (texts::QUEUE) } dd { (job.queue) }
            dt { (texts::ATTEMPT) } dd { (job.attempt) "/" (job.max_attempts) }
            dt { (texts::WORKFLOW) } dd { a href=(look.to(&format!("/workflows/{}", job.id))) { (texts::WAITS_FOR) } }
            dt { (texts::PRIORITY) } dd { (job.priority) }
            dt { (texts::RUNS) } dd { (time::show(look.now, job.run_at)) }
            @if let Some(lease) = &life.lease {
                dt { (texts::WORKER) }
                dd { a href={ (look.to("/workers")) "#" (lease.worker) } { code { (lease.worker) } } }
                dt { (texts::LEASE_LEFT) } dd { (left(lease)) }
            }
            dt { (texts::GENERATION) } dd { (job.generation) }
            dt { (texts::VERSION) } dd { (job.version) }
            dt { (texts::IDEMPOTENCY_KEY) } dd { code { (job.idempotency_key) } }
            @if job.cancel_requested { dt { (texts::CANCEL_REQUESTED) } dd { (texts::YES) } }
            @if let Some(progress) = progress {
                dt { (texts::PROGRESS) }
                dd {
                    progress max=(progress.total) value=(progress.done) {}
                    " " (progress.done) "/" (progress.total) " " (progress.text)
                }
            }
        }
    }
}

fn steps(look: &Look<'_>, life: &Life) -> Markup {
    let rows = html! {
        @for step in &life.steps {
            tr {
                th scope="row" { (step.name) }
                td.number { (step.generation) }
                td { (time::show(look.now, step.at)) }
                td { (secret(look, &step.result)) }
            }
        }
    };
    table(
        texts::STEPS,
        &[texts::STEPS, texts::GENERATION, texts::ENDED, texts::RESULT],
        &rows,
    )
}

/// What may be secret, if it may be shown.
pub(crate) fn secret(look: &Look<'_>, text: &str) -> Markup {
    html! { @if look.payloads { pre { (text) } } @else { p.hidden { (texts::HIDDEN) } } }
}
