//! The manager of capacities: in every interval it asks each application for its report, takes a step of the rule, and changes
//! the budgets of the applications' reservations.
//!
//! - [`exchange`] asks for a report over HTTP, within a limit of time and size;
//! - [`BudgetSet`] orders changes so that the budgets in force are never more than the whole;
//! - [`CapacityManager`] is the loop's body; its caller has the clock.

mod budget_set;
pub mod exchange;
mod manager;

pub use budget_set::{BudgetControl, BudgetSet};
pub use manager::{CapacityManager, DivisionError, IntervalOutcome, prefer_this_thread};
