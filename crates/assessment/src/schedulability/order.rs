//! Whose jobs go first within a service.

use tailbound_analysis::schedulability::priority_assignment::described_rank;
use tailbound_model::{Scheduling, Service, Task};

/// The order in which a service serves its tasks' jobs, as an analysis takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServiceOrder {
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
pub(super) fn order_of(service: &Service) -> ServiceOrder {
    match (service.scheduling, service.max_in_flight) {
        (Scheduling::Fifo, _) | (_, Some(1)) => ServiceOrder::Arrival,
        (Scheduling::EarliestDeadlineFirst, None) => ServiceOrder::Deadline,
        (by_priority, None) => ServiceOrder::Priority(by_priority),
        (_, Some(_)) => ServiceOrder::Unknown(
            "with `max_in_flight` jobs wait at the client, out of the sight of priorities; leave it \
             out, or set it to 1",
        ),
    }
}

impl ServiceOrder {
    /// Whether jobs of `other` may go before those of `task`.
    pub(super) fn may_delay(self, other: &Task, task: &Task) -> bool {
        let Self::Priority(scheduling) = self else {
            return true;
        };
        match (
            described_rank(scheduling, other),
            described_rank(scheduling, task),
        ) {
            (Some(other), Some(own)) => other <= own,
            _ => true,
        }
    }
}
