//! What happened on named tracks as a picture: a row per track, in the style of the schedules.

use std::fmt::Write as _;

use tailbound_simulator::traces::{TimelineMark, TimelineSlice, TimelineTrack};
use tailbound_time::Duration;

use crate::column_stack;
use crate::html::{Page, escaped, facts};
use crate::palette::{Palette, Theme};
use crate::section::PictureSection;
use crate::wording::{exactly, readable};

const WIDTH: f64 = 1100.0;
const RIGHT: f64 = 28.0;
const INDENT: f64 = 12.0;
/// The mean width of a character of a label, and of one within a slice.
const CHARACTER: f64 = 7.0;
const SMALL_CHARACTER: f64 = 6.6;
const ROW: f64 = 24.0;
const GUTTER: f64 = 6.0;
/// What is shorter than this on the page is drawn as wide.
const THINNEST: f64 = 1.6;
/// A detail is drawn where what it shows is so many times shorter than the whole.
const WORTH_A_DETAIL: u64 = 3;

/// Tracks with what they are about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimelinePicture {
    /// What it shows, in a few words.
    pub title: String,
    /// How it went, in a sentence.
    pub about: String,
    /// The tracks. The slices of the first one are the whole.
    pub tracks: Vec<TimelineTrack>,
}

/// Draws tracks as an SVG document without scripts. Times count from the first event. Where something
/// goes on long after the last slice of the first track has ended, the time until then is drawn once
/// more, larger.
pub fn render_timeline_svg(picture: &TimelinePicture, theme: Theme) -> String {
    draw(picture, &theme.palette())
}

/// The same as a page of its own. It has no script, holds its own style, and loads nothing.
pub fn render_timeline_html(picture: &TimelinePicture, tailbound_version: &str) -> String {
    let page = Page {
        title: &picture.title,
        tailbound_version,
        skip_to: None,
        facts: facts(&[&picture.about]),
        content: format!("<section>{}</section>\n", figure(picture)),
        script: None,
    };
    page.render()
}

/// The section of a page with the pictures of a subsystem; nothing without a picture.
pub(crate) fn section(section: &PictureSection) -> String {
    let stacks = section.stacks.iter().map(column_stack::figure);
    let figures: String = stacks.chain(section.pictures.iter().map(figure)).collect();
    if figures.is_empty() {
        return figures;
    }
    format!(
        "<section id=\"{}\"><h2>{}</h2><p class=\"note\">{}</p>{figures}</section>\n",
        section.id,
        section.title,
        escaped(&section.note)
    )
}

fn figure(picture: &TimelinePicture) -> String {
    format!(
        "<figure class=\"plot schedule\"><div class=\"scroll\" tabindex=\"0\" role=\"region\" \
         aria-label=\"Timeline: {}\">{}</div></figure>",
        escaped(&picture.title),
        draw(picture, &Palette::of_page())
    )
}

/// A row of the picture.
struct TrackRow<'a> {
    label: &'a str,
    depth: usize,
    track: &'a TimelineTrack,
}

fn rows<'a>(tracks: &'a [TimelineTrack], depth: usize, into: &mut Vec<TrackRow<'a>>) {
    for track in tracks {
        into.push(TrackRow {
            label: &track.name,
            depth,
            track,
        });
        rows(&track.below, depth + 1, into);
    }
}

/// From when to when something happens, and the windows that are drawn of it.
fn windows(picture: &TimelinePicture, rows: &[TrackRow<'_>]) -> Vec<(u64, u64)> {
    let slices = || rows.iter().flat_map(|row| &row.track.slices);
    let marks = || {
        rows.iter()
            .flat_map(|row| &row.track.marks)
            .map(|mark| mark.at_ns)
    };
    let first = slices().map(|slice| slice.from_ns).chain(marks()).min();
    let last = slices().map(|slice| slice.until_ns).chain(marks()).max();
    let (Some(first), Some(last)) = (first, last) else {
        return vec![(0, 1)];
    };
    let whole = (first, last.max(first + 1));
    let of_first = picture
        .tracks
        .iter()
        .take(1)
        .flat_map(|track| &track.slices);
    let end = of_first.map(|slice| slice.until_ns).max().unwrap_or(last);
    let short = end.saturating_sub(first);
    match short > 0 && short.saturating_mul(WORTH_A_DETAIL) < whole.1 - whole.0 {
        true => vec![whole, (first, end)],
        false => vec![whole],
    }
}

/// The names of slices, each with a colour of its own.
fn names<'a>(rows: &[TrackRow<'a>]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for slice in rows.iter().skip(1).flat_map(|row| &row.track.slices) {
        if !names.contains(&slice.name.as_str()) {
            names.push(&slice.name);
        }
    }
    names
}

