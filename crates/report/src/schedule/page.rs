//! Pictures of schedules as a page of their own, and as a part of a report.

use super::{SchedulePicture, draw, rows};
use crate::html::{escaped, head};
use crate::palette::Palette;
use crate::wording::readable;

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
    let head = head(&page.title, &page.tailbound_version, &[]);
    format!(
        "{head}<header class=\"page\"><p class=\"brand\">Tailbound</p><h1>{title}</h1>\
         <p class=\"facts\"><span>simulated schedule</span></p></header>\n<main>\n{}</main>\n\
         <footer><p>Made by Tailbound {version}. This page is complete: it loads nothing from \
         anywhere.</p></footer>\n</body>\n</html>\n",
        section(&page.pictures),
        version = escaped(&page.tailbound_version),
        title = escaped(&page.title),
    )
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
        table(picture)
    )
}

fn table(picture: &SchedulePicture) -> String {
    let rows: String = rows::tallies(&picture.slice)
        .iter()
        .map(|row| {
            format!(
                "<tr class=\"group\"><th scope=\"row\">{}</th><td class=\"n\">{}</td>\
                 <td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
                escaped(&row.name),
                row.released,
                row.missed,
                readable(row.cpu_time)
            )
        })
        .collect();
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Tasks in the window\">\
         <table class=\"schedule-tasks\"><thead><tr><th scope=\"col\">Task</th>\
         <th scope=\"col\" class=\"n\">Released in the window</th>\
         <th scope=\"col\" class=\"n\">Deadlines missed</th>\
         <th scope=\"col\" class=\"n\">CPU time</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )
}
