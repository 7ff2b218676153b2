//! `stats`: jobs by queue and state.

use std::collections::BTreeMap;

use leasehold::inspect::{self, Count, State};
use leasehold::{AsBackend, manage};
use serde::Serialize;

use super::figures::{Figures, HEAD};
use crate::cli::Stats;
use crate::database::Session;
use crate::failure::Failure;
use crate::output;

#[derive(Serialize)]
struct Shown {
    queue: String,
    #[serde(flatten)]
    figures: Figures,
    /// Its jobs, or all, are paused; a pause of a kind is not told here.
    paused: bool,
}

pub(super) fn run<C: AsBackend>(session: &mut Session<'_, C>, what: &Stats) -> Result<(), Failure> {
    let queues = match what.exact {
        true => exact(session)?,
        false => bounded(session)?,
    };
    let pauses = manage::pauses(session.conn, &session.schema)?;
    let is_paused = |queue: &str| {
        pauses.iter().any(|pause| match pause.scope() {
            manage::Scope::All => true,
            manage::Scope::Queue(name) => name == queue,
            manage::Scope::Kind(_) => false,
        })
    };
    let queues: Vec<Shown> = queues
        .into_iter()
        .map(|(queue, figures)| Shown {
            paused: is_paused(&queue),
            queue,
            figures,
        })
        .collect();
    session.output.say(&queues, |queues| {
        let rows = queues.iter().map(|queue| {
            let [ready, scheduled, blocked, running, completed, discarded, cancelled] = queue.figures.texts();
            let paused = if queue.paused { "yes" } else { "" }.to_owned();
            let queue = output::line(&queue.queue);
            [
                queue, ready, scheduled, blocked, running, completed, discarded, cancelled, paused,
            ]
        });
        let [ready, scheduled, blocked, running, completed, discarded, cancelled] = HEAD;
        let head = [
            "QUEUE", ready, scheduled, blocked, running, completed, discarded, cancelled, "PAUSED",
        ];
        output::table(head, rows)
    })
}

fn bounded<C: AsBackend>(session: &mut Session<'_, C>) -> Result<BTreeMap<String, Figures>, Failure> {
    let mut queues: BTreeMap<String, Figures> = BTreeMap::new();
    for record in inspect::queues(session.conn, &session.schema)? {
        let figures = &mut queues.entry(record.queue).or_default().0;
        figures[..4].copy_from_slice(&[record.ready, record.scheduled, record.blocked, record.running]);
    }
    // Of a queue that nothing was counted of there may be more, too.
    let mut none = [Count::default(); 3];
    for record in inspect::ended(session.conn, &session.schema)? {
        let ended = [record.completed, record.discarded, record.cancelled];
        queues.entry(record.queue).or_default().0[4..].copy_from_slice(&ended);
        none = ended;
    }
    for figures in queues.values_mut() {
        for (count, none) in figures.0[4..].iter_mut().zip(none) {
            count.more |= none.more;
        }
    }
    Ok(queues)
}

fn exact<C: AsBackend>(session: &mut Session<'_, C>) -> Result<BTreeMap<String, Figures>, Failure> {
    let mut queues: BTreeMap<String, Figures> = BTreeMap::new();
    for count in inspect::counts(session.conn, &session.schema)? {
        let figure = match count.state {
            State::Ready if count.scheduled => 1,
            State::Ready if count.blocked => 2,
            State::Ready => 0,
            State::Running => 3,
            State::Completed => 4,
            State::Discarded => 5,
            State::Cancelled => 6,
            // A later library's.
            _ => continue,
        };
        queues.entry(count.queue).or_default().0[figure].rows += count.jobs;
    }
    Ok(queues)
}
