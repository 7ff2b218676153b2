//! Paints the view: 80 columns are enough.

use leasehold::inspect::Rate;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Row, Table, TableState};

use super::rows;
use super::view::{Pane, View};
use crate::output;

const KEYS: &str = "Tab pane  ↑↓ row  p pause/resume  c cancel  C cancel at once  r requeue  q quit";
/// Seconds of the rates that have room.
const SECONDS: usize = 40;

pub(super) fn draw(frame: &mut Frame<'_>, view: &View) {
    let lines = |count: usize| u16::try_from(count).unwrap_or(u16::MAX).saturating_add(2);
    let [rates, queues, running, failures, said, keys] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Max(lines(view.look.queues.len().max(1)).min(frame.area().height / 3)),
        Constraint::Fill(1),
        Constraint::Fill(1),
        Constraint::Length(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    draw_rates(frame, view, rates);
    let shown = &view.look;
    let rows = shown.queues.iter().map(|queue| rows::queue(view, queue)).collect();
    table(frame, view, Pane::Queues, queues, rows::QUEUES, rows);
    let rows = shown.running.iter().map(|job| rows::running(shown, job)).collect();
    table(frame, view, Pane::Running, running, rows::RUNNING, rows);
    let rows = shown.failures.iter().map(rows::failure).collect();
    table(frame, view, Pane::Failures, failures, rows::FAILURES, rows);
    frame.render_widget(below(view), said);
    frame.render_widget(Line::styled(KEYS, Modifier::DIM), keys);
}

/// A question stands out: whatever is pressed next answers it.
fn below(view: &View) -> Line<'static> {
    match (&view.asks, &view.said) {
        (Some(action), _) => Line::styled(format!("{} [y/N]", action.question()), Modifier::REVERSED),
        (None, Some(text)) => Line::raw(output::line(text)),
        (None, None) => Line::default(),
    }
}

fn draw_rates(frame: &mut Frame<'_>, view: &View, area: Rect) {
    let line = |name: &'static str, figure: fn(&Rate) -> leasehold::inspect::Count| {
        let ended = view.look.ended(figure);
        let more = if ended.more { "+" } else { "" };
        let text = format!(
            "{name:<10}{:SECONDS$}{:>8.1}{more}/s",
            rows::spark(&ended.by_second, SECONDS),
            ended.rate
        );
        Line::raw(text)
    };
    let mut completed = line("completed", |rate| rate.completed);
    if let Some(latency) = view.look.latency() {
        completed.push_span(Span::raw(format!("  p95 {}", rows::exact(latency.p95))));
    }
    let [first, second] = Layout::vertical([Constraint::Length(1); 2]).areas(area);
    frame.render_widget(completed, first);
    frame.render_widget(line("discarded", |rate| rate.discarded), second);
}

fn table(
    frame: &mut Frame<'_>,
    view: &View,
    pane: Pane,
    area: Rect,
    columns: &[rows::Column],
    rows: Vec<Row<'static>>,
) {
    let focused = view.pane == pane;
    let (title, at) = match pane {
        Pane::Queues => ("queues", view.queue.at()),
        Pane::Running => ("running", view.running.at()),
        Pane::Failures => ("failures", view.failure.at()),
    };
    let head = Style::default().add_modifier(if focused { Modifier::BOLD } else { Modifier::DIM });
    let table = Table::new(rows, columns.iter().map(|(_, width, _)| *width))
        .header(rows::head(columns).style(head))
        .column_spacing(1)
        .block(Block::default().borders(Borders::TOP).border_style(head).title(title))
        .row_highlight_style(Style::default().add_modifier(if focused {
            Modifier::REVERSED
        } else {
            Modifier::empty()
        }));
    frame.render_stateful_widget(table, area, &mut TableState::default().with_selected(at));
}
