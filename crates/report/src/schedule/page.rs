//! Pictures of schedules as a page of their own, and as a part of a report.

use super::{SchedulePicture, draw, rows};
use crate::html::{Page, escaped, facts, table_markup};
use crate::palette::Palette;
use crate::wording::readable;
use crate::{Cell, Table, columns};

/// A page of schedules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedulePage {
    /// What was simulated: the name of a description.
    pub title: String,
    /// The version that simulated it.
    pub tailbound_version: String,
    /// The windows.
    pub pictures: Vec<SchedulePicture>,
}

/// The page. It has no script, holds its own style, and loads nothing.
pub fn render_schedule_html(page: &SchedulePage) -> String {
    let page = Page {
        title: &page.title,
        tailbound_version: &page.tailbound_version,
        skip_to: None,
        facts: facts(&["simulated schedule"]),
        content: section(&page.pictures),
        script: None,
    };
    page.render()
}

/// A section with all pictures; nothing if there are none.
pub(crate) fn section(pictures: &[SchedulePicture]) -> String {
    if pictures.is_empty() {
        return String::new();
    }
    let figures: String = pictures.iter().enumerate().map(figure).collect();
    format!(
        "<section id=\"schedules\"><h2>Simulated schedule</h2><p class=\"note\">What each CPU ran, \
         and when jobs were released (arrow up), ran, and had to be done (arrow down). Point at \
         anything for its times.</p>{figures}</section>\n"
    )
}

fn figure((index, picture): (usize, &SchedulePicture)) -> String {
    let svg = draw(picture, &Palette::of_page(), &format!("schedule-{index}"));
    let title = escaped(&picture.title);
    format!(
        "<figure class=\"plot schedule\"><div class=\"scroll\" tabindex=\"0\" role=\"region\" \
         aria-label=\"Schedule: {title}\">{svg}</div></figure>{}",
        table_markup(&table(picture))
    )
}

fn table(picture: &SchedulePicture) -> Table {
    let rows = rows::tallies(&picture.slice).into_iter().map(|row| {
        let [released, missed] = [row.released, row.missed].map(|count| count.to_string());
        [row.name, released, missed, readable(row.cpu_time)]
            .map(Cell::text)
            .into()
    });
    Table {
        id: "",
        title: "Tasks in the window",
        note: String::new(),
        columns: columns(
            &["Task"],
            &["Released in the window", "Deadlines missed", "CPU time"],
        ),
        rows: rows.collect(),
    }
}
