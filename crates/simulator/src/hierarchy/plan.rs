//! What is simulated: a tree of tasks and reservations on one CPU.

use tailbound_time::Duration;

/// What runs on one CPU: the members of the outermost level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The host's scheduler.
    pub root: Level,
}

/// A scheduler: which of its members runs.
///
/// The member with the lowest rank runs; of those with equal rank the one whose job was released
/// first (of a reservation: the one that got ready first), and of these the one that stands first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// Whether a job may be interrupted by another member of this level once it has begun. It may
    /// be interrupted from outside of the level all the same.
    pub preemptive: bool,
    /// Members of equal rank take turns of this length (round robin) instead of running to the end.
    pub quantum: Option<Duration>,
    /// What it schedules.
    pub members: Vec<Member>,
}

/// What a level schedules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Member {
    /// A task.
    Task(Task),
    /// A reservation, with a level of its own inside.
    Reservation(Reservation),
}

/// A task: its jobs come from a [`Source`](super::Source), and run in the order of their release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its place in the order.
    pub rank: Rank,
}

/// A reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Its place in the order.
    pub rank: Rank,
    /// How its budget is spent and comes back.
    pub rule: Rule,
    /// CPU time per period.
    pub budget: Duration,
    /// The distance between replenishments.
    pub period: Duration,
    /// Replenishments lie at this time and whole periods from it, where the rule has a grid.
    pub phase: Duration,
    /// Who runs inside of it.
    pub inside: Level,
}

/// A place in the order of a level: the lower one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// Always the same.
    Fixed(u64),
    /// The absolute deadline: of a job this long after its release, of a reservation the one that
    /// its rule defines (the end of its period).
    Deadline(Duration),
}

/// How a budget is spent and comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// No limit: background, or a CPU of its own.
    Unlimited,
    /// Keeps its budget while idle; full again at every grid point (Strosnider, Lehoczky and Sha
    /// 1995).
    Deferrable,
    /// Its budget passes when its turn comes, whether used or not; full again at every grid point.
    Periodic,
    /// Gets its budget at a grid point if there is work, and loses it as soon as there is none.
    Polling,
    /// What was used from an activation on comes back one period after the activation, also when
    /// less than all was used (Sprunt, Sha and Lehoczky 1989, with activations told apart as
    /// Stanovich et al. 2010 correct POSIX).
    Sporadic,
    /// The sporadic server to the letter of POSIX: what comes back in the middle of an activation
    /// is used as if it had been there from the start.
    PosixSporadic,
    /// SCHED_DEADLINE: at the end of its budget it waits for its deadline.
    HardConstantBandwidth,
    /// At the end of its budget it gets a new one at once, and a deadline one period later (Abeni and
    /// Buttazzo 1998).
    SoftConstantBandwidth,
}

/// A budget that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AccountProblem {
    pub(crate) budget_ns: u64,
    pub(crate) period_ns: u64,
}