struct TimelinePen<'a> {
    out: String,
    palette: &'a Palette,
    names: Vec<&'a str>,
    left: f64,
    top: f64,
    first: u64,
    window: (u64, u64),
}

fn draw(picture: &TimelinePicture, palette: &Palette) -> String {
    let mut all = Vec::new();
    rows(&picture.tracks, 0, &mut all);
    let windows = windows(picture, &all);
    let widest = all.iter().map(|row| {
        row.depth as f64 * INDENT + row.label.chars().count().min(28) as f64 * CHARACTER
    });
    let height_of_rows = all.len() as f64 * (ROW + GUTTER);
    let height = 70.0 + windows.len() as f64 * (height_of_rows + 60.0) + 40.0;
    let mut pen = TimelinePen {
        out: String::new(),
        palette,
        names: names(&all),
        left: 16.0 + widest.fold(64.0, f64::max) + 14.0,
        top: 70.0,
        first: windows[0].0,
        window: windows[0],
    };
    pen.head(picture, height);
    for window in windows {
        pen.window = window;
        pen.axis(height_of_rows);
        for row in &all {
            pen.row(row);
        }
        pen.top += 60.0;
    }
    pen.legend();
    pen.out.push_str("</svg>\n");
    pen.out
}

impl TimelinePen<'_> {
    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _written = self.out.write_fmt(text);
    }

    fn head(&mut self, picture: &TimelinePicture, height: f64) {
        let Palette {
            ground,
            ink,
            faint_ink,
            ..
        } = *self.palette;
        let (title, about) = (escaped(&picture.title), escaped(&picture.about));
        self.put(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             width=\"{WIDTH}\" height=\"{height}\" role=\"img\" \
             font-family=\"'DejaVu Sans', system-ui, sans-serif\" font-size=\"12\">\
             <title>{title}</title><desc>{about}</desc>\
             <rect width=\"100%\" height=\"100%\" fill=\"{ground}\"/>\
             <text x=\"16\" y=\"28\" font-size=\"16\" font-weight=\"bold\" fill=\"{ink}\">{title}\
             </text><text x=\"16\" y=\"47\" fill=\"{faint_ink}\">{about}</text>"
        ));
    }

    fn x(&self, at: u64) -> f64 {
        let (from, until) = self.window;
        let share = (at.clamp(from, until) - from) as f64 / (until - from) as f64;
        self.left + share * (WIDTH - RIGHT - self.left)
    }

    fn time(&self, at: u64) -> String {
        readable(Duration::from_nanos(at.saturating_sub(self.first)))
    }

    fn axis(&mut self, height: f64) {
        let Palette {
            grid, faint_ink, ..
        } = *self.palette;
        let until = self.window.1 - self.first;
        let bottom = self.top + height;
        for after in crate::ticks::marks_between(0, until) {
            let x = self.x(self.first + after);
            let label = exactly(Duration::from_nanos(after));
            self.put(format_args!(
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{bottom:.1}\" \
                 stroke=\"{grid}\"/><text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" \
                 fill=\"{faint_ink}\">{label}</text>",
                self.top - 6.0,
                bottom + 16.0,
            ));
        }
    }

    fn row(&mut self, row: &TrackRow<'_>) {
        let ink = self.palette.ink;
        let label: String = row.label.chars().take(28).collect();
        self.put(format_args!(
            "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"{ink}\">{}</text>",
            16.0 + row.depth as f64 * INDENT,
            self.top + ROW / 2.0 + 4.0,
            escaped(&label)
        ));
        for slice in &row.track.slices {
            if slice.from_ns < self.window.1 || slice.from_ns == slice.until_ns {
                self.slice(slice);
            }
        }
        for mark in &row.track.marks {
            if mark.at_ns <= self.window.1 {
                self.mark(mark);
            }
        }
        self.top += ROW + GUTTER;
    }

    fn colour(&self, name: &str) -> &'static str {
        let place = self.names.iter().position(|one| *one == name);
        place.map_or(self.palette.axis, |place| self.palette.variant(place))
    }

    fn slice(&mut self, slice: &TimelineSlice) {
        let x = self.x(slice.from_ns);
        let width = (self.x(slice.until_ns) - x).max(THINNEST);
        let lasted = readable(Duration::from_nanos(slice.until_ns - slice.from_ns));
        let (from, until) = (self.time(slice.from_ns), self.time(slice.until_ns));
        let about = format!("{}, {from} to {until} ({lasted})", slice.name);
        let about = said(about, &slice.remark);
        let colour = self.colour(&slice.name);
        let top = self.top;
        self.put(format_args!(
            "<rect x=\"{x:.2}\" y=\"{top:.1}\" width=\"{width:.2}\" height=\"{ROW}\" \
             fill=\"{colour}\"><title>{}</title></rect>",
            escaped(&about)
        ));
        if slice.name.chars().count() as f64 * SMALL_CHARACTER + 6.0 <= width {
            let ground = self.palette.ground;
            self.put(format_args!(
                "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"11\" text-anchor=\"middle\" \
                 fill=\"{ground}\" pointer-events=\"none\">{}</text>",
                x + width / 2.0,
                top + ROW / 2.0 + 4.0,
                escaped(&slice.name)
            ));
        }
    }

    fn mark(&mut self, mark: &TimelineMark) {
        let x = self.x(mark.at_ns);
        let about = format!("{}, {}", mark.name, self.time(mark.at_ns));
        let about = said(about, &mark.remark);
        let (ink, top) = (self.palette.ink, self.top);
        self.put(format_args!(
            "<path d=\"M{x:.1} {top:.1}v{ROW}m-4 0h8l-4 -6z\" stroke=\"{ink}\" fill=\"{ink}\">\
             <title>{}</title></path>",
            escaped(&about)
        ));
    }

    fn legend(&mut self) {
        let (mut x, y) = (self.left, self.top - 14.0);
        for name in self.names.clone() {
            let (colour, ink) = (self.colour(name), self.palette.ink);
            self.put(format_args!(
                "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"22\" height=\"14\" fill=\"{colour}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" fill=\"{ink}\">{}</text>",
                y - 7.0,
                x + 30.0,
                y + 4.0,
                escaped(name)
            ));
            x += 48.0 + name.chars().count() as f64 * CHARACTER;
        }
    }
}

