//! The table `[balance]` with the reservations that it refers to: all that the manager and the simulation need.

use serde::{Deserialize, Serialize};
use tailbound_model::Description;
use tailbound_time::Duration;

use crate::rule::{CapacityRule, CapacityTerms, RuleError};
use crate::table::{BalanceTable, BalancedApplication};

/// `BalancePlan` is a checked table with the described reservations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BalancePlan {
    /// The table.
    pub balance: BalanceTable,
    /// The period of all reservations.
    pub period: Duration,
    /// The applications, by name.
    pub applications: Vec<PlannedApplication>,
}

/// An application with its domains.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedApplication {
    /// The name.
    pub name: String,
    /// The table.
    pub described: BalancedApplication,
    /// The domains.
    pub domains: Vec<BalancedDomain>,
    /// The capacity that the promise needs, by prediction.
    pub promised: Option<Duration>,
}

/// A domain of an application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BalancedDomain {
    /// The name.
    pub name: String,
    /// The budget of the description.
    pub described: Duration,
    /// The smallest budget that the back end gives.
    pub smallest: Duration,
}

impl BalancePlan {
    /// The plan of a description that was checked; none without the table.
    pub fn of(description: &Description) -> Option<Self> {
        let balance: BalanceTable = description.section();
        let applications = balance.applications.iter().map(|(name, described)| {
            let domains = described
                .domains
                .iter()
                .filter_map(|name| domain(description, name));
            PlannedApplication {
                name: name.clone(),
                described: described.clone(),
                domains: domains.collect(),
                promised: None,
            }
        });
        let applications: Vec<_> = applications.collect();
        let first = balance.applications.values().next()?.domains.first()?;
        let period = description
            .domains
            .get(first)?
            .reservation
            .as_ref()?
            .period?;
        Some(Self {
            balance,
            period,
            applications,
        })
    }

    /// The same plan without the models, which only a simulation needs.
    #[must_use]
    pub fn without_models(mut self) -> Self {
        for application in self.balance.applications.values_mut() {
            application.simulated = None;
        }
        for application in &mut self.applications {
            application.described.simulated = None;
        }
        self
    }

    /// The budgets of all domains under these capacities, in whole microseconds, which all back ends count in. What is rounded
    /// off stays with nobody.
    pub fn budgets(&self, capacities: &[Duration]) -> Vec<(String, Duration)> {
        let each = self.applications.iter().zip(capacities);
        let budgets = each.flat_map(|(one, capacity)| {
            let domains = one.domains.iter().map(|domain| domain.name.clone());
            let budgets = one.budgets(*capacity).into_iter();
            let budgets = budgets.map(|budget| Duration::from_micros(budget.as_nanos() / 1000));
            domains.zip(budgets).collect::<Vec<_>>()
        });
        budgets.collect()
    }

    /// The rule at its start.
    ///
    /// # Errors
    /// If the table was not checked.
    pub fn rule(&self) -> Result<CapacityRule, RuleError> {
        let whole = self.balance.capacity;
        let terms = self.applications.iter().map(|one| CapacityTerms {
            least: one.described.least,
            promised: one.promised,
            most: one.described.most.unwrap_or(whole).min(whole),
            weight: one.described.weight,
        });
        CapacityRule::new(
            whole,
            self.balance.gain(),
            self.balance.hysteresis,
            terms.collect(),
        )
    }
}

impl PlannedApplication {
    /// The budgets of the domains that are `capacity` together, in proportion to the described ones.
    pub fn budgets(&self, capacity: Duration) -> Vec<Duration> {
        let described: Vec<u64> = self
            .domains
            .iter()
            .map(|one| one.described.as_nanos())
            .collect();
        let total: u128 = described.iter().copied().map(u128::from).sum();
        let portions = self.domains.iter().map(|one| crate::division::Portion {
            wanted: (u128::from(capacity.as_nanos()) * u128::from(one.described.as_nanos())
                / total.max(1)) as i128,
            least: one.smallest.as_nanos(),
            most: u64::MAX,
        });
        let sizes = crate::division::divide(capacity.as_nanos(), &portions.collect::<Vec<_>>());
        sizes
            .unwrap_or(described)
            .into_iter()
            .map(Duration::from_nanos)
            .collect()
    }
}

fn domain(description: &Description, name: &str) -> Option<BalancedDomain> {
    let reservation = description.domains.get(name)?.reservation.as_ref()?;
    Some(BalancedDomain {
        name: name.to_owned(),
        described: reservation.budget?,
        smallest: reservation.backend.traits().smallest_budget,
    })
}
