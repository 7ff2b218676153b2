//! One job's whole life.

use std::time::SystemTime;

use leasehold::inspect::JobRecord;
use maud::{Markup, html};

use crate::data::{Data, Life, Source};
use crate::page::{Look, badge, frame, state_of, table};
use crate::{texts, time};

pub(crate) fn page(look: &Look<'_>, source: &dyn Source, id: i64) -> Data<Option<Markup>> {
    Ok(source.life(id)?.map(|life| whole(look, &life)))
}

fn whole(look: &Look<'_>, life: &Life) -> Markup {
    let title = format!("{} {}", texts::JOB, life.job.id);
    let content = html! {
        p.summary { (badge(state_of(&life.job, look.now))) " " strong { (life.job.kind) } }
        section { h2 { (texts::TIMELINE) } (timeline(look, life)) }
        section { h2 { (texts::FACTS) } (facts(look, life)) }
        @if !life.steps.is_empty() { section { h2 { (texts::STEPS) } (steps(look, life)) } }
        section { h2 { (texts::PAYLOAD) } (secret(look, &life.job.payload)) }
        @if let Some(result) = &life.result { section { h2 { (texts::RESULT) } (secret(look, &result.to_string())) } }
    };
    frame(look, &title, &content)
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
    moments.extend(end(job));
    moments
}

fn end(job: &JobRecord) -> Option<Moment> {
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
            dt { (texts::PRIORITY) } dd { (job.priority) }
            dt { (texts::RUNS) } dd { (time::show(look.now, job.run_at)) }
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
