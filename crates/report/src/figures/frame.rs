//! Axes of numbers, and the frame that all figures have.

use std::fmt::Write as _;

use crate::html::escaped;
use crate::palette::Palette;

pub(super) const WIDTH: f64 = 840.0;
pub(super) const LEFT: f64 = 84.0;
pub(super) const RIGHT: f64 = 24.0;
pub(super) const TOP: f64 = 68.0;
pub(super) const FIELD: f64 = 320.0;
const LEGEND_ROW: f64 = 20.0;
/// Entries in a row of the legend.
const LEGEND_COLUMNS: usize = 4;
/// The height of what stands below the field, without the legend.
const BELOW: f64 = 66.0;
/// The most steps of an axis.
const MOST_STEPS: f64 = 8.0;

/// `NumberAxis` is an axis from one number to a greater one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct NumberAxis {
    from: f64,
    to: f64,
}

/// The texts of a figure.
pub(super) struct FigureText<'a> {
    pub title: &'a str,
    pub about: &'a str,
    pub x_title: &'a str,
    pub y_title: &'a str,
}

/// An entry of a legend: a colour and a name.
pub(super) type LegendEntry = (&'static str, String);

impl NumberAxis {
    /// An axis that holds these numbers; `None` without one.
    pub(super) fn around(values: impl Iterator<Item = f64>) -> Option<Self> {
        let finite = values.filter(|value| value.is_finite());
        let ends = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), one| {
            (least.min(one), most.max(one))
        });
        match ends.0 <= ends.1 {
            true => Some(Self::between(ends.0, ends.1)),
            false => None,
        }
    }

    /// An axis from nothing to a number.
    pub(super) fn up_to(greatest: f64) -> Self {
        Self::between(0.0, greatest)
    }

    fn between(from: f64, to: f64) -> Self {
        let room = 0.04 * (to - from);
        let from = if from == 0.0 { 0.0 } else { from - room };
        match to - from > f64::EPSILON * to.abs() {
            true => Self {
                from,
                to: to + room,
            },
            // One number in the middle of an axis.
            false => Self {
                from: from - 1.0,
                to: to + 1.0,
            },
        }
    }

    /// The place of a number, from 0 to 1; beyond the axis at its end.
    pub(super) fn place(&self, value: f64) -> f64 {
        ((value - self.from) / (self.to - self.from)).clamp(0.0, 1.0)
    }

    /// Whether a number lies beyond the greater end.
    pub(super) fn ends_before(&self, value: f64) -> bool {
        value > self.to
    }

    /// The numbers with marks: multiples of 1, 2 or 5 times a power of ten.
    pub(super) fn ticks(&self) -> Vec<f64> {
        let least_step = (self.to - self.from) / MOST_STEPS;
        let decade = 10f64.powf(least_step.log10().floor());
        let factors = [1.0, 2.0, 5.0, 10.0];
        let mut steps = factors.iter().map(|factor| factor * decade);
        let step = steps
            .find(|step| *step >= least_step)
            .unwrap_or(decade * 10.0);
        let first = (self.from / step).ceil() as i64;
        let last = (self.to / step).floor() as i64;
        (first..=last).map(|index| index as f64 * step).collect()
    }
}

/// A number with the digits that tell it from its neighbours.
pub(super) fn number_text(value: f64) -> String {
    let digits = match value.abs() {
        zero if zero < 1e-12 => 0,
        size if size >= 100.0 => 0,
        size => (2.0 - size.log10().floor()).clamp(0.0, 6.0) as usize,
    };
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

pub(super) fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _written = out.write_fmt(text);
}

/// The x of a place from 0 to 1.
pub(super) fn x_at(place: f64) -> f64 {
    LEFT + place * (WIDTH - LEFT - RIGHT)
}

/// The y of a place from 0 to 1.
pub(super) fn y_at(place: f64) -> f64 {
    TOP + FIELD * (1.0 - place)
}

