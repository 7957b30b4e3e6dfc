//! What the operating system itself takes of a CPU.

use tailbound_time::Duration;

/// The costs of scheduling that every policy has. All are zero by default.
///
/// An overhead takes the CPU at the instant at which it arises, before any job goes on; what arises
/// meanwhile waits its turn behind it. It is charged to no job's execution and to no budget, and is
/// counted as overhead, so that what ran, what overheads took and what was idle add up to what
/// passed.
///
/// ```
/// use tailbound_simulator::Overheads;
/// use tailbound_time::Duration;
///
/// let overheads = Overheads {
///     context_switch: Duration::from_micros(2),
///     ..Overheads::default()
/// };
/// assert!(!overheads.is_free());
/// assert!(Overheads::default().is_free());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Overheads {
    /// To put another task on the CPU than the one that was there last. An idle CPU keeps the last
    /// one, so that this task costs nothing when it goes on, be it with its next job.
    pub context_switch: Duration,
    /// Each time that the scheduler looks what to run. What happens at one instant is one look.
    pub scheduler_invocation: Duration,
    /// In addition to the switch, where a job goes on on another CPU than the one that it ran on last.
    pub migration: Duration,
    /// The periodic tick; none by default.
    pub tick: Option<Tick>,
    /// Each release: the interrupt by which a job comes.
    pub interrupt: Duration,
}

/// A periodic interrupt that takes CPU time whatever runs, also while the CPU is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tick {
    /// From one tick to the next; the first is one period after the start. A period of zero is no
    /// tick.
    pub period: Duration,
    /// What one takes. A cost of at least the period leaves no time for anything else.
    pub cost: Duration,
}

impl Overheads {
    /// Whether nothing costs anything.
    pub fn is_free(&self) -> bool {
        let costs = [
            self.context_switch,
            self.scheduler_invocation,
            self.migration,
            self.interrupt,
            self.tick.map_or(Duration::ZERO, |tick| tick.cost),
        ];
        costs.iter().all(|cost| cost.is_zero())
    }
}
