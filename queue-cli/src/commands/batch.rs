//! `batch`: one batch.

use std::time::SystemTime;

use leasehold::{AsBackend, batch};
use serde::Serialize;

use super::figures::{Figures, HEAD, exactly};
use crate::database::Session;
use crate::failure::Failure;
use crate::output;

#[derive(Serialize)]
struct Shown {
    id: i64,
    name: String,
    created_at: String,
    discarded_at: Option<String>,
    cancelled_at: Option<String>,
    finished_at: Option<String>,
    #[serde(flatten)]
    figures: Figures,
}

pub(super) fn run<C: AsBackend>(session: &mut Session<'_, C>, id: i64, exact: bool) -> Result<(), Failure> {
    let glance = batch::glance(session.conn, &session.schema, id)?.ok_or_else(|| missing(id))?;
    let counted = match exact {
        true => batch::record(session.conn, &session.schema, id)?.map(|record| record.counts),
        false => None,
    };
    let batch = glance.batch;
    let figures = counted.map_or(
        [
            glance.ready,
            glance.scheduled,
            glance.blocked,
            glance.running,
            batch.completed,
            batch.discarded,
            batch.cancelled,
        ],
        |counts| {
            [
                counts.ready,
                counts.scheduled,
                counts.blocked,
                counts.running,
                counts.completed,
                counts.discarded,
                counts.cancelled,
            ]
            .map(exactly)
        },
    );
    let time = |at: Option<SystemTime>| at.map(output::time);
    let shown = Shown {
        id,
        name: batch.name,
        created_at: output::time(batch.created_at),
        discarded_at: time(batch.discarded_at),
        cancelled_at: time(batch.cancelled_at),
        finished_at: time(batch.finished_at),
        figures: Figures(figures),
    };
    session.output.say(&shown, text)
}

fn missing(id: i64) -> Failure {
    Failure::Nothing(format!("there is no batch {id}: it may have been purged"))
}

fn text(shown: &Shown) -> String {
    let times = [
        ("enqueued", Some(&shown.created_at)),
        ("first discarded", shown.discarded_at.as_ref()),
        ("cancelled", shown.cancelled_at.as_ref()),
        ("finished", shown.finished_at.as_ref()),
    ];
    let times = times
        .into_iter()
        .filter_map(|(what, at)| Some(format!("{what:<16} {}", at?)));
    format!(
        "{:<16} {}\n{}\n\n{}",
        "batch",
        output::line(&shown.name),
        times.collect::<Vec<_>>().join("\n"),
        output::table(HEAD, [shown.figures.texts()])
    )
}
