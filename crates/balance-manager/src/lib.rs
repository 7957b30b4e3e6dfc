//! The manager of capacities, as a subsystem of the daemon: in every interval it asks each application for its report, takes a
//! step of the rule, and changes the budgets of the applications' reservations.
//!
//! - [`exchange`] asks for a report over HTTP, within a limit of time and size, and [`ReportRound`] all applications at once;
//! - [`BudgetSet`] orders changes so that the budgets in force are never more than the whole;
//! - [`CapacityManager`] is the body of the loop, and [`Division`] the thread that it runs in;
//! - [`BalanceService`] answers requests ([`control`]) and has all divisions;
//! - [`DivisionState`] is what became of the applications, for `status`, metrics and the command.

mod budget_set;
pub mod control;
mod division;
mod division_state;
pub mod exchange;
#[cfg(test)]
mod fake_host;
mod host_budgets;
mod manager;
mod metrics;
mod report_round;
mod service;

pub use budget_set::{BudgetControl, BudgetSet};
pub use division::Division;
pub use division_state::{ApplicationState, DivisionState, IntervalEntry, PassedInterval};
pub use host_budgets::HostBudgets;
pub use manager::{CapacityManager, DivisionEnd, IntervalOutcome};
pub use report_round::ReportRound;
pub use service::{BalanceService, REGISTRATION};
