//! What is wrong with a plan.

use tailbound_reservation::ReservationError;
use tailbound_time::Duration;

/// Why a plan cannot be simulated.
///
/// Reservations count in the order of the tree, from 1 (the host is 0), tasks from 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HierarchyError {
    /// A host without CPUs.
    #[error("the plan has no CPU; give it at least one")]
    NoCpu,
    /// A reservation that makes no sense.
    #[error("reservation {reservation}: {error}")]
    Reservation {
        /// Which.
        reservation: usize,
        /// Why.
        error: ReservationError,
    },
    /// Sections that cross.
    #[error(
        "section {section} of task {task} overlaps another one without lying within it, or asks for a \
         lock that the task already holds; nest sections, each with a lock of its own"
    )]
    Sections {
        /// Which task.
        task: usize,
        /// Which of its sections, from 0.
        section: usize,
    },
    /// A lock that the plan does not have.
    #[error("task {task} uses lock {lock}, but the plan has {locks} locks, which count from 0")]
    UnknownLock {
        /// Which task.
        task: usize,
        /// Which lock.
        lock: usize,
        /// How many there are.
        locks: usize,
    },
    /// A lock that is used in two levels.
    #[error(
        "lock {lock} is used by task {task} and by a task of another level; what a lock protects \
         belongs to one level, since a holder whose budget is used up would stop the others for \
         as long as it waits"
    )]
    LockAcrossLevels {
        /// Which lock.
        lock: usize,
        /// The later of the two tasks.
        task: usize,
    },
    /// A protocol for one CPU on several.
    #[error(
        "the priority ceiling protocol is defined for one CPU, the plan has {cpus}; use inheritance or \
         the immediate ceiling, or a plan for each CPU"
    )]
    CeilingOnSeveralCpus {
        /// How many.
        cpus: usize,
    },
    /// Members that are pinned to nothing, or CPUs for no member.
    #[error(
        "{pinned} members of the host are pinned, but it has {members}; pin each (virtual CPUs of guests \
         one by one), or none"
    )]
    PinnedCount {
        /// How many are pinned.
        pinned: usize,
        /// How many there are.
        members: usize,
    },
    /// A member that is pinned to a CPU that there is not.
    #[error(
        "member {member} of the host is pinned to CPU {cpu}, but the plan has {cpus}, which count from 0"
    )]
    PinnedCpu {
        /// Which member, from 0.
        member: usize,
        /// The CPU.
        cpu: usize,
        /// How many there are.
        cpus: usize,
    },
    /// A guest that nothing runs.
    #[error("a guest has no virtual CPU; give it at least one")]
    NoVirtualCpu,
    /// A budget that virtual CPUs share which are not alike.
    #[error(
        "reservation {reservation} is a virtual CPU of a guest with one budget, but not a deferrable server like the \
         first of them"
    )]
    SharedByUnlike {
        /// Which reservation.
        reservation: usize,
    },
    /// A shared budget inside of a reservation.
    #[error(
        "the virtual CPUs of a guest inside of a reservation run on one CPU at a time, and share no budget; give each its \
         own, or make the guest a member of the host"
    )]
    SharedInside,
    /// A boost of nothing in particular.
    #[error(
        "task {task} boosts its reservation, but its guest has several virtual CPUs for all tasks; give it \
         a virtual CPU of its own"
    )]
    BoostInGuest {
        /// Which task.
        task: usize,
    },
    /// Ceilings of what has no fixed rank.
    #[error(
        "task {task} uses a lock with a ceiling, but is ordered by deadlines, which have none; use \
         inheritance, or fixed ranks"
    )]
    CeilingOfDeadlines {
        /// Which task.
        task: usize,
    },
    /// A tick that takes all.
    #[error("a tick of {cost} every {period} leaves no time for anything else; it must cost less")]
    Tick {
        /// What it takes.
        cost: Duration,
        /// How often.
        period: Duration,
    },
    /// A simulation that might not end.
    #[error(
        "with overheads the jobs may never be done; give the simulation a horizon at which it ends"
    )]
    HorizonMissing,
    /// A job of a task that the plan does not have.
    #[error("job {number} is of task {task}, but the plan has {tasks} tasks, which count from 0")]
    UnknownTask {
        /// Its number.
        number: u64,
        /// Its task.
        task: usize,
        /// How many tasks there are.
        tasks: usize,
    },
    /// A release in the past.
    #[error(
        "job {number} of task {task} is released at {release}, before the job in front of it; a source \
         yields jobs in the order of their releases"
    )]
    OutOfOrder {
        /// Its number.
        number: u64,
        /// Its task.
        task: usize,
        /// Its release.
        release: Duration,
    },
    /// Tasks that wait for each other.
    #[error(
        "task {task} waits for lock {lock}, whose holder waits for it: a deadlock at {at}; ask for locks \
         in one order everywhere, or use a ceiling protocol"
    )]
    Deadlock {
        /// The task that closed the circle.
        task: usize,
        /// What it waits for.
        lock: usize,
        /// When.
        at: Duration,
    },
    /// Time that does not fit.
    #[error(
        "the simulation came to 2^63 ns, some 292 years, with work left to do; shorten the execution \
         times or the horizon"
    )]
    Overflow,
}
