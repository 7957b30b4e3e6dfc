//! Whether every job of a set of sporadic tasks meets its deadline: one file per published test.
//!
//! Each analysis takes tasks that it never changes and returns a result that names its method and
//! what it takes for granted. Verdicts are exact arithmetic on integer nanoseconds. A test that is
//! only *sufficient* says so: what it does not accept may still be schedulable.
//! docs/concepts/schedulability.md compares the tests.

pub mod earliest_deadline_response_time;
pub mod global_edf;
pub mod global_fixed_priority;
mod global_workload;
mod level_load;
pub mod mode_change;
pub mod non_preemptive_response_time;
pub mod priority_assignment;
pub mod processor_demand;
pub mod response_time;
pub mod server_interference;
pub mod unexhausted_server;
mod utilisation;
pub mod utilisation_bound;
mod window_demand;

pub use priority_assignment::PriorityOrder;
pub use response_time::{NoResponseTime, TaskResponse, WorstCaseResponses};
pub use utilisation::compare_utilisation;

#[cfg(test)]
mod nanosecond_task {
    #![allow(clippy::unwrap_used)]

    use tailbound_time::Duration;

    use crate::SporadicTask;

    /// A task of the unit tests, its lengths in nanoseconds.
    pub(super) fn task(execution_ns: u64, period_ns: u64, deadline_ns: u64) -> SporadicTask {
        let ns = Duration::from_nanos;
        SporadicTask::new(ns(execution_ns), ns(period_ns), ns(deadline_ns)).unwrap()
    }
}
