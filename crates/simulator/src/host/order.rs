//! Orders and rules of a description in the words of a plan.

use tailbound_model::{Scheduling, Task};
use tailbound_time::Duration;

use crate::hierarchy::Rank;

/// The place of a task under an order of service; the lower one first.
pub(crate) fn rank(scheduling: Scheduling, task: &Task) -> Rank {
    let deadline = task.relative_deadline().unwrap_or(Duration::MAX);
    match scheduling {
        Scheduling::Fifo | Scheduling::RoundRobin => Rank::Fixed(0),
        Scheduling::RateMonotonic => Rank::Fixed(task.arrivals.rate_monotonic_gap().as_nanos()),
        Scheduling::DeadlineMonotonic => Rank::Fixed(deadline.as_nanos()),
        Scheduling::EarliestDeadlineFirst => Rank::Deadline(deadline),
        Scheduling::FixedPriority => by_priority(task.priority.map_or(0, |priority| priority.0)),
    }
}

/// The place of a fixed priority: the higher number first.
pub(super) fn by_priority(priority: u8) -> Rank {
    Rank::Fixed(u64::from(u8::MAX) - u64::from(priority))
}
