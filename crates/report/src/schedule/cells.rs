//! A window in cells of time: shares instead of pieces.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use tailbound_simulator::traces::Cells;

use super::SchedulePen;

pub(super) fn draw(pen: &mut SchedulePen<'_>, cells: &Cells) {
    pen.levels(cells);
    pen.open(cells);
    pen.shares_of_cpus(cells);
    pen.shares_of_tasks(cells);
    pen.misses(cells);
}

impl SchedulePen<'_> {
    fn cell(&self, cells: &Cells, cell: u64) -> (f64, f64) {
        let until = cells.begin(cell + 1).min(self.slice.until);
        self.span(cells.begin(cell), until)
    }

    /// What each CPU ran in each cell, one above the other.
    fn shares_of_cpus(&mut self, cells: &Cells) {
        let mut shapes: BTreeMap<(usize, Option<usize>), String> = BTreeMap::new();
        let mut base = (usize::MAX, u64::MAX, 0);
        for ((cpu, cell, task), length) in &cells.used {
            let Some(row) = self.places.cpus.get(*cpu) else {
                continue;
            };
            if (base.0, base.1) != (*cpu, *cell) {
                base = (*cpu, *cell, 0);
            }
            let (x, width) = self.cell(cells, *cell);
            let share = |length: u64| (length as f64 / cells.cell_ns as f64).min(1.0) * row.height;
            let (y, height) = (row.bottom() - share(base.2 + length), share(*length));
            let shape = shapes.entry((*cpu, *task)).or_default();
            let _written = write!(shape, "M{x:.2} {y:.2}h{width:.2}v{height:.2}h-{width:.2}z");
            base.2 += length;
        }
        for ((_, task), shape) in shapes {
            let fill = match task {
                Some(task) => self.palette.variant(task).to_owned(),
                None => format!("url(#{})", self.kernel),
            };
            self.put(format_args!("<path d=\"{shape}\" fill=\"{fill}\"/>"));
        }
    }

    /// The share of each cell in which each task ran, on whichever CPU.
    fn shares_of_tasks(&mut self, cells: &Cells) {
        let mut sums: BTreeMap<(usize, u64), u64> = BTreeMap::new();
        for ((_, cell, task), length) in &cells.used {
            if let Some(task) = task {
                *sums.entry((*task, *cell)).or_default() += length;
            }
        }
        let mut shapes: BTreeMap<usize, String> = BTreeMap::new();
        for ((task, cell), length) in sums {
            let Some(row) = self.places.tasks.get(task) else {
                continue;
            };
            let (x, width) = self.cell(cells, cell);
            let height = (length as f64 / cells.cell_ns as f64).min(1.0) * (row.height - 8.0);
            let y = row.bottom() - height;
            let shape = shapes.entry(task).or_default();
            let _written = write!(shape, "M{x:.2} {y:.2}h{width:.2}v{height:.2}h-{width:.2}z");
        }
        for (task, shape) in shapes {
            let colour = self.palette.variant(task);
            self.put(format_args!("<path d=\"{shape}\" fill=\"{colour}\"/>"));
        }
    }

    /// Where jobs of a task were open.
    fn open(&mut self, cells: &Cells) {
        let mut shapes: BTreeMap<usize, String> = BTreeMap::new();
        for ((task, cell), marks) in &cells.marks {
            let Some(row) = self.places.tasks.get(*task).filter(|_| marks.open) else {
                continue;
            };
            let (x, width) = self.cell(cells, *cell);
            let (y, height) = (row.top + 8.0, row.height - 8.0);
            let shape = shapes.entry(*task).or_default();
            let _written = write!(shape, "M{x:.2} {y:.2}h{width:.2}v{height:.2}h-{width:.2}z");
        }
        for (task, shape) in shapes {
            let colour = self.palette.variant(task);
            self.put(format_args!(
                "<path d=\"{shape}\" fill=\"{colour}\" fill-opacity=\"0.18\"/>"
            ));
        }
    }

    /// Where deadlines were missed.
    fn misses(&mut self, cells: &Cells) {
        let alarm = self.palette.alarm;
        for ((task, cell), marks) in &cells.marks {
            let Some(row) = self.places.tasks.get(*task).filter(|_| marks.missed > 0) else {
                continue;
            };
            let (x, width) = self.cell(cells, *cell);
            self.put(format_args!(
                "<rect x=\"{x:.2}\" y=\"{:.1}\" width=\"{:.2}\" height=\"5\" fill=\"{alarm}\">\
                 <title>{} deadlines missed</title></rect>",
                row.top,
                width.max(1.0),
                marks.missed
            ));
        }
    }

    /// Between which levels each budget was.
    fn levels(&mut self, cells: &Cells) {
        let (ink, alarm) = (self.palette.faint_ink, self.palette.alarm);
        let mut shapes: BTreeMap<usize, (String, String)> = BTreeMap::new();
        for ((reservation, cell), (least, most)) in &cells.levels {
            let index = reservation.saturating_sub(1);
            let (Some(row), Some(content)) = (
                self.places.reservations.get(index),
                self.slice.setting.reservations().get(index),
            ) else {
                continue;
            };
            let full = content.budget.as_nanos().max(1) as f64;
            let y = |level: u64| row.bottom() - (level as f64 / full).min(1.0) * row.height;
            let (x, width) = self.cell(cells, *cell);
            let (above, below) = (y(*most), y(*least));
            let bottom = row.bottom();
            let shape = shapes.entry(*reservation).or_default();
            let between = (below - above).max(1.0);
            let _written = write!(
                shape.0,
                "M{x:.2} {above:.2}h{width:.2}v{between:.2}h-{width:.2}z"
            );
            let rest = (bottom - below).max(0.0);
            let _written = write!(
                shape.1,
                "M{x:.2} {below:.2}h{width:.2}v{rest:.2}h-{width:.2}z"
            );
        }
        for (between, below) in shapes.into_values() {
            self.put(format_args!(
                "<path d=\"{below}\" fill=\"{ink}\" fill-opacity=\"0.2\"/>\
                 <path d=\"{between}\" fill=\"{ink}\" fill-opacity=\"0.6\"/>"
            ));
        }
        for ((reservation, cell), times) in &cells.ran_out {
            let index = reservation.saturating_sub(1);
            let Some(row) = self.places.reservations.get(index) else {
                continue;
            };
            let (x, width) = self.cell(cells, *cell);
            self.put(format_args!(
                "<rect x=\"{x:.2}\" y=\"{:.1}\" width=\"{:.2}\" height=\"3\" fill=\"{alarm}\">\
                 <title>work had to wait for budget {times} times</title></rect>",
                row.bottom() - 1.5,
                width.max(1.0)
            ));
        }
    }
}
