//! What the signs of a picture mean.

use std::collections::BTreeSet;

use tailbound_simulator::traces::{BalanceKind, Detail, ScheduleSlice};

use super::SchedulePen;
use super::place::{CHARACTER, Places};

const ROW: f64 = 22.0;

/// A sign of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Ran,
    Open,
    Release,
    Deadline,
    Missed,
    Kernel,
    Budget,
    RanOut,
}

/// The signs that a picture has, with what they mean.
pub(super) fn entries(slice: &ScheduleSlice) -> Vec<(Sign, &'static str)> {
    let setting = &slice.setting;
    let deadlines = setting.tasks().iter().any(|task| task.deadline.is_some());
    let kinds = setting.reservations().iter();
    let kinds: BTreeSet<_> = kinds.filter_map(BalanceKind::of).collect();
    let budget = match (
        kinds.contains(&BalanceKind::Left),
        kinds.contains(&BalanceKind::Used),
    ) {
        (true, true) => "budget left, or used where noted",
        (true, false) => "budget left",
        (false, _) => "used since replenishment",
    };
    let reserved = !setting.reservations().is_empty();
    let (single, kernel) = match &slice.detail {
        Detail::Exact(exact) => (true, exact.blocks.iter().any(|block| block.job.is_none())),
        Detail::Coarse(cells) => (false, cells.used.keys().any(|(_, _, task)| task.is_none())),
    };
    let all = [
        (true, Sign::Ran, "runs"),
        (true, Sign::Open, "released, not done"),
        (single, Sign::Release, "release"),
        (single && deadlines, Sign::Deadline, "deadline"),
        (deadlines, Sign::Missed, "deadline missed"),
        (kernel, Sign::Kernel, "kernel"),
        (!kinds.is_empty(), Sign::Budget, budget),
        (reserved, Sign::RanOut, "work waits for budget or window"),
    ];
    all.into_iter()
        .filter(|(shown, _, _)| *shown)
        .map(|(_, sign, text)| (sign, text))
        .collect()
}

/// Where each entry goes, as column and row.
fn spots(entries: &[(Sign, &'static str)], places: &Places) -> Vec<(f64, f64)> {
    let (mut x, mut row) = (places.left, 0.0);
    entries
        .iter()
        .map(|(_, text)| {
            let width = 30.0 + text.chars().count() as f64 * CHARACTER + 18.0;
            if x > places.left && x + width > places.width {
                (x, row) = (places.left, row + 1.0);
            }
            let spot = (x, row);
            x += width;
            spot
        })
        .collect()
}

pub(super) fn height(entries: &[(Sign, &'static str)], places: &Places) -> f64 {
    let rows = spots(entries, places)
        .last()
        .map_or(0.0, |(_, row)| row + 1.0);
    rows * ROW + 8.0
}

pub(super) fn draw(pen: &mut SchedulePen<'_>, entries: &[(Sign, &'static str)]) {
    let top = pen.places.bottom + 44.0;
    for ((sign, text), (x, row)) in entries.iter().zip(spots(entries, pen.places)) {
        let y = top + row * ROW;
        pen.sign(*sign, x, y);
        let ink = pen.palette.ink;
        pen.put(format_args!(
            "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"{ink}\">{text}</text>",
            x + 30.0,
            y + 4.0
        ));
    }
}

impl SchedulePen<'_> {
    /// Draws a sign of 22 times 14 with its left edge at `x` and its middle at `y`.
    fn sign(&mut self, sign: Sign, x: f64, y: f64) {
        let (ink, faint_ink) = (self.palette.ink, self.palette.faint_ink);
        let (alarm, first) = (self.palette.alarm, self.palette.variant(0));
        let (top, bottom, middle) = (y - 7.0, y + 7.0, x + 11.0);
        match sign {
            Sign::Ran => self.put(format_args!(
                "<rect x=\"{x}\" y=\"{top}\" width=\"22\" height=\"14\" fill=\"{first}\"/>"
            )),
            Sign::Open => self.put(format_args!(
                "<rect x=\"{x}\" y=\"{}\" width=\"22\" height=\"5\" fill=\"{first}\" \
                 fill-opacity=\"0.35\"/>",
                y - 2.5
            )),
            Sign::Release => self.put(format_args!(
                "<path d=\"M{} {top}h1.2v14h-1.2z\" fill=\"{ink}\"/>\
                 <path d=\"M{middle} {top}l-3 5.5h6z\" fill=\"{ink}\"/>",
                middle - 0.6
            )),
            Sign::Deadline => self.put(format_args!(
                "<path d=\"M{} {top}h1.2v14h-1.2z\" fill=\"{ink}\"/>\
                 <path d=\"M{middle} {bottom}l-3 -5.5h6z\" fill=\"{ink}\"/>",
                middle - 0.6
            )),
            Sign::Missed if matches!(self.slice.detail, Detail::Exact(_)) => {
                self.put(format_args!(
                    "<path d=\"M{} {}l7 7m0 -7l-7 7\" stroke=\"{alarm}\" stroke-width=\"2\"/>\
                     <rect x=\"{}\" y=\"{}\" width=\"10\" height=\"4\" fill=\"{alarm}\"/>",
                    x + 1.0,
                    y - 3.5,
                    x + 12.0,
                    y - 2.0
                ));
            }
            Sign::Missed => self.put(format_args!(
                "<rect x=\"{x}\" y=\"{}\" width=\"22\" height=\"5\" fill=\"{alarm}\"/>",
                y - 2.5
            )),
            Sign::Kernel => {
                let kernel = self.kernel.clone();
                self.put(format_args!(
                    "<rect x=\"{x}\" y=\"{top}\" width=\"22\" height=\"14\" \
                     fill=\"url(#{kernel})\"/>"
                ));
            }
            Sign::Budget => self.put(format_args!(
                "<path d=\"M{x} {bottom}V{top}l14 14V{top}h8V{bottom}z\" fill=\"{faint_ink}\" \
                 fill-opacity=\"0.2\"/><path d=\"M{x} {top}l14 14V{top}h8\" fill=\"none\" \
                 stroke=\"{faint_ink}\" stroke-width=\"1.4\"/>"
            )),
            Sign::RanOut => self.put(format_args!(
                "<circle cx=\"{middle}\" cy=\"{y}\" r=\"2.6\" fill=\"{alarm}\"/>"
            )),
        }
    }
}
