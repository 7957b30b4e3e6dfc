//! Curves over a number, with intervals, a band of a model, and promised levels.

use super::frame::{
    FIELD, FigureText, LEFT, LegendEntry, NumberAxis, RIGHT, TOP, WIDTH, base_line, begin, below,
    end, number_text, put, vertical_axis, x_at, y_at,
};
use crate::html::escaped;
use crate::palette::{Palette, Theme};

/// A value beyond this many times the highest level is cut off, so that it does not squeeze the rest.
const FAR_BEYOND_LEVELS: f64 = 4.0;

/// `CurvePicture` shows numbers over a number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CurvePicture {
    /// A name that stays the same and may stand in a file name.
    pub id: String,
    /// What it shows, in a few words.
    pub title: String,
    /// How to read it, in a sentence.
    pub about: String,
    /// The horizontal axis, with its unit.
    pub x_title: String,
    /// The vertical axis, with its unit.
    pub y_title: String,
    /// The curves.
    pub curves: Vec<NumberCurve>,
    /// The levels, such as promised latencies.
    pub levels: Vec<NumberLevel>,
}

/// A curve.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NumberCurve {
    /// Its name in the legend.
    pub label: String,
    /// The points, ascending.
    pub points: Vec<CurvePoint>,
    /// The points of a model, whose intervals are drawn as a band; none without one.
    pub band: Vec<CurvePoint>,
}

/// A point of a curve.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CurvePoint {
    /// The place.
    pub x: f64,
    /// The value.
    pub y: f64,
    /// The interval of the value.
    pub interval: Option<(f64, f64)>,
    /// Whether this point is the answer.
    pub is_chosen: bool,
}

/// A level that values are held against.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NumberLevel {
    /// Its name.
    pub label: String,
    /// The value.
    pub y: f64,
}

impl CurvePicture {
    /// The picture as an SVG document.
    pub fn render_svg(&self, theme: Theme) -> String {
        self.draw(&theme.palette())
    }

    /// Whether there is nothing to see.
    pub fn is_empty(&self) -> bool {
        let mut points = self.curves.iter().flat_map(|curve| &curve.points);
        points.next().is_none()
    }

    fn axes(&self) -> Option<(NumberAxis, NumberAxis)> {
        let points = || {
            self.curves
                .iter()
                .flat_map(|one| one.points.iter().chain(&one.band))
        };
        let tops = points().map(|point| point.interval.map_or(point.y, |(_, high)| high));
        let tops = tops.filter(|top| top.is_finite());
        let levels = self.levels.iter().map(|level| level.y);
        let highest_level = levels.fold(0.0, f64::max);
        let tallest = tops.fold(highest_level, f64::max);
        let tallest = match highest_level > 0.0 {
            true => tallest.min(FAR_BEYOND_LEVELS * highest_level),
            false => tallest,
        };
        let x = NumberAxis::around(points().map(|point| point.x))?;
        Some((x, NumberAxis::up_to(tallest.max(f64::MIN_POSITIVE))))
    }

    pub(super) fn draw(&self, palette: &Palette) -> String {
        let entries: Vec<LegendEntry> = (self.curves.iter().enumerate())
            .map(|(place, curve)| (palette.variant(place), curve.label.clone()))
            .collect();
        let text = FigureText {
            title: &self.title,
            about: &self.about,
            x_title: &self.x_title,
            y_title: &self.y_title,
        };
        let mut out = begin(&text, entries.len(), palette);
        if let Some((x_axis, y_axis)) = self.axes() {
            vertical_axis(&mut out, &y_axis, palette);
            base_line(&mut out, palette);
            for tick in x_axis.ticks() {
                below(
                    &mut out,
                    x_at(x_axis.place(tick)),
                    &number_text(tick),
                    palette,
                );
            }
            for (place, curve) in self.curves.iter().enumerate() {
                curve.draw(
                    &mut out,
                    (&x_axis, &y_axis),
                    (palette, palette.variant(place)),
                );
            }
            for level in &self.levels {
                level.draw(&mut out, &y_axis, palette);
            }
        }
        end(out, &entries, palette)
    }
}

/// A path through points.
fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut path = String::new();
    for (place, (x, y)) in points.enumerate() {
        let command = if place == 0 { 'M' } else { 'L' };
        put(&mut path, format_args!("{command}{x:.1} {y:.1}"));
    }
    path
}

