//! A window of a simulated schedule as a picture: what each CPU ran, when each task's jobs were released,
//! ran and had to be done, and how budgets were used and came back.

mod blocks;
mod cells;
mod legend;
mod page;
mod place;
mod rows;

use std::fmt::Write as _;

use tailbound_simulator::traces::{Detail, ScheduleSlice};
use tailbound_time::Duration;

use crate::html::escaped;
use crate::palette::{Palette, Theme};
use crate::wording::{exactly, readable};
use place::Places;

pub(crate) use page::section;
pub use page::{SchedulePage, render_schedule_html};

/// A window of a schedule with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulePicture {
    /// What was simulated, in a few words.
    pub title: String,
    /// What happened.
    pub slice: ScheduleSlice,
}

/// Draws a window of a schedule as an SVG document without scripts.
///
/// From top to bottom: a row per CPU with what ran, coloured by task; then reservations and tasks in
/// the order of the tree. A reservation has the curve of its budget, a task its releases (arrows up),
/// deadlines (arrows down), the time from release to completion (a thin band) and where it ran.
/// A window with too many pieces is drawn in cells of time, with shares for heights, and says so.
pub fn render_schedule_svg(picture: &SchedulePicture, theme: Theme) -> String {
    draw(picture, &theme.palette(), "schedule")
}

/// The same with the colours of a palette. What has a name within the document begins with `id`.
fn draw(picture: &SchedulePicture, palette: &Palette, id: &str) -> String {
    let slice = &picture.slice;
    let places = Places::of(slice);
    let mut pen = SchedulePen {
        out: String::new(),
        palette,
        places: &places,
        slice,
        kernel: format!("{id}-kernel"),
    };
    let legend = legend::entries(slice);
    let height = places.bottom + 44.0 + legend::height(&legend, &places);
    pen.head(picture, height);
    pen.axis();
    pen.labels();
    match &slice.detail {
        Detail::Exact(exact) => blocks::draw(&mut pen, exact),
        Detail::Coarse(cells) => cells::draw(&mut pen, cells),
    }
    pen.end_of_simulation();
    legend::draw(&mut pen, &legend);
    pen.out.push_str("</svg>\n");
    pen.out
}

/// What draws.
struct SchedulePen<'a> {
    out: String,
    palette: &'a Palette,
    places: &'a Places,
    slice: &'a ScheduleSlice,
    /// The name of the pattern for the operating system's time.
    kernel: String,
}

impl SchedulePen<'_> {
    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _written = self.out.write_fmt(text);
    }

    fn head(&mut self, picture: &SchedulePicture, height: f64) {
        let width = self.places.width;
        let Palette {
            ground,
            ink,
            faint_ink,
            ..
        } = *self.palette;
        let title = escaped(&picture.title);
        let about = escaped(&about(self.slice));
        let kernel = self.kernel.clone();
        self.put(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" role=\"img\" \
             font-family=\"'DejaVu Sans', system-ui, sans-serif\" font-size=\"12\">\
             <title>{title}: schedule</title><desc>{desc}</desc>\
             <defs><pattern id=\"{kernel}\" width=\"4\" height=\"4\" \
             patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
             <rect width=\"4\" height=\"4\" fill=\"{ground}\"/>\
             <rect width=\"2\" height=\"4\" fill=\"{faint_ink}\"/></pattern></defs>\
             <rect width=\"100%\" height=\"100%\" fill=\"{ground}\"/>\
             <text x=\"16\" y=\"28\" font-size=\"16\" font-weight=\"bold\" fill=\"{ink}\">\
             {title}</text><text x=\"16\" y=\"47\" fill=\"{faint_ink}\">{about}</text>",
            desc = escaped(&described(self.slice)),
        ));
        if let Detail::Coarse(cells) = &self.slice.detail {
            let cell = readable(Duration::from_nanos(cells.cell_ns));
            self.put(format_args!(
                "<text x=\"16\" y=\"64\" fill=\"{faint_ink}\">too much to draw singly: each \
                 column sums up {cell}, heights are shares of it; choose a shorter window for \
                 single jobs</text>"
            ));
        }
    }

    fn axis(&mut self) {
        let Places { top, bottom, .. } = *self.places;
        let Palette {
            grid, faint_ink, ..
        } = *self.palette;
        let (from, until) = (self.slice.from, self.slice.until);
        for at in crate::ticks::marks_between(from, until) {
            let x = self.places.x(at);
            let label = exactly(Duration::from_nanos(at));
            self.put(format_args!(
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"{grid}\"/>\
                 <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"{faint_ink}\">{label}\
                 </text>",
                top - 6.0,
                bottom + 6.0,
                bottom + 22.0,
            ));
        }
    }

    /// Where the simulation ended, if the window shows it.
    fn end_of_simulation(&mut self) {
        let slice = self.slice;
        if slice.end >= slice.until {
            return;
        }
        let x = self.places.x(slice.end.max(slice.from));
        let Places {
            top, bottom, right, ..
        } = *self.places;
        let Palette { ground, axis, .. } = *self.palette;
        self.put(format_args!(
            "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{ground}\" \
             fill-opacity=\"0.7\"/><line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" \
             stroke=\"{axis}\" stroke-dasharray=\"4 3\"/>",
            top - 6.0,
            (right - x).max(0.0),
            bottom - top + 12.0,
            top - 6.0,
            bottom + 6.0,
        ));
    }
}

/// The window in words.
fn about(slice: &ScheduleSlice) -> String {
    let time = |at: u64| exactly(Duration::from_nanos(at));
    let cpus = match slice.setting.cpus() {
        1 => "one CPU".to_owned(),
        several => format!("{several} CPUs"),
    };
    let end = if slice.end < slice.until {
        format!(", simulated until {}", time(slice.end))
    } else {
        String::new()
    };
    let mut text = format!(
        "{} to {} on {cpus}{end}",
        time(slice.from),
        time(slice.until)
    );
    let missed: u64 = rows::tallies(slice).iter().map(|row| row.missed).sum();
    match missed {
        0 => {}
        1 => text.push_str(", one deadline missed"),
        several => {
            let _written = write!(text, ", {several} deadlines missed");
        }
    }
    text
}

/// The picture in words, for those who cannot see it.
fn described(slice: &ScheduleSlice) -> String {
    let mut text = about(slice);
    for row in rows::tallies(slice) {
        let _written = write!(
            text,
            "; {}: {} jobs released, {} of CPU time, {} deadlines missed",
            row.name,
            row.released,
            readable(row.cpu_time),
            row.missed
        );
    }
    text
}
