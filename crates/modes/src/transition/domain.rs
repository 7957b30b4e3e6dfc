//! What changes for one domain.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use tailbound_model::{AgentPlace, InterfaceInNanoseconds, ResourceInterface};
use tailbound_time::{Duration, Fraction};

use super::capacity::share;

/// What holds for a domain in a mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainMode {
    /// Its name, for people: the local mode's, or that of the global mode that it belongs to.
    #[serde(rename = "local_mode")]
    pub name: String,
    /// How much CPU time the domain gets.
    #[serde(flatten, with = "InterfaceInNanoseconds")]
    pub interface: ResourceInterface,
    /// The tasks that run.
    pub tasks: BTreeSet<String>,
}

impl DomainMode {
    /// The exact share of each of its CPUs.
    pub fn bandwidth(&self) -> Fraction {
        share(&self.interface)
    }
}

/// What changes for one domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainChange {
    /// The domain.
    pub domain: String,
    /// What holds now.
    pub from: DomainMode,
    /// Whether its tasks are known to be those; if not, any of them may run, and each task of the new
    /// mode is started.
    pub tasks_known: bool,
    /// What is to hold.
    pub to: DomainMode,
    /// What is to hold if the domain does not answer, or cannot switch; without one the whole
    /// transition ends then.
    pub fallback: Option<DomainMode>,
    /// Who switches its tasks; nobody if it has no agent.
    pub agent: Option<AgentPlace>,
    /// How long after the stop of its old tasks the new ones start.
    pub offset: Duration,
    /// The same for the tasks of the fallback, after the stop of whatever ran.
    pub fallback_offset: Duration,
}

/// Whether a domain gets more CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// As much as before, or less: the tasks first.
    Shrinks,
    /// More: the interface first.
    Grows,
}

impl DomainChange {
    /// Whether the domain gets more CPU time.
    pub fn direction(&self) -> Direction {
        match self.to.bandwidth() > self.from.bandwidth() {
            true => Direction::Grows,
            false => Direction::Shrinks,
        }
    }

    /// Whether its agent has tasks to stop or to start.
    pub fn switches_tasks(&self) -> bool {
        self.agent.is_some() && (!self.tasks_known || self.from.tasks != self.to.tasks)
    }

    /// The tasks to stop, and those to start.
    pub(super) fn switch(&self) -> (Vec<String>, Vec<String>) {
        let (stop, start) = switch(&self.from.tasks, &self.to.tasks);
        match self.tasks_known {
            true => (stop, start),
            false => (stop, self.to.tasks.iter().cloned().collect()),
        }
    }

    /// Whether its reservation changes.
    pub fn changes_interface(&self) -> bool {
        self.from.interface != self.to.interface
    }

    /// Whether there is nothing to do.
    pub fn is_nothing(&self) -> bool {
        !self.switches_tasks() && !self.changes_interface()
    }

    /// The order of the thesis (section 2.4.1): the largest decrease of bandwidth first, the largest
    /// increase last; by name among equals.
    pub fn by_gain(&self, other: &Self) -> Ordering {
        // a.to - a.from against b.to - b.from, without a difference below zero.
        let ours = self.to.bandwidth() + other.from.bandwidth();
        let theirs = other.to.bandwidth() + self.from.bandwidth();
        ours.partial_cmp(&theirs)
            .unwrap_or(Ordering::Equal)
            .then_with(|| self.domain.cmp(&other.domain))
    }
}

/// The tasks to stop and those to start, from one set to another.
pub(super) fn switch(from: &BTreeSet<String>, to: &BTreeSet<String>) -> (Vec<String>, Vec<String>) {
    (
        from.difference(to).cloned().collect(),
        to.difference(from).cloned().collect(),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tailbound_model::{BudgetScope, Cpu, Priority};

    use super::*;

    #[test]
    fn a_mode_of_a_domain_is_written_flat_and_in_nanoseconds_and_read_again() {
        let mode = DomainMode {
            name: "rest".into(),
            interface: ResourceInterface {
                budget: Duration::from_millis(2),
                period: Duration::from_millis(10),
                priority: Priority(50),
                cpus: [Cpu(1), Cpu(3)].into(),
                budget_scope: BudgetScope::AllCpus,
                windows: Vec::new(),
                slack: Vec::new(),
            },
            tasks: ["hold".to_owned()].into(),
        };
        let json = serde_json::to_value(&mode).unwrap();
        let expected = serde_json::json!({
            "local_mode": "rest",
            "budget_ns": 2_000_000,
            "period_ns": 10_000_000,
            "priority": 50,
            "cpus": [1, 3],
            "budget_scope": "all-cpus",
            "tasks": ["hold"],
        });
        assert_eq!(json, expected);
        assert_eq!(serde_json::from_value::<DomainMode>(json).unwrap(), mode);
    }
}
