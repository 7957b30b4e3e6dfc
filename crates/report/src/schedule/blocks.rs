//! Every piece, job and budget of a window, one by one.

use tailbound_simulator::traces::{Block, Curve, Exact, JobMark};
use tailbound_time::Duration;

use super::SchedulePen;
use super::place::Line;
use crate::html::escaped;
use crate::wording::exactly;

/// The mean width of a character within a block.
const CHARACTER: f64 = 6.6;
/// What is shorter than this on the page is drawn as wide.
const THINNEST: f64 = 0.8;
/// How high the band from release to completion is.
const BAND: f64 = 4.0;

pub(super) fn draw(pen: &mut SchedulePen<'_>, exact: &Exact) {
    for (reservation, curve) in &exact.curves {
        pen.curve(*reservation, curve);
    }
    for job in &exact.jobs {
        pen.band(job);
    }
    for block in &exact.blocks {
        pen.block(block);
    }
    // A deadline often is the next release: what is missed must not be hidden.
    for job in &exact.jobs {
        pen.release(job);
    }
    for missed in [false, true] {
        for job in exact.jobs.iter().filter(|job| job.missed == missed) {
            pen.deadline(job);
        }
    }
}

fn time(at: u64) -> String {
    exactly(Duration::from_nanos(at))
}

