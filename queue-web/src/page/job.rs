//! One job's whole life.

use leasehold::inspect::{JobSummary, State};
use maud::{Markup, html};

use crate::data::{Data, Life, Source};
use crate::page::timeline::timeline;
use crate::page::workers::left;
use crate::page::{Look, badge, cut, frame, number, table};
use crate::search::standing;
use crate::{texts, time};

/// Bytes of a payload and of a result that are shown, and of the result of one step.
const LARGEST: usize = 64 * 1024;
const STEP_RESULT: usize = 500;
/// Steps that are shown with their results.
const STEPS: usize = 200;

pub(crate) fn page(look: &Look<'_>, source: &dyn Source, id: i64) -> Data<Option<Markup>> {
    Ok(source.life(id, look.payloads)?.map(|life| whole(look, &life)))
}

fn whole(look: &Look<'_>, life: &Life) -> Markup {
    let job = &life.life.job;
    let title = format!("{} {}", texts::JOB, job.id);
    let content = html! {
        p.summary { (badge(standing(job))) " " strong { (job.kind) } }
        (actions(look, job))
        section { h2 { (texts::TIMELINE) } (timeline(look, &life.life)) }
        section { h2 { (texts::FACTS) } (facts(look, life)) }
        @if !life.steps.is_empty() { section { h2 { (texts::STEPS) } (steps(look, life)) } }
        section { h2 { (texts::PAYLOAD) } (secret(look, &life.job.payload, LARGEST)) }
        @if let Some(result) = &life.result {
            section { h2 { (texts::RESULT) } (secret(look, &result.to_string(), LARGEST)) }
        }
    };
    frame(look, &title, &content)
}

/// What can be done now. What cannot be undone is folded away, and asks for a reason.
fn actions(look: &Look<'_>, job: &JobSummary) -> Markup {
    let path = |deed: &str| format!("/jobs/{}/{deed}", job.id);
    let is_open = matches!(job.state, State::Ready | State::Running);
    let generation = job.generation.to_string();
    html! {
        @if look.may_act() {
            div.actions {
                @if matches!(job.state, State::Discarded | State::Cancelled) { (look.button(&path("requeue"), &[], texts::REQUEUE)) }
                @if job.scheduled { (look.button(&path("run"), &[("generation", &generation)], texts::RUN_NOW)) }
                @if is_open {
                    (end(look, &path("cancel"), texts::CANCEL, job.state == State::Running))
                    (end(look, &path("discard"), texts::DISCARD, false))
                }
            }
        }
    }
}

/// The form by which something is ended, folded away.
pub(crate) fn end(look: &Look<'_>, path: &str, name: &str, asks_how: bool) -> Markup {
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

fn facts(look: &Look<'_>, life: &Life) -> Markup {
    let (job, lease) = (&life.life.job, life.life.lease.as_ref());
    html! {
        dl.facts {
            dt { (texts::QUEUE) } dd { a href=(look.link("/jobs", &[("queue", Some(job.queue.as_str().into()))])) { (job.queue) } }
            dt { (texts::KIND) } dd { a href=(look.link("/jobs", &[("kind", Some(job.kind.as_str().into()))])) { (job.kind) } }
            dt { (texts::ATTEMPT) } dd { (job.attempt) "/" (job.max_attempts) }
            @if let Some(batch) = job.batch {
                dt { (texts::BATCH) } dd { a href=(look.to(&format!("/batches/{batch}"))) { (batch) } }
            }
            dt { (texts::WORKFLOW) } dd { a href=(look.to(&format!("/workflows/{}", job.id))) { (texts::WAITS) } }
            dt { (texts::PRIORITY) } dd { (job.priority) }
            dt { (texts::RUNS) } dd { (time::show(look.now, job.run_at)) }
            @if let Some(lease) = lease {
                dt { (texts::WORKER) }
                dd { a href={ (look.to("/workers")) "#" (lease.worker) } { code { (lease.worker) } } }
                dt { (texts::LEASE_LEFT) } dd { (left(lease)) }
            }
            dt { (texts::GENERATION) } dd { (job.generation) }
            dt { (texts::VERSION) } dd { (life.job.version) }
            dt { (texts::IDEMPOTENCY_KEY) } dd { code { (life.job.idempotency_key) } }
            @if life.job.cancel_requested { dt { (texts::CANCEL_REQUESTED) } dd { (texts::YES) } }
            @if let Some(progress) = lease.and_then(|lease| lease.progress.as_ref()) {
                dt { (texts::PROGRESS) }
                dd {
                    progress max=(progress.total) value=(progress.done) aria-label=(texts::PROGRESS) {}
                    " " (progress.done) "/" (progress.total) " " (progress.text)
                }
            }
        }
    }
}

fn steps(look: &Look<'_>, life: &Life) -> Markup {
    let rows = html! {
        @for step in life.steps.iter().take(STEPS) {
            tr {
                th scope="row" { (step.name) }
                td.number { (step.generation) }
                td { (time::show(look.now, step.at)) }
                td { (secret(look, &step.result, STEP_RESULT)) }
            }
        }
    };
    let heads = [texts::STEPS, texts::GENERATION, texts::ENDED, texts::RESULT];
    let left = life.steps.len().saturating_sub(STEPS) as u64;
    html! {
        (table(texts::STEPS, &heads, &rows))
        @if left > 0 { p { (number(left)) " " (texts::NOT_SHOWN) } }
    }
}

/// What may be secret, if it may be shown.
pub(crate) fn secret(look: &Look<'_>, text: &str, most: usize) -> Markup {
    html! { @if look.payloads { pre tabindex="0" { (cut(text, most)) } } @else { p.hidden { (texts::HIDDEN) } } }
}
