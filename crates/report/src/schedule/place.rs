//! Where everything of a picture goes.

use tailbound_simulator::traces::{BalanceKind, Detail, Row, ScheduleSlice};

use crate::wording::exactly;

const WIDTH: f64 = 1100.0;
const RIGHT: f64 = 28.0;
/// The mean width of a character of the labels.
pub(super) const CHARACTER: f64 = 7.0;
/// How far what is inside of a reservation stands to the right of it.
pub(super) const INDENT: f64 = 12.0;
/// Labels are cut behind so many characters.
const LONGEST_LABEL: usize = 28;

const CPU_ROW: f64 = 26.0;
const TASK_ROW: f64 = 30.0;
const CURVE_ROW: f64 = 44.0;
const HEADING_ROW: f64 = 18.0;
const GUTTER: f64 = 10.0;

/// A row of the picture.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    pub(super) label: String,
    /// What stands below it in smaller letters.
    pub(super) note: String,
    pub(super) indent: f64,
    pub(super) top: f64,
    pub(super) height: f64,
}

impl Line {
    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height
    }
}

/// The rows, and how instants map onto the picture.
pub(super) struct Places {
    pub(super) width: f64,
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
    from: u64,
    until: u64,
    pub(super) cpus: Vec<Line>,
    pub(super) tasks: Vec<Line>,
    /// The first is reservation 1.
    pub(super) reservations: Vec<Line>,
}

impl Places {
    pub(super) fn of(slice: &ScheduleSlice) -> Self {
        let top = match slice.detail {
            Detail::Exact(_) => 70.0,
            Detail::Coarse(_) => 86.0,
        };
        let mut places = Self {
            width: WIDTH,
            left: 0.0,
            right: WIDTH - RIGHT,
            top,
            bottom: top,
            from: slice.from,
            until: slice.until.max(slice.from + 1),
            cpus: Vec::new(),
            tasks: Vec::new(),
            reservations: Vec::new(),
        };
        for cpu in 0..slice.setting.cpus() {
            let line = places.next(format!("CPU {cpu}"), String::new(), 0, CPU_ROW);
            places.cpus.push(line);
        }
        places.bottom += GUTTER;
        places.add_tree(slice);
        let widest = places
            .cpus
            .iter()
            .chain(&places.tasks)
            .chain(&places.reservations)
            .map(|line| {
                let characters = line.label.chars().count() as f64 * CHARACTER;
                let small = line.note.chars().count() as f64 * CHARACTER * 0.85;
                line.indent + characters.max(small)
            });
        places.left = 16.0 + widest.fold(64.0, f64::max) + 14.0;
        places
    }

    fn add_tree(&mut self, slice: &ScheduleSlice) {
        let setting = &slice.setting;
        for row in setting.rows() {
            match *row {
                Row::Task(task) => {
                    let task = &setting.tasks()[task];
                    let depth = task.inside_of.len();
                    let line = self.next(task.name.clone(), String::new(), depth, TASK_ROW);
                    self.tasks.push(line);
                }
                Row::Reservation(number) => {
                    let reservation = &setting.reservations()[number - 1];
                    let of_period = || exactly(reservation.period);
                    let (note, height) = match BalanceKind::of(reservation) {
                        Some(BalanceKind::Left) => (
                            format!("{} in {}", exactly(reservation.budget), of_period()),
                            CURVE_ROW,
                        ),
                        Some(BalanceKind::Used) => (
                            format!("{} in {}, used", exactly(reservation.budget), of_period()),
                            CURVE_ROW,
                        ),
                        None if reservation.period.is_zero() => (String::new(), HEADING_ROW),
                        None => (format!("windows in {}", of_period()), TASK_ROW),
                    };
                    let line = self.next(
                        reservation.name.clone(),
                        note,
                        reservation.path.len() - 1,
                        height,
                    );
                    self.reservations.push(line);
                }
            }
        }
    }

    fn next(&mut self, label: String, note: String, depth: usize, height: f64) -> Line {
        let line = Line {
            label: shortened(&label),
            note: shortened(&note),
            // Deeper trees than this have no more room to the left.
            indent: depth.min(8) as f64 * INDENT,
            top: self.bottom,
            height,
        };
        self.bottom += height + GUTTER;
        line
    }

    pub(super) fn x(&self, at: u64) -> f64 {
        let at = at.clamp(self.from, self.until);
        let share = (at - self.from) as f64 / (self.until - self.from) as f64;
        self.left + share * (self.right - self.left)
    }

    pub(super) fn shows(&self, at: u64) -> bool {
        (self.from..self.until).contains(&at)
    }
}

/// A label cut to the width of its column.
fn shortened(label: &str) -> String {
    if label.chars().count() <= LONGEST_LABEL {
        return label.into();
    }
    let kept = label.chars().take(LONGEST_LABEL - 1);
    kept.chain(['\u{2026}']).collect()
}
