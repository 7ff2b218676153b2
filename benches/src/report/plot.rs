//! Plots, drawn without any font of the system.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::files::figure;
use super::{OURS, RAW, Row};
use crate::Answer;

const WIDTH: u32 = 1000;
const LINE: i32 = 18;
const LABELS: i32 = 420;
const FIGURES: i32 = 90;

const OUR_COLOR: RGBColor = RGBColor(0x2b, 0x6c, 0xb0);
const RAW_COLOR: RGBColor = RGBColor(0xa0, 0xae, 0xc0);
const PEER_COLOR: RGBColor = RGBColor(0xd6, 0x9e, 0x2e);

/// One bar for each row, in groups of what can be compared.
pub(super) fn bars(path: &Path, title: &str, groups: &[Vec<&Row>]) -> Answer {
    let rows: usize = groups.iter().map(Vec::len).sum();
    let lines = i32::try_from(rows + 2 * groups.len() + 2)?;
    let height = u32::try_from(lines * LINE)?;
    let root = SVGBackend::new(path, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    text(&root, title, (10, 4), 16, HPos::Left)?;
    let mut y = 2 * LINE;
    for group in groups {
        let most = group.iter().map(|row| row.median()).fold(f64::MIN_POSITIVE, f64::max);
        let Row {
            what, backend, unit, ..
        } = group[0];
        text(&root, &format!("{what}, {backend}, {unit}"), (10, y), 13, HPos::Left)?;
        y += LINE;
        for row in group {
            bar(&root, row, most, y)?;
            y += LINE;
        }
        y += LINE;
    }
    root.present()?;
    Ok(())
}

fn bar(root: &DrawingArea<SVGBackend<'_>, Shift>, row: &Row, most: f64, y: i32) -> Answer {
    let width = f64::from(i32::try_from(WIDTH)? - LABELS - FIGURES);
    #[expect(clippy::cast_possible_truncation, reason = "a place on the page")]
    let length = (row.median() / most * width) as i32;
    let color = match row.system.as_str() {
        OURS => OUR_COLOR,
        RAW => RAW_COLOR,
        _ => PEER_COLOR,
    };
    let name = format!("{} {}", row.system, row.setting);
    text(root, &name, (LABELS - 8, y), 12, HPos::Right)?;
    let corners = [(LABELS, y), (LABELS + length.max(1), y + LINE - 4)];
    root.draw(&Rectangle::new(corners, color.filled()))?;
    text(root, &figure(row.median()), (LABELS + length + 6, y), 12, HPos::Left)
}

fn text(root: &DrawingArea<SVGBackend<'_>, Shift>, text: &str, place: (i32, i32), size: i32, side: HPos) -> Answer {
    let style = ("sans-serif", size).into_font().into_text_style(root);
    root.draw(&Text::new(text.to_owned(), place, style.pos(Pos::new(side, VPos::Top))))?;
    Ok(())
}

/// Lines over time or another quantity: a name and its points for each, written to `target/bench/NAME.svg`.
///
/// # Errors
///
/// When the file cannot be written.
pub fn lines(name: &str, x_axis: &str, y_axis: &str, series: &[(String, Vec<(f64, f64)>)]) -> Answer {
    const COLORS: [RGBColor; 6] = [
        OUR_COLOR,
        PEER_COLOR,
        RAW_COLOR,
        RGBColor(0x38, 0xa1, 0x69),
        RGBColor(0xc5, 0x30, 0x30),
        RGBColor(0x80, 0x5a, 0xd5),
    ];
    let path = super::files::directory()?.join(name).with_extension("svg");
    let root = SVGBackend::new(&path, (WIDTH, 500)).into_drawing_area();
    root.fill(&WHITE)?;
    let points = || series.iter().flat_map(|(_, points)| points);
    let most = |value: fn(&(f64, f64)) -> f64| points().map(value).fold(f64::MIN_POSITIVE, f64::max);
    let (right, top) = (most(|point| point.0), most(|point| point.1) * 1.05);
    let mut chart = ChartBuilder::on(&root)
        .caption(name, ("sans-serif", 16))
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(80)
        .build_cartesian_2d(0.0..right, 0.0..top)?;
    let mesh = &mut chart.configure_mesh();
    mesh.x_desc(x_axis)
        .y_desc(y_axis)
        .y_label_formatter(&|value| figure(*value))
        .draw()?;
    for ((name, points), color) in series.iter().zip(COLORS.into_iter().cycle()) {
        chart
            .draw_series(LineSeries::new(points.iter().copied(), color.stroke_width(2)))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], color.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()?;
    root.present()?;
    Ok(())
}