impl SchedulePen<'_> {
    fn block(&mut self, block: &Block) {
        let (x, width) = self.span(block.from, block.until);
        let width = width.max(THINNEST);
        let length = time(block.until - block.from);
        let when = format!("{} to {} ({length})", time(block.from), time(block.until));
        let places = self.places;
        let Some(row) = places.cpus.get(block.cpu) else {
            return;
        };
        let Some((task, number)) = block.job else {
            let fill = format!("url(#{})", self.kernel);
            let about = format!("kernel, {when}");
            self.rectangle(x, row.top, width, row.height, &fill, &about);
            return;
        };
        let name = self.slice.setting.task_name(task);
        let about = format!("{name} #{number}, {when}, CPU {}", block.cpu);
        let colour = self.palette.variant(task);
        self.rectangle(x, row.top, width, row.height, colour, &about);
        self.caption(&name, x, row.top + row.height / 2.0 + 4.0, width);
        if let Some(row) = places.tasks.get(task) {
            let (top, height) = (row.top + 8.0, row.height - 8.0);
            self.rectangle(x, top, width, height, colour, &about);
            let number = number.to_string();
            self.caption(&number, x, top + height / 2.0 + 3.0, width);
        }
    }

    fn rectangle(&mut self, x: f64, y: f64, width: f64, height: f64, fill: &str, about: &str) {
        // A seam between neighbours, where there is room for one.
        let seam = if width > 3.0 { 0.6 } else { 0.0 };
        self.put(format_args!(
            "<rect x=\"{x:.2}\" y=\"{y:.1}\" width=\"{:.2}\" height=\"{height:.1}\" \
             fill=\"{fill}\"><title>{}</title></rect>",
            width - seam,
            escaped(about)
        ));
    }

    /// A word within a block, if it fits.
    fn caption(&mut self, text: &str, x: f64, y: f64, width: f64) {
        if text.chars().count() as f64 * CHARACTER + 6.0 > width {
            return;
        }
        let ground = self.palette.ground;
        self.put(format_args!(
            "<text x=\"{:.1}\" y=\"{y:.1}\" font-size=\"11\" text-anchor=\"middle\" \
             fill=\"{ground}\" pointer-events=\"none\">{}</text>",
            x + width / 2.0,
            escaped(text)
        ));
    }

    /// From release to completion, and in another colour what is beyond the deadline.
    fn band(&mut self, job: &JobMark) {
        let Some(row) = self.places.tasks.get(job.task) else {
            return;
        };
        let end = job.completion.unwrap_or(self.slice.end);
        let late = job.due.filter(|_| job.missed).unwrap_or(end).min(end);
        let colour = self.palette.variant(job.task);
        let y = row.bottom() - BAND;
        self.stripe(job.release, late, y, colour, "0.35");
        self.stripe(late, end, y, self.palette.alarm, "1");
    }

    fn stripe(&mut self, from: u64, until: u64, y: f64, colour: &str, opacity: &str) {
        let (x, width) = self.span(from, until);
        if width > 0.0 {
            self.put(format_args!(
                "<rect x=\"{x:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{BAND}\" \
                 fill=\"{colour}\" fill-opacity=\"{opacity}\"/>"
            ));
        }
    }

    fn release(&mut self, job: &JobMark) {
        let places = self.places;
        let Some(row) = places.tasks.get(job.task) else {
            return;
        };
        if places.shows(job.release) {
            let name = self.slice.setting.task_name(job.task);
            let at = time(job.release);
            let about = format!("{name} #{} released at {at}", job.number);
            self.arrow(places.x(job.release), row, true, self.palette.ink, &about);
        }
    }

    /// The deadline, with a cross if it was missed.
    fn deadline(&mut self, job: &JobMark) {
        let places = self.places;
        let (Some(row), Some(deadline)) = (places.tasks.get(job.task), job.due) else {
            return;
        };
        if !places.shows(deadline) {
            return;
        }
        let (ink, alarm) = (self.palette.ink, self.palette.alarm);
        let name = self.slice.setting.task_name(job.task);
        let name = format!("{name} #{}", job.number);
        let about = match (job.missed, job.completion) {
            (false, _) => format!("deadline of {name} at {}", time(deadline)),
            (true, Some(end)) => {
                let late = time(end.saturating_sub(deadline));
                format!("{name} missed its deadline at {} by {late}", time(deadline))
            }
            (true, None) => format!("{name} missed its deadline at {}", time(deadline)),
        };
        let colour = if job.missed { alarm } else { ink };
        self.arrow(places.x(deadline), row, false, colour, &about);
        if job.missed {
            let (x, y) = (places.x(deadline), row.top - 1.0);
            self.put(format_args!(
                "<path d=\"M{:.1} {:.1}l7 7m0 -7l-7 7\" stroke=\"{alarm}\" stroke-width=\"2\"/>",
                x - 3.5,
                y - 4.0
            ));
        }
    }

    pub(super) fn arrow(&mut self, x: f64, row: &Line, up: bool, colour: &str, about: &str) {
        let (top, bottom) = (row.top, row.bottom());
        let head = if up {
            format!("M{x:.2} {top:.1}l-3 5.5h6z")
        } else {
            format!("M{x:.2} {bottom:.1}l-3 -5.5h6z")
        };
        self.put(format_args!(
            "<g fill=\"{colour}\"><title>{}</title><path d=\"M{:.2} {top:.1}h1.2V{bottom:.1}h-1.2z\"/>\
             <path d=\"{head}\"/></g>",
            escaped(about),
            x - 0.6
        ));
    }

    fn curve(&mut self, reservation: usize, curve: &Curve) {
        let index = reservation.saturating_sub(1);
        let (Some(row), Some(content)) = (
            self.places.reservations.get(index),
            self.slice.setting.reservations().get(index),
        ) else {
            return;
        };
        let full = content.budget.as_nanos().max(1) as f64;
        let y = |level: u64| row.bottom() - (level as f64 / full).min(1.0) * row.height;
        let mut line = String::new();
        for stretch in &curve.stretches {
            let (from, until) = (self.places.x(stretch.from), self.places.x(stretch.until));
            let command = if line.is_empty() { 'M' } else { 'L' };
            line.push_str(&format!(
                "{command}{from:.2} {:.2}L{until:.2} {:.2}",
                y(stretch.first),
                y(stretch.last)
            ));
        }
        if let (Some(first), Some(last)) = (curve.stretches.first(), curve.stretches.last()) {
            let (ink, bottom) = (self.palette.faint_ink, row.bottom());
            let (from, until) = (self.places.x(first.from), self.places.x(last.until));
            self.put(format_args!(
                "<path d=\"{line}L{until:.2} {bottom:.1}L{from:.2} {bottom:.1}Z\" fill=\"{ink}\" \
                 fill-opacity=\"0.2\"/><path d=\"{line}\" fill=\"none\" stroke=\"{ink}\" \
                 stroke-width=\"1.4\" stroke-linejoin=\"round\"/>"
            ));
        }
        let alarm = self.palette.alarm;
        for at in &curve.ran_out {
            let about = format!("work waits for budget from {} on", time(*at));
            self.put(format_args!(
                "<circle cx=\"{:.2}\" cy=\"{:.1}\" r=\"2.6\" fill=\"{alarm}\"><title>{about}\
                 </title></circle>",
                self.places.x(*at),
                row.bottom()
            ));
        }
    }
}
