//! Sums of parts as stacked columns: a column per band of quantiles, a layer per part.

use std::fmt::Write as _;

use tailbound_time::Duration;

use crate::html::escaped;
use crate::palette::{Palette, Theme};
use crate::wording::readable;

const WIDTH: f64 = 1100.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 28.0;
const TOP: f64 = 70.0;
const PANEL: f64 = 190.0;
const PANEL_SPACE: f64 = 46.0;
const LEGEND_ROW: f64 = 20.0;
/// Layers in a row of the legend.
const LEGEND_COLUMNS: usize = 4;
/// The most bounds that are written below the columns.
const MOST_LABELS: usize = 12;

/// Columns of parts: how long each lasted, and which share each had.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackedPicture {
    /// What it shows, in a few words.
    pub title: String,
    /// How to read it, in a sentence.
    pub about: String,
    /// The layers, the lowest first.
    pub layers: Vec<StackedLayer>,
    /// The columns.
    pub columns: Vec<StackedColumn>,
}

/// A layer of every column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackedLayer {
    /// Its name.
    pub name: String,
    /// The place of its colour, so that it has the same in every picture.
    pub colour: usize,
}

/// A column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackedColumn {
    /// The upper bound of its band.
    pub label: String,
    /// The height of each layer.
    pub parts: Vec<Duration>,
}

impl StackedColumn {
    fn total(&self) -> Duration {
        let parts = self.parts.iter();
        parts.fold(Duration::ZERO, |sum, part| sum.saturating_add(*part))
    }
}

/// Draws columns as an SVG document without scripts: how long above, which share below.
pub fn render_stacked_svg(picture: &StackedPicture, theme: Theme) -> String {
    draw(picture, &theme.palette())
}

/// The picture as a figure of a page.
pub(crate) fn figure(picture: &StackedPicture) -> String {
    format!(
        "<figure class=\"plot\"><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">{}</div></figure>",
        escaped(&picture.title),
        draw(picture, &Palette::of_page())
    )
}

/// A panel with an axis.
struct ColumnPanel {
    top: f64,
    /// The height of the axis in nanoseconds; `None` for shares.
    whole: Option<f64>,
}

fn draw(picture: &StackedPicture, palette: &Palette) -> String {
    let legend_rows = picture.layers.len().div_ceil(LEGEND_COLUMNS) as f64;
    let height = TOP + 2.0 * (PANEL + PANEL_SPACE) + legend_rows * LEGEND_ROW + 16.0;
    let (title, about) = (escaped(&picture.title), escaped(&picture.about));
    let (ground, ink, faint) = (palette.ground, palette.ink, palette.faint_ink);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\" font-family=\"'DejaVu Sans', system-ui, sans-serif\" font-size=\"12\">\
         <title>{title}</title><desc>{about}</desc><rect width=\"100%\" height=\"100%\" fill=\"{ground}\"/>\
         <text x=\"16\" y=\"28\" font-size=\"16\" font-weight=\"bold\" fill=\"{ink}\">{title}</text>\
         <text x=\"16\" y=\"47\" fill=\"{faint}\">{about}</text>"
    );
    let totals = picture
        .columns
        .iter()
        .map(|column| column.total().as_nanos());
    let tallest = totals.max().unwrap_or(0).max(1) as f64;
    let panels = [
        ColumnPanel {
            top: TOP,
            whole: Some(tallest),
        },
        ColumnPanel {
            top: TOP + PANEL + PANEL_SPACE,
            whole: None,
        },
    ];
    for panel in panels {
        draw_panel(&mut out, picture, palette, &panel);
    }
    draw_legend(
        &mut out,
        picture,
        palette,
        TOP + 2.0 * (PANEL + PANEL_SPACE),
    );
    out.push_str("</svg>\n");
    out
}

