//! Quantities over intervals as steps: a panel for each quantity, a line for each of those that have it.

use std::fmt::Write as _;

use tailbound_time::Duration;

use crate::html::{Page, escaped, facts};
use crate::palette::{Palette, Theme};
use crate::ticks::marks_between;
use crate::wording::exactly;

const WIDTH: f64 = 1100.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 28.0;
const TOP: f64 = 70.0;
const PANEL: f64 = 150.0;
const PANEL_SPACE: f64 = 44.0;
const LEGEND_ROW: f64 = 20.0;
/// Lines in a row of the legend.
const LEGEND_COLUMNS: usize = 5;
/// The dashes of lines whose colours come again.
const DASHES: [&str; 4] = ["none", "7 3", "2 3", "9 3 2 3"];

/// `StepPicture` has quantities over intervals.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepPicture {
    /// What it shows, in a few words.
    pub title: String,
    /// How to read it, in a sentence.
    pub about: String,
    /// The end of each interval; the first one begins at zero.
    pub ends: Vec<Duration>,
    /// Instants that are marked, such as changes of the load.
    pub marks: Vec<Duration>,
    /// The names of the lines, which have the same colour in every panel.
    pub names: Vec<String>,
    /// The quantities.
    pub panels: Vec<StepPanel>,
}

/// `StepPanel` is one quantity.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepPanel {
    /// What it is.
    pub title: String,
    /// The lower end of the axis.
    pub least: f64,
    /// The upper end.
    pub most: f64,
    /// Whether it is a share, which is written in percent.
    pub is_share: bool,
    /// The values of each line, one for each interval, as far as there is one.
    pub lines: Vec<Vec<Option<f64>>>,
}

/// Draws steps as an SVG document without scripts.
pub fn render_steps_svg(picture: &StepPicture, theme: Theme) -> String {
    draw(picture, &theme.palette())
}

/// The same as a page of its own. It has no script, holds its own style, and loads nothing.
pub fn render_steps_html(picture: &StepPicture, tailbound_version: &str) -> String {
    let figure = format!(
        "<figure class=\"plot\"><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">{}</div></figure>",
        escaped(&picture.title),
        draw(picture, &Palette::of_page())
    );
    let page = Page {
        title: &picture.title,
        tailbound_version,
        skip_to: None,
        facts: facts(&[&picture.about]),
        content: format!("<section>{figure}</section>\n"),
        script: None,
    };
    page.render()
}

/// The place of an instant in the picture.
fn across(picture: &StepPicture, at: Duration) -> f64 {
    let whole = picture.ends.last().copied().unwrap_or_default();
    let share = at.as_nanos() as f64 / whole.as_nanos().max(1) as f64;
    LEFT + share.clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
}

fn draw(picture: &StepPicture, palette: &Palette) -> String {
    let legend_rows = picture.names.len().div_ceil(LEGEND_COLUMNS) as f64;
    let below = TOP + picture.panels.len() as f64 * (PANEL + PANEL_SPACE);
    let height = below + legend_rows * LEGEND_ROW + 16.0;
    let (title, about) = (escaped(&picture.title), escaped(&picture.about));
    let (ground, ink, faint) = (palette.ground, palette.ink, palette.faint_ink);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\" font-family=\"'DejaVu Sans', system-ui, sans-serif\" font-size=\"12\">\
         <title>{title}</title><desc>{about}</desc><rect width=\"100%\" height=\"100%\" fill=\"{ground}\"/>\
         <text x=\"16\" y=\"28\" font-size=\"16\" font-weight=\"bold\" fill=\"{ink}\">{title}</text>\
         <text x=\"16\" y=\"47\" fill=\"{faint}\">{about}</text>"
    );
    for (place, panel) in picture.panels.iter().enumerate() {
        let top = TOP + place as f64 * (PANEL + PANEL_SPACE);
        draw_axes(&mut out, picture, palette, (panel, top));
        for (line, values) in panel.lines.iter().enumerate() {
            draw_line(&mut out, picture, palette, (panel, top), (line, values));
        }
    }
    draw_legend(&mut out, picture, palette, below);
    out.push_str("</svg>\n");
    out
}

/// The grid, the labels and the marked instants of a panel.
fn draw_axes(
    out: &mut String,
    picture: &StepPicture,
    palette: &Palette,
    (panel, top): (&StepPanel, f64),
) {
    let (grid, faint, ink) = (palette.grid, palette.faint_ink, palette.ink);
    let (bottom, right) = (top + PANEL, WIDTH - RIGHT);
    let title = escaped(&panel.title);
    put(
        out,
        format_args!(
            "<text x=\"{LEFT}\" y=\"{:.1}\" fill=\"{ink}\">{title}</text>",
            top - 7.0
        ),
    );
    for quarter in 0..=4 {
        let share = f64::from(quarter) / 4.0;
        let y = bottom - share * PANEL;
        let value = panel.least + share * (panel.most - panel.least);
        let label = match panel.is_share {
            true => format!("{:.0} %", value * 100.0),
            false => format!("{value:.1}"),
        };
        put(
            out,
            format_args!(
                "<line x1=\"{LEFT}\" x2=\"{right:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"{grid}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"{faint}\">{label}</text>",
                LEFT - 8.0,
                y + 4.0
            ),
        );
    }
    let whole = picture.ends.last().copied().unwrap_or_default();
    for at_ns in marks_between(0, whole.as_nanos()) {
        let at = Duration::from_nanos(at_ns);
        put(
            out,
            format_args!(
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"{faint}\">{}</text>",
                across(picture, at),
                bottom + 16.0,
                exactly(at)
            ),
        );
    }
    for mark in &picture.marks {
        let x = across(picture, *mark);
        put(
            out,
            format_args!(
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top:.1}\" y2=\"{bottom:.1}\" stroke=\"{}\" \
                 stroke-dasharray=\"3 3\"/>",
                palette.axis
            ),
        );
    }
}

