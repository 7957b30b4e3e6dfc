//! What is simulated: a tree of tasks and reservations on one or several CPUs.

use tailbound_model::{HostOverheads, LockProtocol, ServerKind};
use tailbound_reservation::{Account, Rule};
use tailbound_time::Duration;

use super::problem::HierarchyError;

/// The CPUs of a host and what runs on them.
///
/// The outermost level schedules its members over all CPUs of the plan: global scheduling, where there
/// are several; or each on the CPU that it is pinned to: partitioned scheduling. Where no guest has
/// virtual CPUs on several CPUs, a plan for each CPU does the same. The levels inside of reservations
/// are for one CPU: a reservation runs on one CPU at a time, and may go on on another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HierarchyPlan {
    /// How fast each CPU is.
    pub cpus: Vec<Speed>,
    /// What the operating system takes for itself.
    ///
    /// An overhead takes the CPU at the instant at which it arises, before any job goes on; overheads that
    /// arise meanwhile wait their turn behind it. It is charged to no job's execution and to no budget, so
    /// that what ran, what overheads took and what was idle add up to what passed.
    pub overheads: HostOverheads,
    /// The locks: what holding each means for the order. A task asks for a lock when it has worked as long
    /// as its [`LockSection`] says, and gives it back when the section, or the job, ends.
    pub locks: Vec<LockProtocol>,
    /// The CPU of each member of the outermost level, of a guest that of each of its virtual CPUs in
    /// turn; empty, if all may run on all CPUs.
    pub pinned: Vec<usize>,
    /// The host's scheduler.
    pub root: Level,
}

impl HierarchyPlan {
    /// One CPU at full speed, without overheads and locks.
    pub fn on_one_cpu(root: Level) -> Self {
        Self::global(1, root)
    }

    /// So many CPUs at full speed under one scheduler, without overheads and locks.
    pub fn global(cpus: usize, root: Level) -> Self {
        Self {
            cpus: vec![Speed::FULL; cpus],
            overheads: HostOverheads::default(),
            locks: Vec::new(),
            pinned: Vec::new(),
            root,
        }
    }
}

impl Level {
    /// A preemptive level where members of equal rank run to the end.
    pub fn of(members: Vec<LevelMember>) -> Self {
        Self {
            preemptive: true,
            quantum: None,
            members,
        }
    }

    /// How many members it has, virtual CPUs of guests counted one by one.
    pub(crate) fn positions(&self) -> usize {
        let members = self.members.iter();
        members
            .map(|member| match member {
                LevelMember::Task(_) | LevelMember::Reservation(_) => 1,
                LevelMember::Guest(guest) => guest.vcpus.len(),
            })
            .sum()
    }
}

/// The speed of a CPU in thousandths of that for which execution times hold: work of 6 ms takes 12 ms
/// on a CPU at 500.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Speed(u32);

impl Speed {
    /// The speed for which execution times hold.
    pub const FULL: Self = Self(1_000);

    /// So many thousandths; `None` if there are none, or more than a million.
    pub fn from_permille(thousandths: u32) -> Option<Self> {
        (1..=1_000_000)
            .contains(&thousandths)
            .then_some(Self(thousandths))
    }

    /// In thousandths of full speed.
    pub fn as_permille(self) -> u32 {
        self.0
    }
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
    pub members: Vec<LevelMember>,
}

/// What a level schedules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LevelMember {
    /// A task.
    Task(PlannedTask),
    /// A reservation, with a level of its own inside.
    Reservation(PlannedReservation),
    /// Several reservations, with one queue inside.
    Guest(Guest),
}

/// A task: its jobs come from a [`JobSource`](super::JobSource), and run in the order of their release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedTask {
    /// Its place in the order.
    pub rank: Rank,
    /// Its critical sections, which may lie within each other, but not overlap otherwise.
    pub sections: Vec<LockSection>,
    /// Its jobs boost the reservations that it is inside of: as long as one is not done, and at most this
    /// long from its release on, these come before all members of their levels, the one that was boosted
    /// first before the others, and neither wait for budget nor spend any (thesis, section 2.4.2: VCPU
    /// boost; what it takes is the budget of the hypothetical VCPU there).
    pub boost: Option<Duration>,
}