/// The beginning of a figure, with its title.
pub(super) fn begin(text: &FigureText<'_>, entries: usize, palette: &Palette) -> String {
    let rows = entries.div_ceil(LEGEND_COLUMNS) as f64;
    let height = TOP + FIELD + BELOW + rows * LEGEND_ROW;
    let (title, about) = (escaped(text.title), escaped(text.about));
    let (ground, ink, faint) = (palette.ground, palette.ink, palette.faint_ink);
    let bottom = TOP + FIELD;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\" font-family=\"'DejaVu Sans', system-ui, sans-serif\" font-size=\"12\"><title>{title}</title>\
         <desc>{about}</desc><rect width=\"100%\" height=\"100%\" fill=\"{ground}\"/>\
         <text x=\"16\" y=\"26\" font-size=\"16\" font-weight=\"bold\" fill=\"{ink}\">{title}</text>\
         <text x=\"16\" y=\"45\" fill=\"{faint}\">{about}</text>\
         <text x=\"16\" y=\"62\" fill=\"{faint}\">{y_title}</text>\
         <text x=\"{right}\" y=\"{below}\" text-anchor=\"end\" fill=\"{faint}\">{x_title}</text>",
        y_title = escaped(text.y_title),
        x_title = escaped(text.x_title),
        right = WIDTH - RIGHT,
        below = bottom + 38.0,
    )
}

/// The marks and lines of the vertical axis.
pub(super) fn vertical_axis(out: &mut String, axis: &NumberAxis, palette: &Palette) {
    for tick in axis.ticks() {
        let y = y_at(axis.place(tick));
        put(
            out,
            format_args!(
                "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"{}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"{}\">{}</text>",
                WIDTH - RIGHT,
                palette.grid,
                LEFT - 8.0,
                y + 4.0,
                palette.faint_ink,
                number_text(tick),
            ),
        );
    }
}

/// A text below the field.
pub(super) fn below(out: &mut String, x: f64, text: &str, palette: &Palette) {
    put(
        out,
        format_args!(
            "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"{}\">{}</text>",
            TOP + FIELD + 18.0,
            palette.faint_ink,
            escaped(text),
        ),
    );
}

/// The line at the bottom of the field.
pub(super) fn base_line(out: &mut String, palette: &Palette) {
    let bottom = TOP + FIELD;
    put(
        out,
        format_args!(
            "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{bottom}\" y2=\"{bottom}\" stroke=\"{}\"/>",
            WIDTH - RIGHT,
            palette.axis,
        ),
    );
}

/// The legend, and the end of the figure.
pub(super) fn end(mut out: String, entries: &[LegendEntry], palette: &Palette) -> String {
    let step = (WIDTH - LEFT) / LEGEND_COLUMNS as f64;
    for (place, (colour, name)) in entries.iter().enumerate() {
        let x = LEFT + (place % LEGEND_COLUMNS) as f64 * step;
        let y = TOP + FIELD + BELOW + (place / LEGEND_COLUMNS) as f64 * LEGEND_ROW;
        put(
            &mut out,
            format_args!(
                "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"12\" height=\"12\" fill=\"{colour}\"/>\
                 <text x=\"{:.1}\" y=\"{y:.1}\" fill=\"{}\">{}</text>",
                y - 10.0,
                x + 18.0,
                palette.ink,
                escaped(name),
            ),
        );
    }
    out.push_str("</svg>\n");
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn marks_are_tidy_and_few() {
        assert_eq!(NumberAxis::up_to(0.9).ticks()[..3], [0.0, 0.2, 0.4]);
        for greatest in [1e-9, 0.3, 7.0, 12_345.0, 1e12] {
            let ticks = NumberAxis::up_to(greatest).ticks();
            assert!((3..=9).contains(&ticks.len()), "{greatest}: {ticks:?}");
        }
        assert_eq!(NumberAxis::around([f64::NAN].into_iter()), None);
        let one = NumberAxis::around([3.0].into_iter()).unwrap();
        assert!((one.place(3.0) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn numbers_have_few_digits() {
        let texts = [0.0, 0.05, 1.0, 12.34, 560.0, 0.123_456].map(number_text);
        assert_eq!(texts, ["0", "0.05", "1", "12.3", "560", "0.123"]);
    }
}
