//! Rows of the three tables.

use std::time::Duration;

use leasehold::inspect::{FailureRecord, QueueRecord, RunningRecord};
use ratatui::layout::Constraint;
use ratatui::style::{Color, Style};
use ratatui::text::Text;
use ratatui::widgets::{Cell, Row};

use super::look::Look;
use super::view::View;
use crate::output;

/// Eight heights; a zero is a gap.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Looks of a queue's depth that have room.
const LOOKS: usize = 12;

/// A column's name, how wide it is, and whether its values stand at the right.
pub(super) type Column = (&'static str, Constraint, bool);

pub(super) const QUEUES: &[Column] = &[
    ("QUEUE", Constraint::Fill(1), false),
    ("READY", Constraint::Length(7), true),
    ("SCHEDULED", Constraint::Length(9), true),
    ("BLOCKED", Constraint::Length(7), true),
    ("RUNNING", Constraint::Length(7), true),
    ("OLDEST", Constraint::Length(6), true),
    ("", Constraint::Length(6), false),
    ("DEPTH", Constraint::Length(12), false),
];

pub(super) const RUNNING: &[Column] = &[
    ("ID", Constraint::Length(10), true),
    ("KIND", Constraint::Fill(2), false),
    ("QUEUE", Constraint::Fill(1), false),
    ("ATTEMPT", Constraint::Length(7), true),
    ("LEASE", Constraint::Length(10), true),
    ("PROGRESS", Constraint::Length(22), false),
];

pub(super) const FAILURES: &[Column] = &[
    ("ID", Constraint::Length(10), true),
    ("KIND", Constraint::Length(18), false),
    ("ATTEMPT", Constraint::Length(7), true),
    ("WHEN", Constraint::Length(9), true),
    ("ERROR", Constraint::Fill(1), false),
];

pub(super) fn head(columns: &[Column]) -> Row<'static> {
    columns
        .iter()
        .map(|(name, _, right)| if *right { number(name) } else { Cell::from(*name) })
        .collect()
}

pub(super) fn queue(view: &View, queue: &QueueRecord) -> Row<'static> {
    let oldest = queue.oldest.map(output::length).unwrap_or_default();
    Row::new([
        Cell::from(output::line(&queue.queue)),
        number(queue.ready),
        number(queue.scheduled),
        number(queue.blocked),
        number(queue.running),
        number(oldest),
        Cell::from(if queue.paused { "paused" } else { "" }).style(Style::default().fg(Color::Yellow)),
        Cell::from(spark(&view.depths(&queue.queue), LOOKS)),
    ])
}

pub(super) fn running(look: &Look, job: &RunningRecord) -> Row<'static> {
    let lease = match look.left(job) {
        Some(left) => number(format!("{}/{}", output::length(left), output::length(job.lease))).style(Style::default()),
        None => number("expired").style(Style::default().fg(Color::Red)),
    };
    Row::new([
        number(job.id),
        Cell::from(output::line(&job.kind)),
        Cell::from(output::line(&job.queue)),
        number(format!("{}/{}", job.attempt, job.max_attempts)),
        lease,
        Cell::from(progress(job)),
    ])
}

fn progress(job: &RunningRecord) -> String {
    let stops = if job.cancel_requested_at.is_some() {
        "to stop "
    } else {
        ""
    };
    let told = match &job.progress {
        Some(told) => format!("{}/{} {}", told.done, told.total, output::line(&told.text)),
        None if job.begun => String::new(),
        None => "prefetched".to_owned(),
    };
    format!("{stops}{told}")
}

pub(super) fn failure(failure: &FailureRecord) -> Row<'static> {
    Row::new([
        number(failure.job),
        Cell::from(output::line(&failure.kind)),
        number(failure.error.attempt),
        number(output::distance(failure.error.at)),
        Cell::from(output::short(&failure.error.error, 200)).style(Style::default().fg(Color::Red)),
    ])
}

fn number(value: impl ToString) -> Cell<'static> {
    Cell::from(Text::from(value.to_string()).right_aligned())
}

/// The last `width` of `values`, as high as they are beside the highest.
pub(super) fn spark(values: &[u64], width: usize) -> String {
    let last = &values[values.len().saturating_sub(width)..];
    let most = last.iter().copied().max().unwrap_or(0);
    let bar = |value: u64| match value {
        0 => ' ',
        value => {
            let height = (u128::from(value) * 8).div_ceil(u128::from(most));
            usize::try_from(height - 1)
                .ok()
                .and_then(|at| BARS.get(at))
                .copied()
                .unwrap_or('█')
        }
    };
    last.iter().copied().map(bar).collect()
}

/// To the millisecond while it is short.
pub(super) fn exact(duration: Duration) -> String {
    match duration.as_millis() {
        ms @ 0..=9_999 => format!("{ms}ms"),
        _ => output::length(duration),
    }
}

#[cfg(test)]
mod tests {
    use super::spark;

    #[test]
    fn the_highest_bar_is_the_highest_value() {
        assert_eq!(spark(&[9, 0, 1, 4, 8], 4), " ▁▄█");
        assert_eq!(spark(&[], 4), "");
        assert_eq!(spark(&[u64::MAX, 1], 4), "█▁");
    }
}