fn draw_panel(out: &mut String, picture: &StackedPicture, palette: &Palette, panel: &ColumnPanel) {
    let bottom = panel.top + PANEL;
    for quarter in 0..=4 {
        let share = f64::from(quarter) / 4.0;
        let y = bottom - share * PANEL;
        let label = match panel.whole {
            Some(whole) => readable(Duration::from_nanos((whole * share) as u64)),
            None => format!("{} %", quarter * 25),
        };
        let (grid, faint) = (palette.grid, palette.faint_ink);
        put(
            out,
            format_args!(
                "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"{grid}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"{faint}\">{label}</text>",
                WIDTH - RIGHT,
                LEFT - 8.0,
                y + 4.0
            ),
        );
    }
    let count = picture.columns.len().max(1);
    let step = (WIDTH - LEFT - RIGHT) / count as f64;
    let labelled = count.div_ceil(MOST_LABELS).max(1);
    for (place, column) in picture.columns.iter().enumerate() {
        let x = LEFT + place as f64 * step;
        let total = column.total().as_nanos().max(1) as f64;
        let whole = panel.whole.unwrap_or(total);
        let mut y = bottom;
        for (layer, part) in column.parts.iter().enumerate() {
            let tall = part.as_nanos() as f64 / whole * PANEL;
            if tall <= 0.0 {
                continue;
            }
            y -= tall;
            let Some(layer) = picture.layers.get(layer) else {
                continue;
            };
            put(
                out,
                format_args!(
                    "<rect x=\"{:.1}\" y=\"{y:.2}\" width=\"{:.1}\" height=\"{tall:.2}\" fill=\"{}\"><title>{}: {} of \
                     {}</title></rect>",
                    x + 1.0,
                    (step - 2.0).max(1.0),
                    colour(palette, layer.colour),
                    escaped(&layer.name),
                    readable(*part),
                    readable(column.total())
                ),
            );
        }
        if place % labelled == 0 || place + 1 == count {
            put(
                out,
                format_args!(
                    "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"{}\">{}</text>",
                    x + step,
                    bottom + 16.0,
                    palette.faint_ink,
                    escaped(&column.label)
                ),
            );
        }
    }
}

fn draw_legend(out: &mut String, picture: &StackedPicture, palette: &Palette, top: f64) {
    let step = (WIDTH - LEFT - RIGHT) / LEGEND_COLUMNS as f64;
    for (place, layer) in picture.layers.iter().enumerate() {
        let x = LEFT + (place % LEGEND_COLUMNS) as f64 * step;
        let y = top + (place / LEGEND_COLUMNS) as f64 * LEGEND_ROW;
        let (fill, ink) = (colour(palette, layer.colour), palette.ink);
        put(
            out,
            format_args!(
                "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"12\" height=\"12\" fill=\"{fill}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" fill=\"{ink}\">{}</text>",
                y - 10.0,
                x + 18.0,
                y,
                escaped(&layer.name)
            ),
        );
    }
}

/// The colour of a place: those of variants, then those of ink.
fn colour(palette: &Palette, place: usize) -> &'static str {
    let variants = palette.variants().len();
    match place.checked_sub(variants) {
        None => palette.variant(place),
        Some(beyond) => [palette.alarm, palette.axis, palette.faint_ink, palette.ink][beyond % 4],
    }
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _written = out.write_fmt(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_fill_the_lower_panel_and_reach_the_upper_ones_top_once() {
        let column = |label: &str, parts: [u64; 2]| StackedColumn {
            label: label.into(),
            parts: parts.map(Duration::from_micros).to_vec(),
        };
        let layer = |name: &str, colour| StackedLayer {
            name: name.into(),
            colour,
        };
        let picture = StackedPicture {
            title: "Latency of \"get\" <by cause>".into(),
            about: "Measured.".into(),
            layers: vec![layer("own execution", 0), layer("queued", 9)],
            columns: vec![column("50 %", [10, 0]), column("100 %", [10, 30])],
        };
        let svg = render_stacked_svg(&picture, Theme::Light);
        let heights: Vec<f64> = svg
            .split("<rect x=")
            .skip(1)
            .filter(|rest| rest.contains("<title>"))
            .filter_map(|rest| {
                rest.split("height=\"")
                    .nth(1)?
                    .split('"')
                    .next()?
                    .parse()
                    .ok()
            })
            .collect();
        let whole = |part: &f64| (part - PANEL).abs() < 0.02;
        // Above: a quarter, a quarter and three quarters. Below: the whole, a quarter and three quarters.
        assert_eq!(heights.len(), 6);
        assert!(
            (heights[1] + heights[2] - PANEL).abs() < 0.02,
            "{heights:?}"
        );
        assert_eq!(heights.iter().filter(|part| whole(part)).count(), 1);
        assert!((heights[4] + heights[5] - PANEL).abs() < 0.02);
        assert!(svg.contains("&lt;by cause&gt;") && !svg.contains("<by cause>"));
    }
}
