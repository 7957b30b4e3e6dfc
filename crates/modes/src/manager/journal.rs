//! What the host mode manager notes before it does it, and what follows from that after its death.
//!
//! When the process of the manager dies, all reservations are taken back, whatever it was doing; which
//! tasks run stays as it was. So there is nothing to undo, and only one thing to decide: which
//! reservations are to be made again. *A transition is finished if every domain that had to stop tasks
//! to give CPU time up had done so, or had fallen back; else it is rolled back.* A domain that gives CPU
//! time up without tasks to stop can do so at any time. One that takes another back always goes on.
//!
//! Either way what is made is one whole state of the table, which fits the host by itself, and it is made
//! at once and on a host without reservations of the table: no mixture of two modes, so no overload.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use tailbound_model::ResourceInterface;

use super::state::State;
use crate::table::ModeTable;
use crate::transition::{Direction, DomainChange, DomainMode};

/// Where the manager notes what it is about to do.
pub trait StepJournal: Send {
    /// Takes note; returns when it would survive the death of this process.
    fn note(&mut self, record: &StepRecord);
}

/// A step of a mode change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "record", deny_unknown_fields)]
pub enum StepRecord {
    /// No transition is under way, and this holds.
    Holds {
        /// What.
        state: State,
    },
    /// A transition begins.
    Begins {
        /// What holds.
        from: State,
        /// What is to hold.
        to: State,
        /// The domains that stop tasks before their reservations shrink.
        stopping: BTreeSet<String>,
        /// What domains fall back to.
        fallbacks: BTreeMap<String, DomainMode>,
    },
    /// An agent is told to switch.
    Tells {
        /// Whose.
        domain: String,
    },
    /// An agent has switched.
    Switched {
        /// Whose.
        domain: String,
    },
    /// A reservation is asked for.
    Asks {
        /// Whose.
        domain: String,
        /// Which.
        interface: ResourceInterface,
    },
    /// A reservation was accepted.
    Accepted {
        /// Whose.
        domain: String,
    },
}

impl StepRecord {
    /// The begin of a transition to a mode, or back to what held.
    pub(super) fn begin(held: &State, mode: &str, changes: &[DomainChange]) -> Self {
        let mut to = held.clone();
        mode.clone_into(&mut to.mode);
        for change in changes {
            if let Some(state) = to.domains.get_mut(&change.domain) {
                state.interface = change.to.clone();
                state.tasks = Some(change.to.clone());
            }
        }
        let stops = |change: &&DomainChange| {
            let shrinks = change.direction() == Direction::Shrinks;
            shrinks && change.changes_interface() && change.switches_tasks()
        };
        let stopping = changes.iter().filter(stops);
        let fallbacks = changes.iter().filter_map(|change| {
            let fallback = change.fallback.clone()?;
            Some((change.domain.clone(), fallback))
        });
        Self::Begins {
            from: held.clone(),
            to,
            stopping: stopping.map(|change| change.domain.clone()).collect(),
            fallbacks: fallbacks.collect(),
        }
    }

    /// The begin of a transition that takes another one back, to what held before that.
    pub(super) fn begin_back(old: &State) -> Self {
        Self::Begins {
            from: old.clone(),
            to: old.clone(),
            stopping: BTreeSet::new(),
            fallbacks: BTreeMap::new(),
        }
    }
}

/// What becomes of a transition whose manager died.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// None was under way.
    NoneUnderWay,
    /// It is finished.
    Finished,
    /// It is rolled back.
    RolledBack,
}

impl Fate {
    /// What it means for the mode that holds now.
    pub fn in_words(self, mode: &str) -> String {
        match self {
            Self::NoneUnderWay => format!("mode `{mode}` is in force again"),
            Self::Finished => format!("the change to mode `{mode}` that was under way is finished"),
            Self::RolledBack => format!(
                "the change that was under way is rolled back; mode `{mode}` is in force again"
            ),
        }
    }
}

/// What is to be made again after the manager's death.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resumption {
    /// What is to hold. Of domains with an agent it is not known which tasks run.
    pub state: State,
    /// What becomes of the transition.
    pub fate: Fate,
    /// What to make if that cannot be made: what held before a transition that is to be finished.
    pub otherwise: Option<State>,
}

/// A transition as its records tell of it.
struct RecordedTransition {
    from: State,
    to: State,
    /// Domains that have not stopped their tasks yet.
    stopping: BTreeSet<String>,
    fallbacks: BTreeMap<String, DomainMode>,
    fallen_back: BTreeSet<String>,
}

/// What follows from the records of a dead manager, the oldest first; nothing from none.
pub fn resumption(
    records: impl IntoIterator<Item = StepRecord>,
    table: &ModeTable,
) -> Option<Resumption> {
    let mut held: Option<State> = None;
    let mut under_way: Option<RecordedTransition> = None;
    for record in records {
        match record {
            StepRecord::Holds { state } => {
                held = Some(state);
                under_way = None;
            }
            StepRecord::Begins {
                from,
                to,
                stopping,
                fallbacks,
            } => {
                under_way = Some(RecordedTransition {
                    from,
                    to,
                    stopping,
                    fallbacks,
                    fallen_back: BTreeSet::new(),
                });
            }
            StepRecord::Switched { domain } => {
                if let Some(course) = &mut under_way {
                    course.stopping.remove(&domain);
                }
            }
            StepRecord::Asks { domain, interface } => {
                if let Some(course) = &mut under_way {
                    course.asks(domain, &interface);
                }
            }
            StepRecord::Tells { .. } | StepRecord::Accepted { .. } => {}
        }
    }
    match under_way {
        Some(course) => Some(course.resumption(table)),
        None => held.map(|state| Resumption {
            state: unsure(state, table),
            fate: Fate::NoneUnderWay,
            otherwise: None,
        }),
    }
}

impl RecordedTransition {
    fn asks(&mut self, domain: String, interface: &ResourceInterface) {
        let (Some(fallback), Some(to)) =
            (self.fallbacks.get(&domain), self.to.domains.get(&domain))
        else {
            return;
        };
        // One that has to stop tasks asks for the new reservation when it has stopped them, and for that of its
        // fallback when it has not; these may be the same.
        let has_not_stopped = self.stopping.contains(&domain);
        let is_new = to.interface.interface == *interface;
        if fallback.interface == *interface && (has_not_stopped || !is_new) {
            self.stopping.remove(&domain);
            self.fallen_back.insert(domain);
        }
    }

    fn resumption(mut self, table: &ModeTable) -> Resumption {
        for domain in &self.fallen_back {
            if let (Some(state), Some(fallback)) =
                (self.to.domains.get_mut(domain), self.fallbacks.get(domain))
            {
                state.interface = fallback.clone();
            }
        }
        if !self.stopping.is_empty() {
            return Resumption {
                state: unsure(self.from, table),
                fate: Fate::RolledBack,
                otherwise: None,
            };
        }
        // What takes another one back goes to what held, which is where it began.
        let (fate, otherwise) = match self.from == self.to {
            true => (Fate::RolledBack, None),
            false => (Fate::Finished, Some(unsure(self.from, table))),
        };
        Resumption {
            state: unsure(self.to, table),
            fate,
            otherwise,
        }
    }
}

/// A state of which nobody knows what the agents did last. They are told when they connect.
fn unsure(mut state: State, table: &ModeTable) -> State {
    for (domain, held) in &mut state.domains {
        if table.agent_place(domain).is_some() {
            held.tasks = None;
        }
    }
    state
}
