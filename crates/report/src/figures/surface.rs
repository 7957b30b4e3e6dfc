//! A surface over two axes: a cell for every pair of values.

use super::frame::{
    FIELD, FigureText, LEFT, LegendEntry, RIGHT, TOP, WIDTH, begin, below, end, number_text, put,
};
use crate::html::escaped;
use crate::palette::{Palette, Theme};

/// The place of the colour of values within their limit, and of those beyond.
const WITHIN: usize = 2;
const BEYOND: usize = 1;
/// A value this many times its limit, or the limit this many times the value, has the full colour.
const FULL_COLOUR: f64 = 4.0;

/// `SurfacePicture` shows a value over its limit for every pair of values of two axes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SurfacePicture {
    /// A name that stays the same and may stand in a file name.
    pub id: String,
    /// What it shows, in a few words.
    pub title: String,
    /// How to read it, in a sentence.
    pub about: String,
    /// The horizontal axis, and its values.
    pub x_title: String,
    /// The values of the horizontal axis.
    pub columns: Vec<String>,
    /// The vertical axis.
    pub y_title: String,
    /// The values of the vertical axis, the lowest first.
    pub rows: Vec<String>,
    /// The cells, row by row.
    pub cells: Vec<Vec<SurfaceCell>>,
}

/// A cell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SurfaceCell {
    /// The value over its limit.
    pub ratio: Option<f64>,
    /// What is to be marked.
    pub mark: SurfaceMark,
}

/// What a cell is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SurfaceMark {
    /// Predicted.
    #[default]
    Predicted,
    /// Measured.
    Measured,
    /// Measured, and the answer.
    Chosen,
}

impl SurfacePicture {
    /// The picture as an SVG document.
    pub fn render_svg(&self, theme: Theme) -> String {
        self.draw(&theme.palette())
    }

    pub(super) fn draw(&self, palette: &Palette) -> String {
        let entries: [LegendEntry; 2] = [
            (palette.variant(WITHIN), "within the limit".to_owned()),
            (palette.variant(BEYOND), "beyond it".to_owned()),
        ];
        let text = FigureText {
            title: &self.title,
            about: &self.about,
            x_title: &self.x_title,
            y_title: &self.y_title,
        };
        let mut out = begin(&text, entries.len(), palette);
        let wide = (WIDTH - LEFT - RIGHT) / self.columns.len().max(1) as f64;
        let tall = FIELD / self.rows.len().max(1) as f64;
        for (place, label) in self.columns.iter().enumerate() {
            below(&mut out, LEFT + (place as f64 + 0.5) * wide, label, palette);
        }
        for (place, label) in self.rows.iter().enumerate() {
            let y = TOP + FIELD - (place as f64 + 0.5) * tall;
            put(
                &mut out,
                format_args!(
                    "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"{}\">{}</text>",
                    LEFT - 8.0,
                    y + 4.0,
                    palette.faint_ink,
                    escaped(label),
                ),
            );
        }
        // Outlines of chosen cells lie above their neighbours.
        let cells = || self.cells.iter().enumerate();
        for chosen in [false, true] {
            for (row, cells) in cells() {
                for (column, cell) in cells.iter().enumerate() {
                    if (cell.mark == SurfaceMark::Chosen) == chosen {
                        let corner = (
                            LEFT + column as f64 * wide,
                            TOP + FIELD - (row as f64 + 1.0) * tall,
                        );
                        cell.draw(&mut out, corner, (wide, tall), palette);
                    }
                }
            }
        }
        end(out, &entries, palette)
    }
}

impl SurfaceCell {
    fn draw(
        &self,
        out: &mut String,
        (x, y): (f64, f64),
        (wide, tall): (f64, f64),
        palette: &Palette,
    ) {
        let Some(ratio) = self.ratio else {
            return;
        };
        let colour = palette.variant(if ratio <= 1.0 { WITHIN } else { BEYOND });
        let distance = (ratio.max(1e-9).ln().abs() / FULL_COLOUR.ln()).min(1.0);
        let opacity = 0.15 + 0.75 * distance;
        let (stroke, stroke_width) = match self.mark {
            SurfaceMark::Chosen => (palette.ink, 3.0),
            _ => (palette.ground, 1.0),
        };
        put(
            out,
            format_args!(
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"{tall:.1}\" fill=\"{colour}\" \
                 fill-opacity=\"{opacity:.2}\" stroke=\"{stroke}\" stroke-width=\"{stroke_width}\"/>"
            ),
        );
        let weight = match self.mark {
            SurfaceMark::Predicted => "font-style=\"italic\"",
            SurfaceMark::Measured | SurfaceMark::Chosen => "font-weight=\"bold\"",
        };
        // Cells that are too small for a text are colours alone.
        if wide >= 34.0 && tall >= 14.0 {
            put(
                out,
                format_args!(
                    "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" {weight} fill=\"{}\">{}</text>",
                    x + wide / 2.0,
                    y + tall / 2.0 + 4.0,
                    palette.ink,
                    match ratio.is_finite() {
                        true => number_text(ratio.min(999.0)),
                        false => "\u{221e}".to_owned(),
                    },
                ),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_with_a_value_is_drawn_and_the_chosen_one_outlined() {
        let cell = |ratio, mark| SurfaceCell {
            ratio: Some(ratio),
            mark,
        };
        let picture = SurfacePicture {
            columns: vec!["10 ms".into(), "20 ms".into()],
            rows: vec!["20".into(), "40".into()],
            cells: vec![
                vec![cell(2.5, SurfaceMark::Measured), SurfaceCell::default()],
                vec![
                    cell(0.5, SurfaceMark::Chosen),
                    cell(f64::INFINITY, SurfaceMark::Predicted),
                ],
            ],
            ..SurfacePicture::default()
        };
        let svg = picture.render_svg(Theme::Light);
        assert_eq!(svg.matches("fill-opacity").count(), 3);
        assert_eq!(svg.matches("stroke-width=\"3\"").count(), 1);
        assert!(svg.contains(">2.5</text>") && svg.contains(">\u{221e}</text>"));
        assert!(!svg.contains("NaN"));
    }
}