impl NumberCurve {
    fn draw(
        &self,
        out: &mut String,
        (x_axis, y_axis): (&NumberAxis, &NumberAxis),
        (palette, colour): (&Palette, &str),
    ) {
        let at = |x: f64, y: f64| (x_at(x_axis.place(x)), y_at(y_axis.place(y)));
        let ends = self
            .band
            .iter()
            .filter_map(|one| Some((one.x, one.interval?)));
        let upper = ends.clone().map(|(x, (_, high))| at(x, high));
        let lower = ends.rev().map(|(x, (low, _))| at(x, low));
        let outline = path(upper.chain(lower));
        if !outline.is_empty() {
            let middle = path(self.band.iter().map(|one| at(one.x, one.y)));
            put(
                out,
                format_args!(
                    "<path d=\"{outline}Z\" fill=\"{colour}\" fill-opacity=\"0.14\"/><path d=\"{middle}\" fill=\"none\" \
                     stroke=\"{colour}\" stroke-dasharray=\"5 4\"/>"
                ),
            );
        } else {
            let line = path(self.points.iter().map(|one| at(one.x, one.y)));
            put(
                out,
                format_args!(
                    "<path d=\"{line}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\" stroke-linejoin=\"round\"/>"
                ),
            );
        }
        for point in &self.points {
            let (x, y) = at(point.x, point.y);
            if let Some((low, high)) = point.interval {
                let ((_, from), (_, to)) = (at(point.x, low), at(point.x, high));
                put(
                    out,
                    format_args!(
                        "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{from:.1}\" y2=\"{to:.1}\" stroke=\"{colour}\"/>"
                    ),
                );
            }
            let exact = format!(
                "{}: {} at {}",
                self.label,
                number_text(point.y),
                number_text(point.x)
            );
            let is_cut_off = y_axis.ends_before(point.y);
            draw_point(out, (x, y), (&exact, is_cut_off), colour);
            if point.is_chosen {
                put(
                    out,
                    format_args!(
                        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"8\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>",
                        palette.ink
                    ),
                );
            }
        }
    }
}

/// A point with its exact value; a triangle that points up where the value goes on beyond the picture.
fn draw_point(
    out: &mut String,
    (x, y): (f64, f64),
    (exact, is_cut_off): (&str, bool),
    colour: &str,
) {
    let exact = escaped(exact);
    match is_cut_off {
        true => put(
            out,
            format_args!(
                "<path d=\"M{:.1} {:.1}h8l-4 -7z\" fill=\"{colour}\"><title>{exact}</title></path>",
                x - 4.0,
                y + 7.0
            ),
        ),
        false => put(
            out,
            format_args!(
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"><title>{exact}</title></circle>"
            ),
        ),
    }
}

impl NumberLevel {
    fn draw(&self, out: &mut String, axis: &NumberAxis, palette: &Palette) {
        let y = y_at(axis.place(self.y));
        // Above the line, unless the line is at the top of the field.
        let text_y = if y - TOP < 0.05 * FIELD {
            y + 15.0
        } else {
            y - 5.0
        };
        put(
            out,
            format_args!(
                "<line x1=\"{LEFT}\" x2=\"{right:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"{ink}\" stroke-dasharray=\"2 4\"/>\
                 <text x=\"{right:.1}\" y=\"{text_y:.1}\" text-anchor=\"end\" fill=\"{ink}\">{}</text>",
                escaped(&self.label),
                right = WIDTH - RIGHT,
                ink = palette.ink,
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture() -> CurvePicture {
        let point = |x: f64, y: f64| CurvePoint {
            x,
            y,
            interval: Some((0.9 * y, 1.1 * y)),
            is_chosen: x == 20.0,
        };
        CurvePicture {
            title: "Mean <of> all".into(),
            curves: vec![NumberCurve {
                label: "share 40".into(),
                points: vec![point(10.0, 5.0), point(20.0, 9.0), point(40.0, 900.0)],
                band: Vec::new(),
            }],
            levels: vec![NumberLevel {
                label: "p95 within 10 ms".into(),
                y: 10.0,
            }],
            ..CurvePicture::default()
        }
    }

    #[test]
    fn points_far_beyond_a_level_are_cut_off_and_marked() {
        let svg = picture().render_svg(Theme::Light);
        assert!(svg.contains("Mean &lt;of&gt; all"), "{svg}");
        assert_eq!(svg.matches("r=\"3\"").count(), 2, "{svg}");
        assert_eq!(svg.matches("r=\"8\"").count(), 1, "{svg}");
        assert!(svg.contains("share 40: 900 at 40"), "{svg}");
        assert!(svg.contains("p95 within 10 ms"));
    }

    #[test]
    fn nothing_and_one_point_are_drawn() {
        let nothing = CurvePicture::default();
        assert!(nothing.is_empty());
        assert!(nothing.render_svg(Theme::Dark).ends_with("</svg>\n"));
        let mut one = picture();
        one.curves[0].points.truncate(1);
        one.levels.clear();
        assert!(!one.render_svg(Theme::Dark).contains("NaN"));
    }
}
