//! One interval after another: a step by the reports, and budgets.

use tailbound_balance::{
    BalancePlan, CapacityRule, HoldReason, LevelReport, MatchingValue, RuleError,
};
use tailbound_time::Duration;

use crate::budget_set::BudgetSet;
use crate::exchange;
use crate::host_budgets::HostBudgets;

/// `CapacityManager` divides, and puts into force what it has divided.
pub struct CapacityManager {
    plan: BalancePlan,
    rule: CapacityRule,
    budgets: BudgetSet,
    host: HostBudgets,
}

/// The outcome of an interval.
#[derive(Debug)]
pub struct IntervalOutcome {
    /// The capacities that the rule has given the applications from now on.
    pub capacities: Vec<Duration>,
    /// The domains whose reservations have ended since the last interval.
    pub ended: Vec<String>,
    /// The domains whose budgets could not be changed, each with the reason; a later interval tries again.
    pub refused: Vec<(String, String)>,
}

/// `DivisionEnd` says that nothing is left to divide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the reservations of all balanced domains have ended")]
pub struct DivisionEnd;

impl CapacityManager {
    /// A manager at its start, over reservations that have the budgets of the first division.
    ///
    /// # Errors
    /// If the table makes no rule.
    pub fn begin(plan: BalancePlan, host: HostBudgets) -> Result<Self, RuleError> {
        let rule = plan.rule()?;
        let first = plan.budgets(rule.capacities()).into_iter();
        let in_force = first.map(|(domain, budget)| {
            let budget = host.budget(&domain).unwrap_or(budget);
            (domain, budget)
        });
        Ok(Self {
            budgets: BudgetSet::new(rule.whole(), in_force.collect()),
            plan,
            rule,
            host,
        })
    }

    /// The names of the applications, in the order of all outcomes.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.plan.applications.iter().map(|one| one.name.as_str())
    }

    /// The time from one interval to the next.
    pub fn interval(&self) -> Duration {
        self.plan.balance.interval
    }

    /// The capacity that is divided, per period.
    pub fn whole(&self) -> Duration {
        self.rule.whole()
    }

    /// The capacities that the rule gives now.
    pub fn capacities(&self) -> &[Duration] {
        self.rule.capacities()
    }

    /// Takes a step by the reports, and changes budgets.
    ///
    /// # Errors
    /// No reservation of the applications is left.
    pub fn pass_interval(
        &mut self,
        reports: &[Result<LevelReport, HoldReason>],
    ) -> Result<IntervalOutcome, DivisionEnd> {
        let measured = self.values(reports);
        self.rule.step(&measured);
        let ended = self.look_for_ended()?;
        let wanted = self.plan.budgets(self.rule.capacities()).into_iter();
        let wanted: Vec<Duration> = wanted.map(|(_, budget)| budget).collect();
        let budgets = &mut self.budgets;
        let failures = match budgets.are_in_force(&wanted) {
            true => Vec::new(),
            false => self.host.in_one_turn(|host| budgets.put(&wanted, host)),
        };
        let refused = failures.into_iter();
        let refused = refused.map(|(domain, refusal)| (domain, refusal.to_string()));
        Ok(IntervalOutcome {
            capacities: self.rule.capacities().to_vec(),
            ended,
            refused: refused.collect(),
        })
    }

    /// The values by which applications take part. One that does not answer in time may be overloaded, and cannot ask for what it
    /// has lent: it gets that back, and no more.
    fn values(&self, reports: &[Result<LevelReport, HoldReason>]) -> Vec<Option<MatchingValue>> {
        let capacities = self.rule.capacities().iter();
        let each = reports.iter().zip(capacities.zip(self.rule.guarantees()));
        let values = each.map(|(report, (capacity, guarantee))| match report {
            Ok(report) => Some(report.effective()),
            Err(reason) if exchange::is_late(reason) && *capacity < guarantee => {
                Some(MatchingValue::LEAST)
            }
            Err(_) => None,
        });
        values.collect()
    }

    /// The domains whose reservations have ended since the last look.
    ///
    /// # Errors
    /// All have.
    pub fn look_for_ended(&mut self) -> Result<Vec<String>, DivisionEnd> {
        let active = self.host.active();
        let domains: Vec<String> = self
            .budgets
            .in_force()
            .iter()
            .map(|one| one.0.clone())
            .collect();
        let gone = domains
            .into_iter()
            .filter(|domain| !active.contains(domain));
        let ended: Vec<String> = gone.filter(|domain| self.budgets.end(domain)).collect();
        match self.budgets.is_over() {
            true => Err(DivisionEnd),
            false => Ok(ended),
        }
    }

    /// The domains whose reservations the manager still changes.
    pub fn domains(&self) -> impl Iterator<Item = &str> {
        self.budgets.active()
    }
}
