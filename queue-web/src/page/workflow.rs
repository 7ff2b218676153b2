//! The workflow around a job, as a graph.

use std::collections::BTreeMap;

use leasehold::inspect::{JobSummary, Waits};
use maud::{Markup, html};

use crate::data::{Data, Source};
use crate::page::{Look, cut, frame, number, table};
use crate::search::standing;
use crate::texts;

/// Room for one job, and between two.
const WIDTH: usize = 170;
const HEIGHT: usize = 44;
const ACROSS: usize = 60;
const DOWN: usize = 18;
/// Bytes of the names of what one job waits for.
const NAMES: usize = 1000;

pub(crate) fn page(look: &Look<'_>, source: &dyn Source, id: i64) -> Data<Option<Markup>> {
    let waits = source.waits(id)?;
    Ok((!waits.jobs.is_empty()).then(|| whole(look, &waits, id)))
}

fn whole(look: &Look<'_>, waits: &Waits, id: i64) -> Markup {
    let content = html! {
        @if waits.more { p.note role="note" { (number(waits.jobs.len() as u64)) " " (texts::MORE_JOBS) } }
        (graph(look, waits, id))
        section { h2 { (texts::JOBS) } (list(look, waits)) }
    };
    frame(look, texts::WORKFLOW, &content)
}

/// Where a job stands: its column is the longest way to it from one that waits for none.
#[derive(Debug, Clone, Copy)]
struct Place {
    column: usize,
    row: usize,
}

impl Place {
    fn x(self) -> usize {
        self.column * (WIDTH + ACROSS) + 2
    }

    fn y(self) -> usize {
        self.row * (HEIGHT + DOWN) + 2
    }
}

fn places(waits: &Waits) -> BTreeMap<i64, Place> {
    let mut columns: BTreeMap<i64, usize> = waits.jobs.iter().map(|job| (job.id, 0)).collect();
    for wait in &waits.waits {
        columns.entry(wait.job).or_default();
        columns.entry(wait.on).or_default();
    }
    // As often as the longest way is long, and never more often than there are jobs: what was written by hand may go round.
    for _ in 0..columns.len() {
        let mut moved = false;
        for wait in &waits.waits {
            let before = columns.get(&wait.on).copied().unwrap_or_default();
            if let Some(column) = columns.get_mut(&wait.job).filter(|column| **column <= before) {
                *column = before + 1;
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
    let mut taken: BTreeMap<usize, usize> = BTreeMap::new();
    let place = |(id, column): (i64, usize)| {
        let row = taken.entry(column).or_default();
        *row += 1;
        (id, Place { column, row: *row - 1 })
    };
    columns.into_iter().map(place).collect()
}

fn graph(look: &Look<'_>, waits: &Waits, chosen: i64) -> Markup {
    let places = places(waits);
    let jobs: BTreeMap<i64, &JobSummary> = waits.jobs.iter().map(|job| (job.id, job)).collect();
    let width = places
        .values()
        .map(|place| place.x() + WIDTH + 2)
        .max()
        .unwrap_or_default();
    let height = places
        .values()
        .map(|place| place.y() + HEIGHT + 2)
        .max()
        .unwrap_or_default();
    html! {
        div.wide tabindex="0" role="region" aria-label=(texts::WORKFLOW) {
            svg.graph width=(width) height=(height) viewBox={ "0 0 " (width) " " (height) } role="img" aria-label=(texts::WORKFLOW) {
                @for wait in &waits.waits {
                    @if let (Some(from), Some(to)) = (places.get(&wait.on), places.get(&wait.job)) {
                        path.anyway[wait.anyway] d=(arrow(*from, *to)) { title { (wait.on) " → " (wait.job) } }
                    }
                }
                @for (id, place) in &places { (node(look, *id, *place, jobs.get(id).copied(), *id == chosen)) }
            }
        }
    }
}

fn arrow(from: Place, to: Place) -> String {
    let (x, y) = (from.x() + WIDTH, from.y() + HEIGHT / 2);
    let (end, below) = (to.x(), to.y() + HEIGHT / 2);
    let middle = (x + end) / 2;
    format!("M{x},{y} C{middle},{y} {middle},{below} {end},{below}")
}

/// One that was purged is known by its id alone.
fn node(look: &Look<'_>, id: i64, place: Place, job: Option<&JobSummary>, chosen: bool) -> Markup {
    let (state, kind) = job.map_or((texts::PURGED, ""), |job| (standing(job), job.kind.as_str()));
    html! {
        a href=(look.to(&format!("/jobs/{id}"))) {
            rect class={ "node " (state) @if chosen { " chosen" } } x=(place.x()) y=(place.y()) width=(WIDTH) height=(HEIGHT) rx="5" {
                title { (kind) " " (id) ": " (state) }
            }
            text x=(place.x() + 9) y=(place.y() + 18) { (shortened(kind)) }
            text.soft x=(place.x() + 9) y=(place.y() + 35) { (id) " · " (state) }
        }
    }
}

/// What fits into a node.
fn shortened(text: &str) -> String {
    const FITS: usize = 22;
    match text.chars().count() > FITS {
        true => text.chars().take(FITS - 1).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

fn list(look: &Look<'_>, waits: &Waits) -> Markup {
    let names = |job: i64| {
        let on = waits.waits.iter().filter(move |wait| wait.job == job);
        on.map(|wait| format!("{} ({})", wait.on, wait.name))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let rows = html! {
        @for job in &waits.jobs {
            tr {
                th scope="row" { a href=(look.to(&format!("/jobs/{}", job.id))) { (job.id) } }
                td { (super::badge(standing(job))) }
                td { (job.kind) }
                td { (job.queue) }
                td.text { (cut(&names(job.id), NAMES)) }
            }
        }
    };
    table(
        texts::JOBS,
        &[texts::ID, texts::STATE, texts::KIND, texts::QUEUE, texts::WAITS_FOR],
        &rows,
    )
}
