//! A window of a schedule, to be drawn.

use std::collections::BTreeMap;

use super::balance::{Balances, CurveSegment};
use super::coarse::Cells;
use super::open_jobs::{OpenJob, OpenJobs};
use super::setting::Setting;
use crate::hierarchy::{Completion, Job, Piece, Sink};

/// As many blocks, jobs and stretches of curves as a picture shows singly, if nothing else is said.
pub const BLOCKS: usize = 2_000;

/// What happened in a window of time. All instants are nanoseconds from the start of the simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleSlice {
    /// The names, deadlines and budgets.
    pub setting: Setting,
    /// Where the window begins.
    pub from: u64,
    /// Where it ends.
    pub until: u64,
    /// When the simulation ended; nothing is known of what lies behind.
    pub end: u64,
    /// What happened.
    pub detail: Detail,
}

/// What happened, piece by piece or summed up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Piece by piece.
    Exact(Exact),
    /// In cells of time, where there were too many pieces.
    Coarse(Cells),
}

/// Everything that happened in a window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exact {
    /// What each CPU did, cut to the window.
    pub blocks: Vec<Block>,
    /// The jobs of which the window shows a release, a deadline, a completion, or that were open in it.
    pub jobs: Vec<JobMark>,
    /// The budgets, by reservation.
    pub curves: BTreeMap<usize, Curve>,
}

/// A time in which a CPU did one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The CPU, from 0.
    pub cpu: usize,
    /// Task and number of the job; none is the operating system.
    pub job: Option<(usize, u64)>,
    /// From when.
    pub from: u64,
    /// Until when.
    pub until: u64,
}

/// A job, as a picture marks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobMark {
    /// Its task.
    pub task: usize,
    /// The number that its source gave it.
    pub number: u64,
    /// When it was released.
    pub release: u64,
    /// By when it had to be done.
    pub due: Option<u64>,
    /// When it was done.
    pub completion: Option<u64>,
    /// Whether it was not done at its deadline.
    pub missed: bool,
}

/// The budget of a reservation in the course of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Curve {
    /// The curve, cut to the window; empty for a reservation without a budget.
    pub stretches: Vec<CurveSegment>,
    /// When work had to wait for budget.
    pub ran_out: Vec<u64>,
}

/// Why there is no window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WindowProblem {
    /// It ends before it begins.
    #[error(
        "a window from {from} ns until {until} ns shows nothing; it must end after its begin, and lie \
         within the simulation"
    )]
    Empty {
        /// Its begin, in nanoseconds.
        from: u64,
        /// Its end, in nanoseconds.
        until: u64,
    },
}

/// Collects what happens in a window of time.
///
/// Up to a number of blocks, jobs and stretches of curves (all together) they are kept singly; beyond
/// it, all is summed up in cells of time, so that memory is bounded by the window's picture and the
/// jobs under way.
#[derive(Clone, Debug)]
pub struct ScheduleWindow {
    setting: Setting,
    from: u64,
    until: u64,
    most: usize,
    /// When the simulation ended, once that is known.
    end: u64,
    jobs: OpenJobs,
    balances: Balances,
    /// What each CPU does, as far as it is known.
    held: BTreeMap<usize, Block>,
    /// How much is kept singly.
    kept: usize,
    detail: Detail,
}

impl ScheduleWindow {
    /// A window from one instant until another, in nanoseconds, of which at most `most` things are
    /// kept singly ([`BLOCKS`] suits a page).
    ///
    /// # Errors
    /// [`WindowProblem::Empty`] if it does not end after its begin.
    pub fn new(
        setting: Setting,
        from: u64,
        until: u64,
        most: usize,
    ) -> Result<Self, WindowProblem> {
        if from >= until {
            return Err(WindowProblem::Empty { from, until });
        }
        Ok(Self {
            balances: Balances::new(&setting),
            setting,
            from,
            until,
            most,
            end: u64::MAX,
            jobs: OpenJobs::default(),
            held: BTreeMap::new(),
            kept: 0,
            detail: Detail::Exact(Exact::default()),
        })
    }

    /// What happened in the window, when the simulation has ended, `end` in nanoseconds.
    pub fn finish(mut self, end: u64) -> ScheduleSlice {
        self.end = end;
        for (_, block) in std::mem::take(&mut self.held) {
            self.add_block(&block);
        }
        let jobs = std::mem::take(&mut self.jobs);
        for (task, open) in jobs.iter() {
            self.add_job(task, open, None, end);
        }
        for reservation in 1..=self.setting.reservations().len() {
            self.follow(reservation, |balances, tell| {
                balances.pass(reservation, end, tell);
            });
        }
        ScheduleSlice {
            setting: self.setting,
            from: self.from,
            until: self.until,
            end,
            detail: self.detail,
        }
    }