/// With what else is to be said, if anything.
fn said(about: String, remark: &str) -> String {
    match remark {
        "" => about,
        remark => format!("{about}: {remark}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn picture(name: &str, times: &[(u64, u64)]) -> TimelinePicture {
        let mut whole = TimelineTrack::named("change");
        let mut one = TimelineTrack::named(name);
        for (from_ns, until_ns) in times {
            let slice = TimelineSlice {
                name: name.to_owned(),
                from_ns: *from_ns.min(until_ns),
                until_ns: *from_ns.max(until_ns),
                remark: name.to_owned(),
            };
            one.marks.push(TimelineMark {
                name: name.to_owned(),
                at_ns: *until_ns,
                remark: String::new(),
            });
            whole.slices.truncate(0);
            whole.slices.push(slice.clone());
            one.add("below", slice);
        }
        TimelinePicture {
            title: name.to_owned(),
            about: String::new(),
            tracks: vec![whole, one],
        }
    }

    #[test]
    fn what_is_much_shorter_than_the_whole_is_drawn_once_more() {
        let mut drawn = picture("send", &[(1_000, 2_000)]);
        let count = |drawn: &TimelinePicture| {
            let svg = render_timeline_svg(drawn, Theme::Light);
            svg.matches("<title>send, 0 to 1.00 \u{b5}s (1.00 \u{b5}s): send")
                .count()
        };
        // On the first track and on its own.
        assert_eq!(count(&drawn), 2);
        drawn.tracks[0].marks.push(TimelineMark {
            name: "all in force".into(),
            at_ns: 50_000,
            remark: String::new(),
        });
        assert_eq!(count(&drawn), 4);
    }

    proptest! {
        #[test]
        fn every_picture_is_well_formed(
            name in any::<String>(),
            times in proptest::collection::vec(any::<(u64, u64)>(), 0..6),
        ) {
            // XML has no such characters; neither has a name of a mode or a domain.
            let name: String = name.chars().filter(|c| !c.is_control()).collect();
            let name = name.replace(['\u{fffe}', '\u{ffff}'], "");
            let picture = picture(&name, &times);
            let svg = render_timeline_svg(&picture, Theme::Dark);
            roxmltree::Document::parse(&svg).unwrap();
            let page = render_timeline_html(&picture, "0");
            prop_assert!(page.contains("</html>"));
            prop_assert!(!svg.contains("NaN") && !svg.contains("inf"));
        }
    }
}
