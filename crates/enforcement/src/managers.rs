//! The threads of ours that enforce budgets, as the enforcer uses them.

use serde::{Deserialize, Serialize};
use tailbound_time::Duration;

use crate::Plan;

/// What a manager has seen of one domain since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerSummary {
    /// Periods that have ended.
    pub periods: u64,
    /// CPU time used.
    pub consumed: Duration,
    /// Periods in which the budget ran out and the domain was stopped.
    pub depletions: u64,
    /// The most by which a budget was overrun.
    pub largest_overrun: Duration,
}

/// Starts and stops the managers that plans call for.
pub trait Managers: Send {
    /// Starts what `plan.managers` lists; nothing if there is none.
    ///
    /// # Errors
    /// Why a manager did not start; then none of the plan's runs.
    fn start(&mut self, plan: &Plan) -> Result<(), String>;

    /// Stops the managers of a domain and leaves it thawed; nothing if there are none.
    ///
    /// # Errors
    /// Why a manager did not stop.
    fn stop(&mut self, domain: &str) -> Result<(), String>;

    /// What the managers of a domain have seen, summed over its CPUs.
    fn ledger(&self, domain: &str) -> Option<LedgerSummary>;
}
