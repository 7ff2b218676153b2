//! Plots, drawn by the server: no script is needed to see them.

use std::time::{Duration, SystemTime};

use maud::{Markup, html};

use crate::time;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 180.0;
/// Room for the numbers on the left, above, and for the times below.
const LEFT: f64 = 52.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 20.0;

/// One row of values, a value for each stretch of time.
pub(crate) struct Series {
    /// The state whose colour it has.
    pub(crate) class: &'static str,
    pub(crate) name: &'static str,
    pub(crate) values: Vec<Option<f64>>,
}

/// Values over time.
pub(crate) struct Plot<'p> {
    pub(crate) title: &'p str,
    pub(crate) times: &'p [SystemTime],
    pub(crate) series: &'p [Series],
    /// How a value is said.
    pub(crate) say: fn(f64) -> String,
}

impl Plot<'_> {
    /// Bars, one on the other.
    pub(crate) fn bars(&self) -> Markup {
        let sums = (0..self.times.len()).map(|at| self.series.iter().filter_map(|series| value(series, at)).sum());
        let top = nice(sums.fold(0.0, f64::max));
        let width = self.step() * 0.8;
        self.figure(
            top,
            &html! {
                @for at in 0..self.times.len() {
                    @for (series, below, value) in self.stacked(at) {
                        rect class=(series.class) x=(short(self.x(at) + self.step() * 0.1)) width=(short(width))
                            y=(short(y(below + value, top))) height=(short(y(below, top) - y(below + value, top))) {
                            title { (self.label(series, at, value)) }
                        }
                    }
                }
            },
        )
    }

    /// One line for each series, with a gap where there is no value.
    pub(crate) fn lines(&self) -> Markup {
        let all = self.series.iter().flat_map(|series| series.values.iter().flatten());
        let top = nice(all.copied().fold(0.0, f64::max));
        self.figure(top, &html! {
            @for series in self.series {
                @for line in self.pieces(series, top) { polyline class=(series.class) points=(line) {} }
                @for at in 0..self.times.len() {
                    @if let Some(value) = value(series, at) {
                        circle class=(series.class) cx=(short(self.x(at) + self.step() / 2.0)) cy=(short(y(value, top))) r="2.5" {
                            title { (self.label(series, at, value)) }
                        }
                    }
                }
            }
        })
    }

    fn stacked(&self, at: usize) -> Vec<(&Series, f64, f64)> {
        let mut below = 0.0;
        let mut stack = Vec::new();
        for series in self.series {
            if let Some(value) = value(series, at).filter(|value| *value > 0.0) {
                stack.push((series, below, value));
                below += value;
            }
        }
        stack
    }

    fn pieces(&self, series: &Series, top: f64) -> Vec<String> {
        let points: Vec<Option<String>> = (0..self.times.len())
            .map(|at| value(series, at).map(|value| (at, value)))
            .map(|point| {
                point.map(|(at, value)| format!("{},{}", short(self.x(at) + self.step() / 2.0), short(y(value, top))))
            })
            .collect();
        let pieces = points.split(Option::is_none).filter(|piece| piece.len() > 1);
        pieces
            .map(|piece| piece.iter().flatten().cloned().collect::<Vec<_>>().join(" "))
            .collect()
    }

    fn figure(&self, top: f64, shapes: &Markup) -> Markup {
        let right = short(WIDTH - 4.0);
        html! {
            figure.plot {
                figcaption {
                    (self.title)
                    @for series in self.series { " " span class={ "key " (series.class) } { (series.name) } }
                }
                svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label=(self.title) {
                    @for share in [0.0, 0.5, 1.0] {
                        line.grid x1=(LEFT) x2=(right) y1=(short(y(top * share, top))) y2=(short(y(top * share, top))) {}
                        text x=(LEFT - 6.0) y=(short(y(top * share, top) + 4.0)) text-anchor="end" { ((self.say)(top * share)) }
                    }
                    @for (at, anchor) in self.marks() {
                        text x=(short(self.x(at) + self.step() / 2.0)) y=(HEIGHT - 5.0) text-anchor=(anchor) {
                            (minute(self.times[at]))
                        }
                    }
                    (shapes)
                }
            }
        }
    }

    /// The times that are written below: the first, the middle and the last.
    fn marks(&self) -> Vec<(usize, &'static str)> {
        match self.times.len() {
            0 => Vec::new(),
            1 => vec![(0, "middle")],
            count => vec![(0, "start"), (count / 2, "middle"), (count - 1, "end")],
        }
    }

    fn label(&self, series: &Series, at: usize, value: f64) -> String {
        format!("{}: {} {}", minute(self.times[at]), (self.say)(value), series.name)
    }

    fn step(&self) -> f64 {
        (WIDTH - LEFT - 4.0) / self.times.len().max(1) as f64
    }

    fn x(&self, at: usize) -> f64 {
        LEFT + self.step() * at as f64
    }
}

