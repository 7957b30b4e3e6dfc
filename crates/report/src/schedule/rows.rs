//! The labels of rows, their ground, and what each row comes to.

use std::collections::BTreeMap;

use tailbound_simulator::traces::{BalanceKind, Detail, ScheduleSlice};
use tailbound_time::Duration;

use super::SchedulePen;
use super::place::Line;
use crate::html::escaped;

/// At most so many windows of a partition are shaded.
const MOST_WINDOWS: u64 = 400;

/// What a window comes to for a task.
pub(super) struct TaskTally {
    pub(super) name: String,
    pub(super) released: u64,
    pub(super) missed: u64,
    pub(super) cpu_time: Duration,
}

/// What the window comes to, by task.
pub(super) fn tallies(slice: &ScheduleSlice) -> Vec<TaskTally> {
    // Releases, missed deadlines, nanoseconds.
    let mut sums: BTreeMap<usize, (u64, u64, u64)> = BTreeMap::new();
    match &slice.detail {
        Detail::Exact(exact) => {
            let inside = slice.from..slice.until;
            for job in &exact.jobs {
                let sum = sums.entry(job.task).or_default();
                sum.0 += u64::from(inside.contains(&job.release));
                let due = job.due.is_some_and(|at| inside.contains(&at));
                sum.1 += u64::from(job.missed && due);
            }
            for block in &exact.blocks {
                if let Some((task, _)) = block.job {
                    sums.entry(task).or_default().2 += block.until - block.from;
                }
            }
        }
        Detail::Coarse(cells) => {
            for ((task, _), marks) in &cells.marks {
                let sum = sums.entry(*task).or_default();
                sum.0 += marks.released;
                sum.1 += marks.missed;
            }
            for ((_, _, task), length) in &cells.used {
                if let Some(task) = task {
                    sums.entry(*task).or_default().2 += length;
                }
            }
        }
    }
    let tasks = slice.setting.tasks().iter().enumerate();
    tasks
        .map(|(index, task)| {
            let (released, missed, ran) = sums.get(&index).copied().unwrap_or_default();
            TaskTally {
                name: task.name.clone(),
                released,
                missed,
                cpu_time: Duration::from_nanos(ran),
            }
        })
        .collect()
}

impl SchedulePen<'_> {
    /// The names of the rows, and the lines that they stand on.
    pub(super) fn labels(&mut self) {
        let places = self.places;
        for line in &places.cpus {
            self.label(line, false);
            let (left, right) = (places.left, places.right);
            let grid = self.palette.grid;
            self.put(format_args!(
                "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" \
                 fill=\"{grid}\" fill-opacity=\"0.55\"/>",
                line.top,
                right - left,
                line.height
            ));
        }
        for line in &places.tasks {
            self.label(line, false);
            self.base(line);
        }
        for (index, line) in places.reservations.iter().enumerate() {
            self.label(line, true);
            let reservation = &self.slice.setting.reservations()[index];
            if let Some(windows) = reservation.rule.windows() {
                let frame_ns = reservation.period.as_nanos().max(1);
                let phase = reservation.phase.as_nanos() % frame_ns;
                let spans: Vec<(u64, u64)> = windows
                    .iter()
                    .map(|window| (window.offset.as_nanos(), window.length.as_nanos()))
                    .collect();
                self.windows(line, frame_ns, phase, &spans);
                self.base(line);
            } else if let Some(kind) = BalanceKind::of(reservation) {
                self.base(line);
                self.full(line, kind);
            }
        }
    }

    fn label(&mut self, line: &Line, bold: bool) {
        let middle = line.top + line.height / 2.0;
        let (y, weight) = match (line.note.is_empty(), bold) {
            (true, false) => (middle + 4.0, "normal"),
            (true, true) => (middle + 4.0, "bold"),
            (false, _) => (middle - 3.0, "bold"),
        };
        let x = 16.0 + line.indent;
        let (ink, faint_ink) = (self.palette.ink, self.palette.faint_ink);
        self.put(format_args!(
            "<text x=\"{x}\" y=\"{y:.1}\" font-weight=\"{weight}\" fill=\"{ink}\">{}</text>",
            escaped(&line.label)
        ));
        if !line.note.is_empty() {
            self.put(format_args!(
                "<text x=\"{x}\" y=\"{:.1}\" font-size=\"10\" fill=\"{faint_ink}\">{}</text>",
                middle + 11.0,
                escaped(&line.note)
            ));
        }
    }

    fn base(&mut self, line: &Line) {
        let (left, right, y) = (self.places.left, self.places.right, line.bottom());
        let axis = self.palette.axis;
        self.put(format_args!(
            "<line x1=\"{left:.1}\" x2=\"{right:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" \
             stroke=\"{axis}\"/>"
        ));
    }

    /// The full budget, as a line of points.
    fn full(&mut self, line: &Line, kind: BalanceKind) {
        let (left, right) = (self.places.left, self.places.right);
        let axis = self.palette.axis;
        let dashes = match kind {
            BalanceKind::Left => "1 3",
            BalanceKind::Used => "4 3",
        };
        self.put(format_args!(
            "<line x1=\"{left:.1}\" x2=\"{right:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" \
             stroke=\"{axis}\" stroke-dasharray=\"{dashes}\"/>",
            y = line.top
        ));
    }

    /// The windows of a partition, shaded; none if there are too many to be told apart.
    fn windows(&mut self, line: &Line, frame_ns: u64, phase: u64, spans: &[(u64, u64)]) {
        let (from, until) = (self.slice.from, self.slice.until);
        let first = from.saturating_sub(phase) / frame_ns;
        let last = until.saturating_sub(phase) / frame_ns;
        if (last - first).saturating_mul(spans.len() as u64) > MOST_WINDOWS {
            return;
        }
        let ink = self.palette.faint_ink;
        // The frame in front of the phase has windows, too.
        let frames = (first.saturating_sub(1)..=last).map(i128::from);
        let before = (phase > 0 && first == 0).then_some(-1);
        for frame in before.into_iter().chain(frames) {
            let begin = i128::from(phase) + frame * i128::from(frame_ns);
            for (offset, length) in spans {
                let start = begin + i128::from(*offset);
                let end = start + i128::from(*length);
                let cut = |at: i128| u64::try_from(at.max(0)).unwrap_or(u64::MAX);
                let (x, width) = self.span(cut(start).max(from), cut(end).min(until));
                if width > 0.0 && end > i128::from(from) && start < i128::from(until) {
                    self.put(format_args!(
                        "<rect x=\"{x:.2}\" y=\"{:.1}\" width=\"{width:.2}\" height=\"{:.1}\" \
                         fill=\"{ink}\" fill-opacity=\"0.25\"/>",
                        line.top, line.height
                    ));
                }
            }
        }
    }

    /// Where a time begins in the picture, and how wide it is there.
    pub(super) fn span(&self, from: u64, until: u64) -> (f64, f64) {
        let x = self.places.x(from);
        (x, (self.places.x(until) - x).max(0.0))
    }
}