/// The steps of one line; where there is no value, there is a gap.
fn draw_line(
    out: &mut String,
    picture: &StepPicture,
    palette: &Palette,
    (panel, top): (&StepPanel, f64),
    (place, values): (usize, &[Option<f64>]),
) {
    let height = (panel.most - panel.least).max(f64::MIN_POSITIVE);
    let mut path = String::new();
    let mut begin = Duration::ZERO;
    let mut is_drawn = false;
    for (end, value) in picture.ends.iter().zip(values) {
        if let Some(value) = value {
            let share = ((value - panel.least) / height).clamp(0.0, 1.0);
            let y = top + PANEL - share * PANEL;
            match is_drawn {
                true => put(&mut path, format_args!("V{y:.2}")),
                false => put(
                    &mut path,
                    format_args!("M{:.2} {y:.2}", across(picture, begin)),
                ),
            }
            put(&mut path, format_args!("H{:.2}", across(picture, *end)));
        }
        is_drawn = value.is_some();
        begin = *end;
    }
    let name = picture.names.get(place).map_or("", String::as_str);
    put(
        out,
        format_args!(
            "<path d=\"{path}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\" stroke-dasharray=\"{}\"><title>{}</title></path>",
            palette.variant(place),
            dashes(palette, place),
            escaped(name)
        ),
    );
}

fn draw_legend(out: &mut String, picture: &StepPicture, palette: &Palette, top: f64) {
    let step = (WIDTH - LEFT - RIGHT) / LEGEND_COLUMNS as f64;
    for (place, name) in picture.names.iter().enumerate() {
        let x = LEFT + (place % LEGEND_COLUMNS) as f64 * step;
        let y = top + (place / LEGEND_COLUMNS) as f64 * LEGEND_ROW;
        put(
            out,
            format_args!(
                "<line x1=\"{x:.1}\" x2=\"{:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"{}\" stroke-width=\"2.5\" \
                 stroke-dasharray=\"{}\"/><text x=\"{:.1}\" y=\"{y:.1}\" fill=\"{}\">{}</text>",
                x + 22.0,
                y - 4.0,
                y - 4.0,
                palette.variant(place),
                dashes(palette, place),
                x + 28.0,
                palette.ink,
                escaped(name)
            ),
        );
    }
}

fn dashes(palette: &Palette, place: usize) -> &'static str {
    DASHES[place / palette.variants().len() % DASHES.len()]
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _written = out.write_fmt(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture() -> StepPicture {
        StepPicture {
            title: "Capacities of <shops>".into(),
            about: "Two applications.".into(),
            ends: [5, 10, 15].map(Duration::from_secs).to_vec(),
            marks: vec![Duration::from_secs(10)],
            names: vec!["forum".into(), "shop".into()],
            panels: vec![StepPanel {
                title: "capacity".into(),
                least: 0.0,
                most: 1.0,
                is_share: true,
                lines: vec![
                    vec![Some(0.5), Some(0.25), Some(0.25)],
                    vec![Some(0.5), None, Some(1.0)],
                ],
            }],
        }
    }

    #[test]
    fn a_line_has_a_step_for_each_value_and_a_gap_without_one() {
        let svg = render_steps_svg(&picture(), Theme::Light);
        let paths: Vec<&str> = svg
            .split("<path d=\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .collect();
        assert_eq!(paths.len(), 2, "{svg}");
        let count = |path: &str, of: char| path.chars().filter(|one| *one == of).count();
        assert_eq!((count(paths[0], 'M'), count(paths[0], 'V')), (1, 2));
        assert_eq!((count(paths[1], 'M'), count(paths[1], 'V')), (2, 0));
        // The whole is the top of the panel, and the last interval ends at the right.
        let last = format!(
            "M{:.2} {TOP:.2}H{:.2}",
            LEFT + (WIDTH - LEFT - RIGHT) * 2.0 / 3.0,
            WIDTH - RIGHT
        );
        assert!(paths[1].ends_with(&last), "{} {last}", paths[1]);
        assert!(svg.contains("&lt;shops&gt;") && !svg.contains("<shops>"));
    }

    #[test]
    fn a_picture_without_intervals_is_drawn_all_the_same() {
        let empty = StepPicture {
            ends: Vec::new(),
            ..picture()
        };
        assert!(render_steps_svg(&empty, Theme::Dark).ends_with("</svg>\n"));
        let page = render_steps_html(&picture(), "0.1.0");
        assert!(
            page.contains("</html>") && !page.contains("<script"),
            "{page}"
        );
    }
}
