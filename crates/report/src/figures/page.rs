//! Figures and tables on one page.

use super::{ColumnGroupPicture, CurvePicture, SurfacePicture};
use crate::html::{Page, escaped, facts, table_markup};
use crate::palette::{Palette, Theme};
use crate::svg::draw_plot;
use crate::{Plot, Scale, Table, VerticalAxis};

/// A page of figures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FigurePage {
    /// What is shown.
    pub title: String,
    /// The version that made it.
    pub tailbound_version: String,
    /// Short facts below the title.
    pub facts: Vec<String>,
    /// The sections.
    pub sections: Vec<FigureSection>,
}

/// Figures and tables under a heading.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FigureSection {
    /// The heading.
    pub title: String,
    /// What is to be seen, in a few sentences.
    pub note: String,
    /// What is to be known, one after the other.
    pub remarks: Vec<String>,
    /// The tables.
    pub tables: Vec<Table>,
    /// The figures.
    pub figures: Vec<PageFigure>,
}

/// A figure of a page.
#[derive(Clone, Debug, PartialEq)]
pub enum PageFigure {
    /// Curves over a number.
    Curves(CurvePicture),
    /// A surface over two axes.
    Surface(SurfacePicture),
    /// Columns in groups.
    Columns(ColumnGroupPicture),
    /// Distribution functions.
    Distributions(Plot),
}

impl PageFigure {
    /// A name that stays the same and may stand in a file name.
    pub fn id(&self) -> &str {
        match self {
            Self::Curves(picture) => &picture.id,
            Self::Surface(picture) => &picture.id,
            Self::Columns(picture) => &picture.id,
            Self::Distributions(plot) => &plot.id,
        }
    }

    /// The figure as an SVG document.
    pub fn render_svg(&self, theme: Theme) -> String {
        self.draw(&theme.palette())
    }

    fn draw(&self, palette: &Palette) -> String {
        match self {
            Self::Curves(picture) => picture.draw(palette),
            Self::Surface(picture) => picture.draw(palette),
            Self::Columns(picture) => picture.draw(palette),
            Self::Distributions(plot) => {
                draw_plot(plot, VerticalAxis::Share, Scale::Linear, palette)
            }
        }
    }
}

/// The page. It holds its own styles, has no script, and loads nothing.
pub fn render_figures_html(page: &FigurePage) -> String {
    let short: Vec<&str> = page.facts.iter().map(String::as_str).collect();
    let page = Page {
        title: &page.title,
        tailbound_version: &page.tailbound_version,
        skip_to: None,
        facts: facts(&short),
        content: page.sections.iter().map(section).collect(),
        script: None,
    };
    page.render()
}

fn section(section: &FigureSection) -> String {
    let figures = section.figures.iter().map(|figure| {
        format!(
            "<figure class=\"plot\" id=\"{}\"><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">{}</div>\
             </figure>",
            escaped(figure.id()),
            escaped(figure.id()),
            figure.draw(&Palette::of_page())
        )
    });
    let remarks = section.remarks.iter();
    let remarks: String = remarks
        .map(|remark| format!("<li>{}</li>", escaped(remark)))
        .collect();
    let remarks = match remarks.as_str() {
        "" => String::new(),
        items => format!("<ul>{items}</ul>"),
    };
    let tables: String = section.tables.iter().map(table_markup).collect();
    format!(
        "<section><h2>{}</h2><p class=\"note\">{}</p>{tables}{remarks}{}</section>\n",
        escaped(&section.title),
        escaped(&section.note),
        figures.collect::<String>(),
    )
}
