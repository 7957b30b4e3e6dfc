//! One interval after another: reports, a step, budgets.

use std::collections::BTreeMap;
use std::thread;

use tailbound_balance::{BalancePlan, CapacityRule, HoldReason, MatchingValue, RuleError};
use tailbound_control::{Client, ClientError};
use tailbound_enforcement::ReservationRequest;
use tailbound_time::Duration;

use crate::budget_set::{BudgetControl, BudgetSet};
use crate::exchange;

/// `CapacityManager` divides, and holds what it has divided. The reservations are of the connection that makes the
/// changes, so that they are taken back where the manager ends, however it ends.
pub struct CapacityManager {
    plan: BalancePlan,
    rule: CapacityRule,
    budgets: BudgetSet,
    requests: BTreeMap<String, ReservationRequest>,
}

/// What came of an interval, by application.
#[derive(Debug)]
pub struct IntervalOutcome {
    /// The matching values, or why there are none.
    pub values: Vec<Result<MatchingValue, HoldReason>>,
    /// The capacities that hold from now on.
    pub capacities: Vec<Duration>,
    /// The domains whose budgets could not be changed.
    pub failures: Vec<(String, ClientError)>,
}

/// Changes budgets through the daemon.
struct DaemonBudgets<'a> {
    client: &'a mut Client,
    requests: &'a BTreeMap<String, ReservationRequest>,
}

impl BudgetControl for DaemonBudgets<'_> {
    type Error = ClientError;

    fn change(&mut self, domain: &str, budget: Duration) -> Result<(), ClientError> {
        let Some(request) = self.requests.get(domain) else {
            return Ok(());
        };
        let mut interface = request.interface.clone();
        interface.budget = budget;
        self.client.change(domain, &interface).map(drop)
    }
}

impl CapacityManager {
    /// A manager at its start. The reservations in `requests` get the budgets of the first division; whoever calls makes
    /// them, before the first interval.
    ///
    /// # Errors
    /// If the table makes no rule.
    pub fn begin(
        plan: BalancePlan,
        requests: &mut [ReservationRequest],
    ) -> Result<Self, RuleError> {
        let rule = plan.rule()?;
        let first = wanted(&plan, rule.capacities());
        for request in requests.iter_mut() {
            if let Some((_, budget)) = first.iter().find(|(domain, _)| *domain == request.domain) {
                request.interface.budget = *budget;
            }
        }
        let of_domain = |request: &ReservationRequest| (request.domain.clone(), request.clone());
        Ok(Self {
            budgets: BudgetSet::new(rule.whole(), first),
            requests: requests.iter().map(of_domain).collect(),
            plan,
            rule,
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

    /// The capacities that hold now.
    pub fn capacities(&self) -> &[Duration] {
        self.rule.capacities()
    }

    /// Asks all applications at once, takes a step, and changes budgets.
    pub fn pass_interval(&mut self, client: &mut Client) -> IntervalOutcome {
        let values = self.ask();
        let measured: Vec<_> = values
            .iter()
            .map(|value| value.as_ref().ok().copied())
            .collect();
        self.rule.step(&measured);
        let budgets = wanted(&self.plan, self.rule.capacities());
        let budgets: Vec<Duration> = budgets.into_iter().map(|(_, budget)| budget).collect();
        let requests = &self.requests;
        let failures = self
            .budgets
            .put(&budgets, &mut DaemonBudgets { client, requests });
        IntervalOutcome {
            values,
            capacities: self.rule.capacities().to_vec(),
            failures,
        }
    }

    fn ask(&self) -> Vec<Result<MatchingValue, HoldReason>> {
        let within = self.plan.balance.answer_within();
        let stale_after = self.plan.balance.stale_after();
        thread::scope(|scope| {
            let asked: Vec<_> = self
                .plan
                .applications
                .iter()
                .map(|one| {
                    scope.spawn(move || {
                        exchange::matching_value(&one.described, within, stale_after)
                    })
                })
                .collect();
            let answers = asked.into_iter().map(|one| {
                let failed = |_| Err(HoldReason::NoAnswer("the request failed".to_owned()));
                one.join().unwrap_or_else(failed)
            });
            answers.collect()
        })
    }
}

/// The budgets of all domains under these capacities.
fn wanted(plan: &BalancePlan, capacities: &[Duration]) -> Vec<(String, Duration)> {
    let each = plan.applications.iter().zip(capacities);
    let budgets = each.flat_map(|(one, capacity)| {
        let domains = one.domains.iter().map(|domain| domain.name.clone());
        domains.zip(one.budgets(*capacity)).collect::<Vec<_>>()
    });
    budgets.collect()
}
