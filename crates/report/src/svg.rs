//! A plot as SVG: one file without scripts, for papers and for where the page cannot go.

use std::fmt::Write as _;

use tailbound_time::Duration;

use crate::html::escaped;
use crate::palette::{Palette, Theme};
use crate::ticks::ticks;
use crate::{Plot, PlotSeries, Scale, SeriesKind, VerticalAxis};

const WIDTH: f64 = 840.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 64.0;
const FIELD: f64 = 340.0;
const LEGEND_ROW: f64 = 24.0;

/// How coordinates map onto the picture.
struct PlotArea {
    axis: VerticalAxis,
    scale: Scale,
    shortest: Duration,
    longest: Duration,
    floor: f64,
}

impl PlotArea {
    fn x(&self, at: Duration) -> f64 {
        let ns = |at: Duration| at.as_nanos() as f64;
        let share = match self.scale {
            Scale::Linear => ns(at) / ns(self.longest),
            Scale::Logarithmic => {
                let decades = |at: Duration| ns(at.max(self.shortest)).log10();
                let start = decades(self.shortest);
                (decades(at) - start) / (decades(self.longest) - start)
            }
        };
        LEFT + share.clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, cumulative: f64) -> f64 {
        let height = match self.axis {
            VerticalAxis::Share => cumulative,
            VerticalAxis::Tail => {
                let tail = (1.0 - cumulative).max(self.floor);
                1.0 - tail.log10() / self.floor.log10()
            }
        };
        TOP + FIELD * (1.0 - height)
    }
}

/// Draws `plot` as an SVG document, on the scale of latencies that shows all of its series (see
/// [`Plot::scale`]).
pub fn render_svg(plot: &Plot, axis: VerticalAxis, theme: Theme) -> String {
    render_svg_on(plot, axis, plot.scale(axis), theme)
}

/// Draws `plot` as an SVG document on a given scale of latencies. An arrow in the legend marks a
/// series that runs on beyond the right edge of a linear one.
pub fn render_svg_on(plot: &Plot, axis: VerticalAxis, scale: Scale, theme: Theme) -> String {
    draw_plot(plot, axis, scale, &theme.palette())
}

/// Draws `plot` in the colours of a palette.
pub(crate) fn draw_plot(
    plot: &Plot,
    axis: VerticalAxis,
    scale: Scale,
    palette: &Palette,
) -> String {
    let (shortest, longest) = plot.range(axis, scale);
    let frame = PlotArea {
        axis,
        scale,
        shortest,
        longest,
        floor: plot.tail_floor(),
    };
    let rows = legend_places(plot).last().map_or(0, |(_, row)| row + 1) as f64;
    let height = TOP + FIELD + 72.0 + rows * LEGEND_ROW;
    let mut out = String::new();
    let title = plot.quantity.title(axis);
    put(
        &mut out,
        format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" role=\"img\" \
         font-family=\"'DejaVu Sans', system-ui, sans-serif\" font-size=\"12\">\
         <title>{}: {title}</title><desc>{}</desc>\
         <rect width=\"100%\" height=\"100%\" fill=\"{}\"/>\
         <text x=\"{LEFT}\" y=\"28\" font-size=\"16\" font-weight=\"bold\" fill=\"{}\">{}</text>\
         <text x=\"{LEFT}\" y=\"47\" fill=\"{}\">{title}</text>",
            escaped(&plot.service),
            escaped(&plot.description),
            palette.ground,
            palette.ink,
            escaped(&plot.service),
            palette.faint_ink,
        ),
    );
    vertical_axis(&mut out, &frame, palette);
    horizontal_axis(&mut out, &frame, palette);
    for series in &plot.series {
        draw(&mut out, series, &frame, palette);
    }
    mark_promises(&mut out, plot, &frame, palette);
    legend(&mut out, plot, &frame, palette);
    out.push_str("</svg>\n");
    out
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _written = out.write_fmt(text);
}

