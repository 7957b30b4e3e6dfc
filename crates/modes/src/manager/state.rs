//! What holds in every domain.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::table::ModeTable;
use crate::transition::{DomainChange, DomainMode, HeldMode, TransitionOutcome};

/// What holds in one domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainState {
    /// The mode whose interface holds.
    pub interface: DomainMode,
    /// The mode whose tasks run; `None` if that is not known, and then those of the interface's mode
    /// should.
    pub tasks: Option<DomainMode>,
}

impl DomainState {
    /// The mode whose tasks run, or should.
    pub fn tasks_of(&self) -> &DomainMode {
        self.tasks.as_ref().unwrap_or(&self.interface)
    }

    /// The interface and the tasks as one mode.
    fn as_mode(&self, all: &BTreeSet<String>) -> DomainMode {
        DomainMode {
            name: self.interface.name.clone(),
            interface: self.interface.interface.clone(),
            tasks: match &self.tasks {
                Some(tasks) => tasks.tasks.clone(),
                // Any of them may run.
                None => all.clone(),
            },
        }
    }
}

/// What holds on a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The global mode that was reached last.
    pub mode: String,
    /// By domain.
    pub domains: BTreeMap<String, DomainState>,
}

impl State {
    /// The initial mode.
    pub fn initial(table: &ModeTable) -> Self {
        table.in_mode(table.initial())
    }

    /// What changes from here to a mode.
    pub fn changes_to(
        &self,
        table: &ModeTable,
        mode: &str,
        target: &BTreeMap<String, DomainMode>,
    ) -> Vec<DomainChange> {
        let to = |domain: &str| target.get(domain).cloned();
        let mut changes = self.changes(table, to, true);
        // Only in a mode as a whole it is known which tasks are old.
        let is_whole = table.in_mode(&self.mode).domains == self.domains;
        let from = is_whole.then_some(self.mode.as_str());
        for change in &mut changes {
            change.offset = table.offset(from, mode, &change.domain);
        }
        changes
    }

    /// What changes from here to what held. Who does not go back falls back, so that what it was given by
    /// the change is there for those that do.
    pub fn changes_back(&self, table: &ModeTable, old: &Self) -> Vec<DomainChange> {
        let to = |domain: &str| {
            let held = old.domains.get(domain)?;
            Some(held.as_mode(&held.tasks_of().tasks))
        };
        self.changes(table, to, false)
    }

    fn changes(
        &self,
        table: &ModeTable,
        to: impl Fn(&str) -> Option<DomainMode>,
        forward: bool,
    ) -> Vec<DomainChange> {
        let domains = self.domains.iter();
        let changes = domains.filter_map(|(domain, state)| {
            Some(DomainChange {
                domain: domain.clone(),
                from: state.as_mode(&table.all_tasks(domain)),
                to: to(domain)?,
                offset: table.longest_offset(domain),
                fallback_offset: table.longest_offset(domain),
                tasks_known: state.tasks.is_some(),
                fallback: table.fallback(domain).cloned(),
                // One that has just not answered is not asked again; it is told when it speaks.
                agent: table
                    .agent_place(domain)
                    .filter(|_| forward || state.tasks.is_some()),
            })
        });
        changes.collect()
    }

    /// Takes note of what came of a transition.
    pub fn take_over(&mut self, changes: &[DomainChange], outcome: &TransitionOutcome) {
        for change in changes {
            let (Some(settled), Some(state)) = (
                outcome.domains.get(&change.domain),
                self.domains.get_mut(&change.domain),
            ) else {
                continue;
            };
            let of = |held: HeldMode| match held {
                HeldMode::Old => None,
                HeldMode::New => Some(change.to.clone()),
                HeldMode::Fallback => change.fallback.clone(),
            };
            if let Some(mode) = of(settled.interface) {
                state.interface = mode;
            }
            match settled.tasks {
                None => state.tasks = None,
                Some(held) => {
                    if let Some(mode) = of(held) {
                        state.tasks = Some(mode);
                    }
                }
            }
        }
    }
}

impl ModeTable {
    /// What holds when all domains are in a mode; no domain where there is no such mode.
    pub fn in_mode(&self, name: &str) -> State {
        let locals = self.mode(name).into_iter().flatten();
        let domains = locals.map(|(domain, local)| {
            let state = DomainState {
                interface: local.clone(),
                tasks: Some(local.clone()),
            };
            (domain.clone(), state)
        });
        State {
            domains: domains.collect(),
            mode: name.to_owned(),
        }
    }
}
