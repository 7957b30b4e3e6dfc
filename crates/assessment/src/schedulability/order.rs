//! Whose jobs go first within a service.

use tailbound_model::{Scheduling, Service, Task};
use tailbound_time::Duration;

/// The order in which a service serves its tasks' jobs, as an analysis takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// First come, first served.
    Arrival,
    /// Preemptive fixed priorities; equals count as higher.
    Priority(Scheduling),
    /// Preemptive, the earliest absolute deadline first.
    Deadline,
    /// No analysis of ours knows it.
    Unknown(&'static str),
}

/// The order of `service`. One request at a time leaves the waiting to the client, which sends in
/// the order of arrival.
pub(super) fn order_of(service: &Service) -> Order {
    match (service.scheduling, service.max_in_flight) {
        (Scheduling::Fifo, _) | (_, Some(1)) => Order::Arrival,
        (Scheduling::EarliestDeadlineFirst, None) => Order::Deadline,
        (by_priority, None) => Order::Priority(by_priority),
        (_, Some(_)) => Order::Unknown(
            "with `max_in_flight` jobs wait at the client, out of the sight of priorities; leave it \
             out, or set it to 1",
        ),
    }
}

impl Order {
    /// Whether jobs of `other` may go before those of `task`.
    pub(super) fn may_delay(self, other: &Task, task: &Task) -> bool {
        let Self::Priority(scheduling) = self else {
            return true;
        };
        match (rank(scheduling, other), rank(scheduling, task)) {
            (Some(other), Some(own)) => other <= own,
            _ => true,
        }
    }
}

/// Where a task stands: the lower number first; `None` where that is not known.
fn rank(scheduling: Scheduling, task: &Task) -> Option<u64> {
    match scheduling {
        Scheduling::Fifo | Scheduling::EarliestDeadlineFirst | Scheduling::RoundRobin => None,
        Scheduling::RateMonotonic => task.least_gap().map(Duration::as_nanos),
        Scheduling::DeadlineMonotonic => task.relative_deadline().map(Duration::as_nanos),
        Scheduling::FixedPriority => task
            .priority
            .map(|priority| u64::from(u8::MAX) - u64::from(priority.0)),
    }
}