impl PlannedTask {
    /// A task without critical sections, which boosts nothing.
    pub fn of_rank(rank: Rank) -> Self {
        Self {
            rank,
            sections: Vec::new(),
            boost: None,
        }
    }
}

/// A guest with one queue for several virtual CPUs: its first tasks have a virtual CPU each, whether or
/// not that one runs, since the guest does not know. A task stays on its virtual CPU as long as it is
/// among the first; of free ones the one that stands first is taken.
///
/// Each virtual CPU is a reservation, and a member of the level that the guest stands in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guest {
    /// Its virtual CPUs.
    pub vcpus: Vec<VirtualCpu>,
    /// Whether its virtual CPUs, which are alike and members of the host, share one budget, as a deferrable server: any
    /// number of them may spend it at the same time. What is left of less than a nanosecond a virtual CPU is lost.
    pub shares_budget: bool,
    /// Its tasks, which interrupt each other.
    pub tasks: Vec<PlannedTask>,
}

/// A virtual CPU: a reservation whose work comes from its guest's queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualCpu {
    /// Its place in the order.
    pub rank: Rank,
    /// How its budget is spent and comes back.
    pub rule: Rule,
    /// CPU time per period; without a meaning for windows and unlimited use.
    pub budget: Duration,
    /// The distance between replenishments; of windows the major frame.
    pub period: Duration,
    /// Replenishments lie at this time and whole periods from it, where the rule has a grid.
    pub phase: Duration,
}

impl Guest {
    /// The account of one of its virtual CPUs, which has this number among all reservations.
    pub(super) fn account(
        &self,
        vcpu: &VirtualCpu,
        number: usize,
    ) -> Result<Account, HierarchyError> {
        if !self.shares_budget {
            return vcpu.account(number);
        }
        let like_first = self.vcpus.first() == Some(vcpu);
        if !like_first || vcpu.rule != Rule::Server(ServerKind::Deferrable) {
            return Err(HierarchyError::SharedByUnlike {
                reservation: number,
            });
        }
        let count = self.vcpus.len();
        let account = Account::of_one_of(count, vcpu.budget, vcpu.period, vcpu.phase);
        account.map_err(|error| HierarchyError::Reservation {
            reservation: number,
            error,
        })
    }
}

impl VirtualCpu {
    /// The account of the reservation, which has this number among all.
    pub(super) fn account(&self, number: usize) -> Result<Account, HierarchyError> {
        let account = Account::new(&self.rule, self.budget, self.period, self.phase);
        account.map_err(|error| HierarchyError::Reservation {
            reservation: number,
            error,
        })
    }
}

/// A part of each job of a task during which it holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockSection {
    /// Which lock of the plan; the tasks that use it are members of one level.
    pub lock: usize,
    /// It begins when the job has done this much work. A job with less work does not come to it.
    pub after: Duration,
    /// It ends after this much more work, or with the job.
    pub length: Duration,
}

/// A reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedReservation {
    /// Its place in the order.
    pub rank: Rank,
    /// How its budget is spent and comes back.
    pub rule: Rule,
    /// CPU time per period; without a meaning for windows and unlimited use.
    pub budget: Duration,
    /// The distance between replenishments; of windows the major frame.
    pub period: Duration,
    /// Replenishments lie at this time and whole periods from it, where the rule has a grid.
    pub phase: Duration,
    /// Who runs inside of it.
    pub inside: Level,
}

impl PlannedReservation {
    /// What it is but for what is inside.
    pub(crate) fn supply(&self) -> VirtualCpu {
        VirtualCpu {
            rank: self.rank,
            rule: self.rule.clone(),
            budget: self.budget,
            period: self.period,
            phase: self.phase,
        }
    }
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
