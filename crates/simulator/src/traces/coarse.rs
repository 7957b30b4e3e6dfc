//! A window of a schedule in cells of time, for one that has too many pieces to be drawn singly.

use std::collections::BTreeMap;

use super::balance::CurveSegment;
use super::setting::Setting;
use super::window::{Block, JobMark};

/// More cells than this cannot be told apart on a page.
const MOST_CELLS: u64 = 480;

/// What happened in each cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cells {
    from: u64,
    /// How long a cell is, in nanoseconds.
    pub cell_ns: u64,
    /// How many there are.
    pub count: u64,
    /// How long each CPU (first), in each cell (second), ran each task or, as `None`, the operating system
    /// (third), in nanoseconds.
    pub used: BTreeMap<(usize, u64, Option<usize>), u64>,
    /// What became of the jobs of each task (first) in each cell (second).
    pub marks: BTreeMap<(usize, u64), Marks>,
    /// The least and the most of the curve of each reservation (first) in each cell (second), in
    /// nanoseconds.
    pub levels: BTreeMap<(usize, u64), (u64, u64)>,
    /// How often each reservation (first) ran out in each cell (second).
    pub ran_out: BTreeMap<(usize, u64), u64>,
}

/// What became of the jobs of a task in a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Jobs that were released in it.
    pub released: u64,
    /// Deadlines in it that were missed.
    pub missed: u64,
    /// Whether a job was released and not done in some part of it.
    pub open: bool,
}

impl Cells {
    /// Cells for the window from `from` until `until`, so many that about `most` shares of tasks in
    /// them can be drawn.
    pub(super) fn new(setting: &Setting, from: u64, until: u64, most: usize) -> Self {
        let rows = setting.cpus().max(1) * (setting.tasks().len() + 1);
        let affordable = (most / rows) as u64;
        let length = (until - from).max(1);
        let cell_ns = length.div_ceil(affordable.clamp(1, MOST_CELLS));
        Self {
            from,
            cell_ns,
            count: length.div_ceil(cell_ns),
            used: BTreeMap::new(),
            marks: BTreeMap::new(),
            levels: BTreeMap::new(),
            ran_out: BTreeMap::new(),
        }
    }

    /// Where a cell begins, in nanoseconds.
    pub fn begin(&self, cell: u64) -> u64 {
        self.from.saturating_add(cell.saturating_mul(self.cell_ns))
    }

    /// The cell of an instant within the window.
    fn cell(&self, at: u64) -> u64 {
        (at.saturating_sub(self.from) / self.cell_ns).min(self.count - 1)
    }

    /// The cells that a time within the window touches, and its part in each.
    fn parts(&self, from: u64, until: u64) -> impl Iterator<Item = (u64, u64, u64)> + use<> {
        let (origin, cell_ns, count) = (self.from, self.cell_ns, self.count);
        let first = self.cell(from);
        let last = self.cell(until.saturating_sub(1).max(from));
        (first..=last).map(move |cell| {
            let begin = origin.saturating_add(cell.saturating_mul(cell_ns));
            let end = if cell + 1 == count {
                until
            } else {
                begin.saturating_add(cell_ns)
            };
            (cell, begin.max(from), end.min(until))
        })
    }

    pub(super) fn add_block(&mut self, block: &Block) {
        for (cell, from, until) in self.parts(block.from, block.until) {
            let task = block.job.map(|(task, _)| task);
            let used = self.used.entry((block.cpu, cell, task)).or_default();
            *used = used.saturating_add(until.saturating_sub(from));
        }
    }

    /// A job, as far as the window, which ends at `until`, shows it. One that is not done was open until
    /// `end`.
    pub(super) fn add_job(&mut self, job: &JobMark, until: u64, end: u64) {
        let inside = self.from..until;
        if inside.contains(&job.release) {
            let cell = self.cell(job.release);
            self.marks.entry((job.task, cell)).or_default().released += 1;
        }
        if let Some(deadline) = job.due
            && job.missed
            && inside.contains(&deadline)
        {
            let cell = self.cell(deadline);
            self.marks.entry((job.task, cell)).or_default().missed += 1;
        }
        let begin = job.release.max(self.from);
        let end = job.completion.unwrap_or(end).min(until);
        if begin < end {
            for (cell, _, _) in self.parts(begin, end) {
                self.marks.entry((job.task, cell)).or_default().open = true;
            }
        }
    }

    pub(super) fn add_stretch(&mut self, reservation: usize, stretch: &CurveSegment) {
        for (cell, from, until) in self.parts(stretch.from, stretch.until) {
            let (first, last) = (stretch.at(from), stretch.at(until));
            let levels = self
                .levels
                .entry((reservation, cell))
                .or_insert((u64::MAX, 0));
            levels.0 = levels.0.min(first).min(last);
            levels.1 = levels.1.max(first).max(last);
        }
    }

    pub(super) fn add_shortage(&mut self, reservation: usize, at: u64) {
        let cell = self.cell(at);
        *self.ran_out.entry((reservation, cell)).or_default() += 1;
    }
}
