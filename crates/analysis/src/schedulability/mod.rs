//! Whether every job of a set of sporadic tasks meets its deadline: one file per published test.
//!
//! Each analysis takes tasks that it never changes and returns a result that names its method and
//! what it takes for granted. Verdicts are exact arithmetic on integer nanoseconds. A test that is
//! only *sufficient* says so: what it does not accept may still be schedulable.
//! docs/concepts/schedulability.md compares the tests.

mod natural;
pub mod priority_assignment;
pub mod response_time;
mod task;
mod utilisation;

pub use priority_assignment::PriorityOrder;
pub use response_time::{NoResponseTime, ResponseTimes, TaskResponse};
pub use task::{LONGEST_PARAMETER, SporadicTask};
pub use utilisation::compare_utilisation;