    /// Sums up what was kept singly, if it has become too much.
    fn keep(&mut self) {
        self.kept += 1;
        let Detail::Exact(exact) = &mut self.detail else {
            return;
        };
        if self.kept <= self.most {
            return;
        }
        let exact = std::mem::take(exact);
        let mut cells = Cells::new(&self.setting, self.from, self.until, self.most);
        for block in &exact.blocks {
            cells.add_block(block);
        }
        for job in &exact.jobs {
            cells.add_job(job, self.until, self.end);
        }
        for (reservation, curve) in &exact.curves {
            for stretch in &curve.stretches {
                cells.add_stretch(*reservation, stretch);
            }
            for at in &curve.ran_out {
                cells.add_shortage(*reservation, *at);
            }
        }
        self.detail = Detail::Coarse(cells);
    }

    /// The CPU does something else from now on, or goes on with what it does.
    fn hold(&mut self, next: Block) {
        let next = Block {
            from: next.from.max(self.from),
            until: next.until.min(self.until),
            ..next
        };
        if next.from >= next.until {
            return;
        }
        match self.held.get_mut(&next.cpu) {
            Some(held) if held.job == next.job && held.until == next.from => {
                held.until = next.until;
            }
            Some(held) => {
                let done = std::mem::replace(held, next);
                self.add_block(&done);
            }
            None => {
                self.held.insert(next.cpu, next);
            }
        }
    }

    fn add_block(&mut self, block: &Block) {
        match &mut self.detail {
            Detail::Exact(exact) => exact.blocks.push(*block),
            Detail::Coarse(cells) => cells.add_block(block),
        }
        self.keep();
    }

    fn add_job(&mut self, task: usize, open: &OpenJob, completion: Option<u64>, now: u64) {
        let deadline = self.setting.deadline_of(task, open.release);
        let job = JobMark {
            task,
            number: open.number,
            release: open.release,
            due: deadline,
            completion,
            missed: deadline.is_some_and(|deadline| match completion {
                Some(end) => end > deadline,
                None => now >= deadline,
            }),
        };
        let last = completion.unwrap_or(now).max(deadline.unwrap_or(0));
        if job.release >= self.until || last < self.from {
            return;
        }
        match &mut self.detail {
            Detail::Exact(exact) => exact.jobs.push(job),
            Detail::Coarse(cells) => cells.add_job(&job, self.until, now),
        }
        self.keep();
    }

    /// Lets the curve of a reservation go on, and keeps what of it lies in the window.
    fn follow(
        &mut self,
        reservation: usize,
        go_on: impl FnOnce(&mut Balances, &mut dyn FnMut(CurveSegment)),
    ) {
        let (from, until) = (self.from, self.until);
        let mut segments = Vec::new();
        go_on(&mut self.balances, &mut |stretch: CurveSegment| {
            segments.extend(stretch.cut(from, until));
        });
        for stretch in segments {
            match &mut self.detail {
                Detail::Exact(exact) => {
                    let curve = exact.curves.entry(reservation).or_default();
                    if curve.push(stretch) {
                        continue;
                    }
                }
                Detail::Coarse(cells) => cells.add_stretch(reservation, &stretch),
            }
            self.keep();
        }
    }
}

impl Curve {
    /// Adds a stretch; whether it only made the last one longer.
    fn push(&mut self, stretch: CurveSegment) -> bool {
        if let Some(last) = self.stretches.last_mut()
            && last.goes_on_in(&stretch)
        {
            last.until = stretch.until;
            last.last = stretch.last;
            return true;
        }
        self.stretches.push(stretch);
        false
    }
}

impl Sink for ScheduleWindow {
    fn completed(&mut self, completion: &Completion) {
        if let Some(open) = self.jobs.completed(completion) {
            self.add_job(completion.task, &open, Some(completion.end), completion.end);
        }
    }

    fn released(&mut self, job: &Job) {
        self.jobs.released(job);
    }

    fn ran(&mut self, piece: &Piece) {
        self.hold(Block {
            cpu: piece.cpu,
            job: Some((piece.task, piece.number)),
            from: piece.from,
            until: piece.until,
        });
        for place in 0..self.setting.used_by(piece).len() {
            let reservation = self.setting.used_by(piece)[place];
            self.follow(reservation, |balances, tell| {
                balances.ran(reservation, piece, tell);
            });
        }
    }

    fn overhead(&mut self, cpu: usize, from: u64, until: u64) {
        self.hold(Block {
            cpu,
            job: None,
            from,
            until,
        });
    }

    fn ran_out(&mut self, reservation: usize, at: u64) {
        if !(self.from..self.until).contains(&at) {
            return;
        }
        match &mut self.detail {
            Detail::Exact(exact) => {
                let curve = exact.curves.entry(reservation).or_default();
                curve.ran_out.push(at);
            }
            Detail::Coarse(cells) => cells.add_shortage(reservation, at),
        }
        self.keep();
    }

    fn replenished(&mut self, reservation: usize, at: u64) {
        self.follow(reservation, |balances, tell| {
            balances.replenished(reservation, at, tell);
        });
    }
}
