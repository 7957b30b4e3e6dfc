//! Columns in groups: one group for each value of an axis.

use super::frame::{
    FIELD, FigureText, LEFT, LegendEntry, NumberAxis, RIGHT, TOP, WIDTH, base_line, begin, below,
    end, number_text, put, vertical_axis, y_at,
};
use crate::html::escaped;
use crate::palette::{Palette, Theme};

/// `ColumnGroupPicture` shows columns in groups, each in the colour of its series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ColumnGroupPicture {
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
    /// The names of the series.
    pub series: Vec<String>,
    /// The groups.
    pub groups: Vec<ColumnGroup>,
}

/// A group of columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ColumnGroup {
    /// The value of the axis.
    pub label: String,
    /// The columns, each with its name and the height of each series in it.
    pub columns: Vec<(String, Vec<Option<f64>>)>,
}

impl ColumnGroupPicture {
    /// The picture as an SVG document.
    pub fn render_svg(&self, theme: Theme) -> String {
        self.draw(&theme.palette())
    }

    /// Whether there is nothing to see.
    pub fn is_empty(&self) -> bool {
        self.heights().next().is_none()
    }

    fn heights(&self) -> impl Iterator<Item = f64> {
        let columns = self.groups.iter().flat_map(|group| &group.columns);
        columns.flat_map(|(_, heights)| heights.iter().copied().flatten())
    }

    pub(super) fn draw(&self, palette: &Palette) -> String {
        let entries: Vec<LegendEntry> = (self.series.iter().enumerate())
            .map(|(place, name)| (palette.variant(place), name.clone()))
            .collect();
        let text = FigureText {
            title: &self.title,
            about: &self.about,
            x_title: &self.x_title,
            y_title: &self.y_title,
        };
        let mut out = begin(&text, entries.len(), palette);
        let finite = self.heights().filter(|height| height.is_finite());
        let axis = NumberAxis::up_to(finite.fold(f64::MIN_POSITIVE, f64::max));
        vertical_axis(&mut out, &axis, palette);
        base_line(&mut out, palette);
        let wide = (WIDTH - LEFT - RIGHT) / self.groups.len().max(1) as f64;
        for (place, group) in self.groups.iter().enumerate() {
            let from = LEFT + place as f64 * wide;
            below(&mut out, from + wide / 2.0, &group.label, palette);
            group.draw(&mut out, (from + 0.1 * wide, 0.8 * wide), &axis, palette);
        }
        end(out, &entries, palette)
    }
}

impl ColumnGroup {
    fn draw(
        &self,
        out: &mut String,
        (from, wide): (f64, f64),
        axis: &NumberAxis,
        palette: &Palette,
    ) {
        let series = self.columns.iter().map(|(_, heights)| heights.len()).max();
        let bars = self.columns.len() * series.unwrap_or(1).max(1);
        let step = wide / bars.max(1) as f64;
        let mut place = 0.0;
        for (name, heights) in &self.columns {
            for (series, height) in heights.iter().enumerate() {
                if let Some(height) = height {
                    let y = y_at(axis.place(*height));
                    put(
                        out,
                        format_args!(
                            "<rect x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\"><title>{}, {}: \
                             {}</title></rect>",
                            from + place * step,
                            (step - 1.0).max(0.5),
                            TOP + FIELD - y,
                            palette.variant(series),
                            escaped(&self.label),
                            escaped(name),
                            number_text(*height),
                        ),
                    );
                }
                place += 1.0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_height_is_a_column_of_its_series() {
        let group = |label: &str| ColumnGroup {
            label: label.into(),
            columns: vec![
                ("share 20".into(), vec![Some(30.0), Some(50.0)]),
                ("share 40".into(), vec![Some(10.0), None]),
            ],
        };
        let picture = ColumnGroupPicture {
            series: vec!["users 30".into(), "users 50".into()],
            groups: vec![group("10 ms"), group("60 ms")],
            ..ColumnGroupPicture::default()
        };
        let svg = picture.render_svg(Theme::Light);
        assert!(!picture.is_empty());
        assert_eq!(svg.matches("</title></rect>").count(), 6);
        assert!(svg.contains("10 ms, share 20: 50"), "{svg}");
    }
}
