//! What a simulation leaves behind, where somebody asks for it: a table of its jobs, a trace for
//! Perfetto, and a window of its schedule to draw.
//!
//! Each is a [`Sink`]. They see the calls in order of time, keep only what is under way, and write to
//! whatever they are given; a simulation without them pays nothing. [`Tee`] joins two. Since a sink
//! cannot stop a simulation, one that writes keeps its first error, writes no more, and tells it at
//! the end.
//!
//! What the calls do not say, such as names, deadlines and budgets, comes from a [`Setting`].
//!
//! ```
//! use tailbound_simulator::hierarchy::{
//!     HierarchyPlan, Level, LevelMember, PeriodicJobs, PeriodicSource, PlannedTask, Rank, simulate_plan,
//! };
//! use tailbound_simulator::traces::{JobTable, Setting};
//! use tailbound_time::Duration;
//!
//! let task = LevelMember::Task(PlannedTask::of_rank(Rank::Deadline(Duration::from_millis(10))));
//! let plan = HierarchyPlan::on_one_cpu(Level {
//!     preemptive: true,
//!     quantum: None,
//!     members: vec![task],
//! });
//! let releases = PeriodicSource {
//!     offset: 0,
//!     period_ns: 10_000_000,
//!     work: 2_000_000,
//! };
//! let mut table = JobTable::new(Setting::of(&plan).name_tasks(["control"]), Vec::new());
//! let mut source = PeriodicJobs::new(vec![releases], 3);
//! let outcome = simulate_plan(&plan, &mut source, &mut table, None)?;
//! let text = String::from_utf8(table.finish(outcome.end.as_nanos())?)?;
//! assert!(text.ends_with("control,2,20000000,20000000,22000000,2000000,30000000,false,0,0\n"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod balance;
mod coarse;
mod job_table;
mod open_jobs;
mod perfetto;
mod service_causes;
mod setting;
mod window;

pub use balance::{BalanceKind, Balances, CurveSegment};
pub use coarse::{Cells, Marks};
pub use job_table::{COLUMNS, JobTable};
pub use perfetto::timeline::{TimelineMark, TimelineSlice, TimelineTrack, write_timeline};
pub use perfetto::{LANES, ScheduleTrace};
pub use service_causes::ServiceCauses;
pub use setting::{Row, Setting, SettingOfReservation, SettingOfTask};
pub use window::{
    BLOCKS, Block, Curve, Detail, Exact, JobMark, ScheduleSlice, ScheduleWindow, WindowProblem,
};

use crate::hierarchy::{Completion, Job, Piece, Sink};

/// Two sinks that hear the same, the first one first. More are nested: `Tee(a, Tee(b, c))`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tee<A, B>(
    /// The one that hears first.
    pub A,
    /// The other one.
    pub B,
);

impl<A: Sink, B: Sink> Sink for Tee<A, B> {
    const WHOLE_PIECES: bool = A::WHOLE_PIECES && B::WHOLE_PIECES;

    #[inline]
    fn completed(&mut self, completion: &Completion) {
        self.0.completed(completion);
        self.1.completed(completion);
    }

    #[inline]
    fn released(&mut self, job: &Job) {
        self.0.released(job);
        self.1.released(job);
    }

    #[inline]
    fn ran(&mut self, piece: &Piece) {
        self.0.ran(piece);
        self.1.ran(piece);
    }

    #[inline]
    fn overhead(&mut self, cpu: usize, from: u64, until: u64) {
        self.0.overhead(cpu, from, until);
        self.1.overhead(cpu, from, until);
    }

    #[inline]
    fn ran_out(&mut self, reservation: usize, at: u64) {
        self.0.ran_out(reservation, at);
        self.1.ran_out(reservation, at);
    }

    #[inline]
    fn replenished(&mut self, reservation: usize, at: u64) {
        self.0.replenished(reservation, at);
        self.1.replenished(reservation, at);
    }
}

/// A sink that may be left out.
impl<S: Sink> Sink for Option<S> {
    const WHOLE_PIECES: bool = S::WHOLE_PIECES;

    #[inline]
    fn completed(&mut self, completion: &Completion) {
        if let Some(sink) = self {
            sink.completed(completion);
        }
    }

    #[inline]
    fn released(&mut self, job: &Job) {
        if let Some(sink) = self {
            sink.released(job);
        }
    }

    #[inline]
    fn ran(&mut self, piece: &Piece) {
        if let Some(sink) = self {
            sink.ran(piece);
        }
    }

    #[inline]
    fn overhead(&mut self, cpu: usize, from: u64, until: u64) {
        if let Some(sink) = self {
            sink.overhead(cpu, from, until);
        }
    }

    #[inline]
    fn ran_out(&mut self, reservation: usize, at: u64) {
        if let Some(sink) = self {
            sink.ran_out(reservation, at);
        }
    }

    #[inline]
    fn replenished(&mut self, reservation: usize, at: u64) {
        if let Some(sink) = self {
            sink.replenished(reservation, at);
        }
    }
}

/// A sink that somebody else keeps.
impl<S: Sink> Sink for &mut S {
    const WHOLE_PIECES: bool = S::WHOLE_PIECES;

    #[inline]
    fn completed(&mut self, completion: &Completion) {
        S::completed(self, completion);
    }

    #[inline]
    fn released(&mut self, job: &Job) {
        S::released(self, job);
    }

    #[inline]
    fn ran(&mut self, piece: &Piece) {
        S::ran(self, piece);
    }

    #[inline]
    fn overhead(&mut self, cpu: usize, from: u64, until: u64) {
        S::overhead(self, cpu, from, until);
    }

    #[inline]
    fn ran_out(&mut self, reservation: usize, at: u64) {
        S::ran_out(self, reservation, at);
    }

    #[inline]
    fn replenished(&mut self, reservation: usize, at: u64) {
        S::replenished(self, reservation, at);
    }
}
