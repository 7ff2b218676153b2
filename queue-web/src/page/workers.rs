//! Worker processes, and the leases that each holds.

use std::collections::BTreeMap;

use leasehold::inspect::{RunningRecord, WorkerRecord};
use maud::{Markup, html};
use uuid::Uuid;

use crate::data::{Data, Source};
use crate::page::queues::bounded;
use crate::page::{Look, frame, table};
use crate::{texts, time};

pub(crate) fn page(look: &Look<'_>, source: &dyn Source) -> Data<Markup> {
    let (workers, running) = source.workers()?;
    let mut held: BTreeMap<Uuid, Vec<&RunningRecord>> = BTreeMap::new();
    for job in &running {
        held.entry(job.worker).or_default().push(job);
    }
    let rows = html! { @for worker in &workers { (row(look, worker)) } };
    let heads = [
        texts::WORKER,
        texts::HOST,
        texts::PROCESS,
        texts::THREADS,
        texts::QUEUES,
        texts::STARTED,
        texts::SEEN,
        texts::LEASES,
    ];
    let content = html! {
        @if workers.is_empty() { p { (texts::NO_WORKERS) } } @else { (table(texts::WORKERS, &heads, &rows)) }
        @for (worker, jobs) in &held {
            section {
                h2 id=(worker) { (texts::LEASES_OF) " " code { (name(*worker)) } }
                (leases(look, jobs))
            }
        }
    };
    Ok(frame(look, texts::WORKERS, &content))
}

/// The begin of an id tells the processes apart.
pub(crate) fn name(id: Uuid) -> String {
    id.simple().to_string().chars().take(8).collect()
}

fn row(look: &Look<'_>, worker: &WorkerRecord) -> Markup {
    html! {
        tr {
            th scope="row" { a href={ "#" (worker.id) } { code { (name(worker.id)) } } }
            td { (worker.host) }
            td.number { (worker.pid) }
            td.number { (worker.threads) }
            td.text { (worker.queues.join(", ")) }
            td { (time::show(look.now, worker.started_at)) }
            td { (time::show(look.now, worker.heartbeat_at)) @if !worker.live { " " span.paused { (texts::GONE) } } }
            td.number { (bounded(worker.leases)) }
        }
    }
}

fn leases(look: &Look<'_>, jobs: &[&RunningRecord]) -> Markup {
    let rows = html! {
        @for job in jobs {
            tr {
                th scope="row" { a href=(look.to(&format!("/jobs/{}", job.id))) { (job.id) } }
                td { (job.kind) }
                td { (job.queue) }
                td.number { (job.attempt) "/" (job.max_attempts) }
                td.number { (job.generation) }
                td { (left(job)) }
                td { (progress(job)) }
            }
        }
    };
    let heads = [
        texts::JOB,
        texts::KIND,
        texts::QUEUE,
        texts::ATTEMPT,
        texts::GENERATION,
        texts::LEASE_LEFT,
        texts::PROGRESS,
    ];
    table(texts::LEASES, &heads, &rows)
}

pub(super) fn left(job: &RunningRecord) -> Markup {
    let lease = job.lease.as_millis();
    html! {
        @match job.left {
            Some(left) => { meter max=(lease) value=(left.as_millis()) aria-label=(texts::LEASE_LEFT) {} " " (time::span(left)) },
            None => span.paused { (texts::EXPIRED) },
        }
        @if !job.begun { " " small { (texts::PREFETCHED) } }
        @if job.cancel_requested_at.is_some() { " " small { (texts::CANCEL_REQUESTED) } }
    }
}

fn progress(job: &RunningRecord) -> Markup {
    html! {
        @if let Some(progress) = &job.progress {
            progress max=(progress.total) value=(progress.done) aria-label=(texts::PROGRESS) {}
            " " (progress.done) "/" (progress.total) " " (progress.text)
        }
    }
}