fn value(series: &Series, at: usize) -> Option<f64> {
    series.values.get(at).copied().flatten()
}

fn y(value: f64, top: f64) -> f64 {
    TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - value / top)
}

/// The next of 1, 2, 5, 10, 20, … that is not below.
fn nice(most: f64) -> f64 {
    let mut unit = 1.0;
    loop {
        for step in [1.0, 2.0, 5.0] {
            if unit * step >= most {
                return unit * step;
            }
        }
        unit *= 10.0;
    }
}

fn short(number: f64) -> String {
    format!("{number:.1}")
}

/// `08:15Z`.
fn minute(at: SystemTime) -> String {
    format!("{}Z", time::iso(at).get(11..16).unwrap_or_default())
}

/// A count, as a plot says it.
pub(crate) fn count(value: f64) -> String {
    let digits = if value.fract() == 0.0 { 0 } else { 1 };
    format!("{value:.digits$}")
}

/// Milliseconds, as a plot says them.
pub(crate) fn millis(value: f64) -> String {
    time::span(Duration::from_secs_f64(value.max(0.0) / 1000.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(values: Vec<Option<f64>>, draw: impl Fn(&Plot<'_>) -> Markup) -> String {
        let times: Vec<SystemTime> = (0..values.len() as u64)
            .map(|minute| SystemTime::UNIX_EPOCH + Duration::from_secs(60 * minute))
            .collect();
        let series = [Series {
            class: "completed",
            name: "completed",
            values,
        }];
        let plot = Plot {
            title: "t",
            times: &times,
            series: &series,
            say: count,
        };
        draw(&plot).into_string()
    }

    #[test]
    fn a_scale_ends_at_a_round_number() {
        assert_eq!(
            [0.0, 1.0, 3.0, 10.0, 11.0, 450.0].map(nice),
            [1.0, 1.0, 5.0, 10.0, 20.0, 500.0]
        );
    }

    #[test]
    fn bars_fill_the_plot_up_to_the_scale() {
        let text = plot(vec![Some(10.0), None, Some(5.0)], |plot| plot.bars());
        assert!(text.contains("height=\"152.0\""), "{text}");
        assert!(text.contains("height=\"76.0\""), "{text}");
        assert_eq!(text.matches("<rect").count(), 2);
        assert!(text.contains("00:02Z: 5 completed"), "{text}");
    }

    #[test]
    fn a_line_has_a_gap_where_there_is_no_value() {
        let text = plot(
            vec![Some(1.0), Some(2.0), None, Some(3.0), Some(3.0), None, Some(1.0)],
            |plot| plot.lines(),
        );
        assert_eq!(text.matches("<polyline").count(), 2);
        assert_eq!(text.matches("<circle").count(), 5);
    }

    #[test]
    fn nothing_at_all_is_drawn_as_an_empty_plot() {
        assert!(!plot(Vec::new(), |plot| plot.bars()).contains("NaN"));
        assert!(!plot(vec![None], |plot| plot.lines()).contains("NaN"));
    }
}
