//! What happened to a job, and what is to come.

use leasehold::inspect::{
    ActionRecord, ErrorRecord, Happening, JobSummary, Life, Moment, RunningRecord, State, Target,
};
use maud::{Markup, html};

use crate::page::{Look, cut, number};
use crate::search::standing;
use crate::{texts, time};

/// Moments that are shown: the first ones and the last ones.
const FIRST: usize = 50;
const LAST: usize = 200;
/// Bytes of the errors of the last attempts, and of earlier ones.
const ERROR: usize = 8 * 1024;
const EARLIER_ERROR: usize = 300;
/// Attempts whose errors are shown whole.
const WHOLE: usize = 10;

pub(crate) fn timeline(look: &Look<'_>, life: &Life) -> Markup {
    let moments = &life.moments;
    let left = moments.len().saturating_sub(FIRST + LAST);
    let is_failed = |moment: &Moment| matches!(moment.what, Happening::Failed(_));
    let failed = moments.iter().enumerate().filter(|(_, moment)| is_failed(moment));
    let whole = failed.rev().nth(WHOLE - 1).map_or(0, |(at, _)| at);
    html! {
        ol.timeline {
            @for (at, moment) in moments.iter().enumerate() {
                @if left == 0 || at < FIRST || at >= moments.len() - LAST { (shown(look, moment, if at < whole { EARLIER_ERROR } else { ERROR })) }
                @else if at == FIRST { li.cancelled { div { (number(left as u64)) " " (texts::NOT_SHOWN) } } }
            }
            @if let Some(lease) = &life.lease { (held(look, lease)) }
            @else if life.job.finished_at.is_none() { (to_come(look, &life.job)) }
        }
        p.hint { (texts::NOT_RECORDED) }
    }
}

/// Of an error, `most` bytes are shown.
fn shown(look: &Look<'_>, moment: &Moment, most: usize) -> Markup {
    let (class, what) = match &moment.what {
        Happening::Enqueued => (texts::READY, html! { (texts::WAS_ENQUEUED) }),
        Happening::Step { name, generation } => (
            texts::RUNNING,
            html! { (texts::WAS_STEP) " " code { (name) } ", " (texts::GENERATION) " " (generation) },
        ),
        Happening::Progress(progress) => (
            texts::RUNNING,
            html! { (texts::WAS_PROGRESS) " " (progress.done) "/" (progress.total) " " (progress.text) },
        ),
        Happening::Failed(error) => (texts::DISCARDED, attempt(error, most)),
        Happening::Acted(action) => (texts::SCHEDULED, acted(action)),
        Happening::CancelRequested => (texts::CANCELLED, html! { (texts::CANCEL_REQUESTED) }),
        Happening::Ended {
            state,
            attempt,
            generation,
            reason,
        } => (state.as_str(), ended(*state, *attempt, *generation, reason.as_deref())),
        // Of a newer library.
        _ => (texts::READY, html! { (texts::WAS_CHANGED) }),
    };
    html! { li class=(class) { (time::show(look.now, moment.at)) div { (what) } } }
}

fn attempt(error: &ErrorRecord, most: usize) -> Markup {
    html! {
        (texts::ATTEMPT) " " (error.attempt) ", " (texts::GENERATION) " " (error.generation) ": "
        (texts::WAS_FAILED) " (" (error.cause) ")"
        pre tabindex="0" { (cut(&error.error, most)) }
    }
}

fn ended(state: State, attempt: u32, generation: i64, reason: Option<&str>) -> Markup {
    html! {
        (state.as_str()) ", "
        @if attempt > 0 { (texts::ATTEMPT) " " (attempt) ", " }
        (texts::GENERATION) " " (generation)
        @if let Some(reason) = reason { pre tabindex="0" { (cut(reason, ERROR)) } }
    }
}

fn acted(action: &ActionRecord) -> Markup {
    html! {
        (action.action) ", " (texts::BY_WHOM) " " strong { (action.by) }
        @if let Target::Job { generation, new_generation, .. } = action.target {
            ", " (texts::GENERATION) " " (generation)
            @if new_generation != generation { " → " (new_generation) }
        }
        @if let Some(reason) = &action.reason { pre tabindex="0" { (cut(reason, EARLIER_ERROR)) } }
    }
}

/// The attempt that somebody has a lease for, now.
fn held(look: &Look<'_>, lease: &RunningRecord) -> Markup {
    html! {
        li.running {
            span.now { (texts::NOW) }
            div {
                (texts::ATTEMPT) " " (lease.attempt) ", " (texts::GENERATION) " " (lease.generation) ": "
                @if lease.begun { (texts::RUNNING) } @else { (texts::PREFETCHED) }
                ", " (texts::BY_WORKER) " "
                a href={ (look.to("/workers")) "#" (lease.worker) } { code { (super::workers::name(lease.worker)) } }
                ". "
                @match lease.left {
                    Some(left) => {
                        (texts::RENEWED) " " (time::span(lease.lease.saturating_sub(left))) " " (texts::AGO) "; "
                        (texts::HOLDS) " " (time::span(left)) "."
                    },
                    None => span.paused { (texts::LEASE_EXPIRED) },
                }
            }
        }
    }
}

/// What a job waits for.
fn to_come(look: &Look<'_>, job: &JobSummary) -> Markup {
    let state = standing(job);
    html! {
        li class=(state) {
            span.now { (texts::NOW) }
            div {
                @match state {
                    texts::SCHEDULED => { (texts::WILL_RUN) " " (time::show(look.now, job.run_at)) },
                    texts::BLOCKED => (texts::IS_BLOCKED),
                    _ => (texts::IS_DUE),
                }
                @if job.attempt > 0 { " (" (texts::ATTEMPT) " " (job.attempt + 1) "/" (job.max_attempts) ")" }
            }
        }
    }
}