fn vertical_axis(out: &mut String, frame: &PlotArea, palette: &Palette) {
    let ticks: Vec<(f64, String)> = match frame.axis {
        VerticalAxis::Share => (0..=5)
            .map(|fifth| (f64::from(fifth) / 5.0, format!("{} %", fifth * 20)))
            .collect(),
        VerticalAxis::Tail => {
            let decades = -frame.floor.log10().round() as i32;
            (0..=decades)
                .map(|decade| {
                    let tail = 10_f64.powi(-decade);
                    let digits = usize::try_from((decade - 2).max(0)).unwrap_or(0);
                    (1.0 - tail, format!("{:.digits$} %", tail * 100.0))
                })
                .collect()
        }
    };
    for (cumulative, label) in ticks {
        let y = frame.y(cumulative);
        put(
            out,
            format_args!(
                "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"{}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"{}\">{label}</text>",
                WIDTH - RIGHT,
                palette.grid,
                LEFT - 10.0,
                y + 4.0,
                palette.faint_ink,
            ),
        );
    }
}

fn horizontal_axis(out: &mut String, frame: &PlotArea, palette: &Palette) {
    let bottom = TOP + FIELD;
    for tick in ticks(frame.scale, frame.shortest, frame.longest) {
        let x = frame.x(tick.at);
        let length = if tick.label.is_some() { 5.0 } else { 3.0 };
        put(
            out,
            format_args!(
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{bottom}\" y2=\"{:.1}\" stroke=\"{}\"/>",
                bottom + length,
                palette.axis,
            ),
        );
        if let Some(label) = tick.label {
            put(
                out,
                format_args!(
                    "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"{}\">{label}\
                     </text>",
                    bottom + 20.0,
                    palette.faint_ink,
                ),
            );
        }
    }
    let title = match frame.scale {
        Scale::Linear => "latency",
        Scale::Logarithmic => "latency, logarithmic",
    };
    put(
        out,
        format_args!(
            "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{bottom}\" y2=\"{bottom}\" stroke=\"{}\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"{}\">{title}</text>",
            WIDTH - RIGHT,
            palette.axis,
            WIDTH - RIGHT,
            bottom + 40.0,
            palette.faint_ink,
        ),
    );
}

/// The corners of a step function from the left edge to the right one, or to its last step where
/// nobody knows the rest.
fn corners(steps: &[(Duration, f64)], frame: &PlotArea) -> Vec<(f64, f64)> {
    let mut corners = vec![(frame.x(Duration::ZERO), frame.y(0.0))];
    let mut before = frame.y(0.0);
    for (at, cumulative) in steps {
        if *at > frame.longest {
            break;
        }
        let (x, y) = (frame.x(*at), frame.y(*cumulative));
        corners.push((x, before));
        corners.push((x, y));
        before = y;
    }
    let complete = steps.last().is_some_and(|(_, last)| *last >= 1.0);
    let cut = steps.last().is_some_and(|(at, _)| *at > frame.longest);
    if cut || (complete && frame.axis == VerticalAxis::Share) {
        corners.push((WIDTH - RIGHT, before));
    }
    corners
}

fn path(corners: &[(f64, f64)]) -> String {
    let mut path = String::new();
    for (index, (x, y)) in corners.iter().enumerate() {
        let command = if index == 0 { 'M' } else { 'L' };
        put(&mut path, format_args!("{command}{x:.1} {y:.1}"));
    }
    path
}

fn draw(out: &mut String, series: &PlotSeries, frame: &PlotArea, palette: &Palette) {
    let colour = palette.variant(series.colour);
    let upper = corners(&series.upper, frame);
    let mut lines = vec![path(&upper)];
    if let Some(lower) = &series.lower {
        let lower = corners(lower, frame);
        let mut outline = upper;
        outline.extend(lower.iter().rev());
        put(
            out,
            format_args!(
                "<path d=\"{}Z\" fill=\"{colour}\" fill-opacity=\"0.16\"/>",
                path(&outline)
            ),
        );
        lines.push(path(&lower));
    }
    for line in lines {
        put(
            out,
            format_args!(
                "<path d=\"{line}\" fill=\"none\" stroke=\"{colour}\" stroke-linejoin=\"round\" {}/>",
                stroke(series.kind)
            ),
        );
    }
}

fn stroke(kind: SeriesKind) -> &'static str {
    match kind {
        SeriesKind::Predicted => "stroke-width=\"1\" stroke-opacity=\"0.75\"",
        SeriesKind::Simulated => "stroke-width=\"1.6\" stroke-dasharray=\"6 4\"",
        SeriesKind::Measured => "stroke-width=\"2.2\"",
    }
}

fn mark_promises(out: &mut String, plot: &Plot, frame: &PlotArea, palette: &Palette) {
    for promise in &plot.promises {
        let (x, y) = (frame.x(promise.latency), frame.y(promise.probability));
        let to_the_left = x > WIDTH - RIGHT - 150.0;
        let (anchor, text_x) = if to_the_left {
            ("end", x - 9.0)
        } else {
            ("start", x + 9.0)
        };
        put(
            out,
            format_args!(
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{:.1}\" stroke=\"{ink}\" \
             stroke-dasharray=\"2 4\" stroke-opacity=\"0.6\"/>\
             <circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{}\" stroke=\"{ink}\" \
             stroke-width=\"1.6\"/>\
             <text x=\"{text_x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\" fill=\"{ink}\" \
             paint-order=\"stroke\" stroke=\"{}\" stroke-width=\"4\">{}</text>",
                TOP + FIELD,
                palette.ground,
                y + 16.0,
                palette.ground,
                escaped(&promise.label),
                ink = palette.ink,
            ),
        );
    }
}

/// Where every entry of the legend goes, as column and row: a variant begins a row.
fn legend_places(plot: &Plot) -> Vec<(usize, usize)> {
    let columns = legend_columns(plot);
    let mut places: Vec<(usize, usize)> = Vec::new();
    for (index, series) in plot.series.iter().enumerate() {
        let place = match places.last() {
            None => (0, 0),
            Some((column, row)) => {
                let same_variant = plot.series[index - 1].variant == series.variant;
                if same_variant && column + 1 < columns {
                    (column + 1, *row)
                } else {
                    (0, row + 1)
                }
            }
        };
        places.push(place);
    }
    places
}

/// Three columns for short labels, two for long ones.
fn legend_columns(plot: &Plot) -> usize {
    let longest = plot
        .series
        .iter()
        .map(|series| series.label.chars().count())
        .max();
    if longest.unwrap_or(0) <= 28 { 3 } else { 2 }
}

fn legend(out: &mut String, plot: &Plot, frame: &PlotArea, palette: &Palette) {
    let columns = legend_columns(plot);
    for (series, (column, row)) in plot.series.iter().zip(legend_places(plot)) {
        let x = LEFT + column as f64 * (WIDTH - LEFT - RIGHT) / columns as f64;
        let y = TOP + FIELD + 64.0 + row as f64 * LEGEND_ROW;
        let colour = palette.variant(series.colour);
        if series.lower.is_some() {
            put(
                out,
                format_args!(
                    "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"28\" height=\"10\" fill=\"{colour}\" \
                 fill-opacity=\"0.2\" stroke=\"{colour}\" stroke-opacity=\"0.75\"/>",
                    y - 9.0
                ),
            );
        } else {
            put(
                out,
                format_args!(
                    "<line x1=\"{x:.1}\" x2=\"{:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\" {}/>",
                    x + 28.0,
                    y - 4.0,
                    y - 4.0,
                    stroke(series.kind)
                ),
            );
        }
        let goes_on = if series.reach(frame.axis) > frame.longest {
            " \u{2192}"
        } else {
            ""
        };
        put(
            out,
            format_args!(
                "<text x=\"{:.1}\" y=\"{y:.1}\" fill=\"{}\">{}{goes_on}</text>",
                x + 38.0,
                palette.ink,
                escaped(&shortened(&series.label)),
            ),
        );
    }
}

/// A label cut to the width of its column.
fn shortened(label: &str) -> String {
    const LONGEST: usize = 46;
    if label.chars().count() <= LONGEST {
        return label.into();
    }
    label
        .chars()
        .take(LONGEST - 1)
        .chain(['\u{2026}'])
        .collect()
}
