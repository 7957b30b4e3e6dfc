//! What taking back all that stands will append to a journal, at most.
//!
//! Room for it is had before a change is made, so that taking it back needs none. Taking one change back
//! appends at most one [`Record::Replaces`] and one [`Record::Undone`], and the end of a domain one
//! [`Record::Ended`]. The first of these carries what an older change of the same thing replaced, which may
//! by then have been handed on from a still older one.

use std::collections::BTreeMap;

use super::{Entry, JournalHistory, Previous, Record};
use crate::{Change, Plan};

/// About what an entry owes.
const OWED_TO_A_CHANGE_BYTES: u64 = 200;

/// How many bytes are owed to what stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Debt {
    entries: BTreeMap<u64, u64>,
    domains: BTreeMap<String, u64>,
    sum_bytes: u64,
}

impl Debt {
    /// What is owed to all that stands in `history`.
    pub(super) fn of(history: &JournalHistory) -> Self {
        let mut debt = Self::default();
        for held in &history.domains {
            debt.add_domain(&held.request.domain);
        }
        for entry in history.domains.iter().flat_map(|held| &held.entries) {
            debt.set_entry(entry.sequence, of_entry(entry, history));
        }
        debt
    }

    /// All that is owed.
    pub(super) fn bytes(&self) -> u64 {
        self.sum_bytes
    }

    /// What a record adds to what is owed, to be asked before `history` has the record.
    pub(super) fn added_by(record: &Record, history: &JournalHistory) -> u64 {
        match record {
            Record::Domain { request, .. } => of_domain(&request.domain),
            Record::Intent(entry) => of_entry(entry, history),
            _ => 0,
        }
    }

    /// Follows a record, before `history` has it.
    pub(super) fn follow(&mut self, record: &Record, history: &JournalHistory) {
        match record {
            Record::Domain { request, .. } => self.add_domain(&request.domain),
            Record::Intent(entry) => self.set_entry(entry.sequence, of_entry(entry, history)),
            Record::Undone { sequence } => self.settle_entry(*sequence),
            Record::Ended { domain } => {
                let held = history.domains.iter();
                let held = held.filter(|held| held.request.domain == *domain);
                for entry in held.flat_map(|held| &held.entries) {
                    self.settle_entry(entry.sequence);
                }
                self.sum_bytes -= self.domains.remove(domain).unwrap_or(0);
            }
            _ => {}
        }
        debug_assert_eq!(
            self.sum_bytes,
            self.entries
                .values()
                .chain(self.domains.values())
                .sum::<u64>(),
            "the sum is that of all that is owed"
        );
    }

    fn add_domain(&mut self, domain: &str) {
        let bytes = of_domain(domain);
        let before = self.domains.insert(domain.into(), bytes).unwrap_or(0);
        self.sum_bytes = self.sum_bytes - before + bytes;
    }

    fn set_entry(&mut self, sequence: u64, bytes: u64) {
        let before = self.entries.insert(sequence, bytes).unwrap_or(0);
        self.sum_bytes = self.sum_bytes - before + bytes;
    }

    fn settle_entry(&mut self, sequence: u64) {
        self.sum_bytes -= self.entries.remove(&sequence).unwrap_or(0);
    }
}

/// The bytes of a record's line.
pub(super) fn line_bytes(record: &Record) -> u64 {
    // What cannot be written as JSON is refused when it is to be written.
    serde_json::to_vec(record).map_or(0, |line| line.len() as u64 + 1)
}

/// What plans are likely to need, with all that taking them back will append: what a change replaces is not
/// known yet. A disk that has no room for it is known to be full before anything is done.
pub(crate) fn room_for(plans: &[Plan]) -> u64 {
    let changes = plans.iter().flat_map(|plan| &plan.changes);
    let changes: u64 = changes.map(of_change).sum();
    let domains = plans.iter().map(|plan| {
        let (request, inheritance) = (plan.request.clone(), plan.inheritance.clone());
        let domain = of_domain(&request.domain);
        let record = Record::Domain {
            request,
            inheritance,
        };
        domain + line_bytes(&record)
    });
    changes + domains.sum::<u64>()
}

/// An entry of a change that replaces something about as long as itself, and what it owes.
fn of_change(change: &Change) -> u64 {
    let entry = Record::Intent(Entry {
        sequence: u64::MAX,
        domain: String::new(),
        change: change.clone(),
        previous: Previous::Absent,
        started: Some(u64::MAX),
    });
    let own = line_bytes(&entry);
    own + own / 2 + OWED_TO_A_CHANGE_BYTES
}

fn of_domain(domain: &str) -> u64 {
    line_bytes(&Record::Ended {
        domain: domain.into(),
    })
}

/// An entry's [`Record::Undone`], and its [`Record::Replaces`] with the longest state that it can come to
/// carry.
fn of_entry(entry: &Entry, history: &JournalHistory) -> u64 {
    let others = history.domains.iter();
    let others = others.filter(|held| held.request.domain != entry.domain);
    let same = others
        .flat_map(|held| &held.entries)
        .filter(|other| other.change.same_object(&entry.change))
        .map(|other| &other.previous);
    let longest = same.chain([&entry.previous]).map(of_previous).max();
    let undone = line_bytes(&Record::Undone {
        sequence: entry.sequence,
    });
    undone + longest.unwrap_or(0)
}

/// A [`Record::Replaces`] with this state, for whichever change.
fn of_previous(previous: &Previous) -> u64 {
    line_bytes(&Record::Replaces {
        sequence: u64::MAX,
        previous: previous.clone(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use std::path::PathBuf;

    use proptest::prelude::*;
    use tailbound_model::{
        BackendKind, BackendOptions, BudgetScope, Cpu, Priority, ResourceInterface,
    };
    use tailbound_time::Duration;

    use super::*;
    use crate::{Inheritance, ReservationRequest, SchedulingSetting, Target};

    const DOMAINS: [&str; 4] = ["a", "b\"\\", "machine-one", "z"];

    fn domain(name: &str) -> Record {
        Record::Domain {
            request: ReservationRequest {
                domain: name.into(),
                target: Target::Processes(vec![1]),
                interface: ResourceInterface {
                    budget: Duration::from_millis(1),
                    period: Duration::from_millis(10),
                    priority: Priority(1),
                    cpus: [Cpu(0)].into(),
                    budget_scope: BudgetScope::EachCpu,
                    windows: Vec::new(),
                    slack: Vec::new(),
                },
                backend: BackendKind::None,
                options: BackendOptions::default(),
                interference: Default::default(),
            },
            inheritance: Inheritance::default(),
        }
    }

    fn previous() -> impl Strategy<Value = Previous> {
        prop_oneof![
            Just(Previous::Absent),
            Just(Previous::Present),
            ".{0,40}".prop_map(|text| Previous::Text { text }),
            "/[a-z\"\n]{0,60}".prop_map(|path| Previous::Cgroup {
                directory: PathBuf::from(path)
            }),
            any::<u64>().prop_map(|ns| Previous::Scheduling {
                setting: SchedulingSetting::Deadline {
                    runtime_ns: ns,
                    deadline_ns: ns,
                    period_ns: ns,
                    flags: ns,
                }
            }),
            prop::collection::btree_set((0_u32..5000).prop_map(Cpu), 0..40)
                .prop_map(|cpus| Previous::Affinity { cpus }),
        ]
    }

    /// What is appended: for a domain, a change of one of few things, with what it replaced.
    fn changes() -> impl Strategy<Value = Vec<(usize, u32, Previous)>> {
        prop::collection::vec((0..DOMAINS.len(), 0_u32..3, previous()), 1..24)
    }

    fn append(history: &mut JournalHistory, debt: &mut Debt, record: Record) -> u64 {
        let bytes = line_bytes(&record);
        debt.follow(&record, history);
        history.add(record);
        bytes
    }

    proptest! {
        /// In whatever order domains are taken back, by the executor's rule: no more is written than was
        /// owed when it began, nor is at any moment more written than what was owed less what still is.
        #[test]
        fn no_order_of_taking_back_writes_more_than_is_owed(
            changes in changes(),
            order in Just((0..DOMAINS.len()).collect::<Vec<_>>()).prop_shuffle(),
        ) {
            let (mut history, mut debt) = (JournalHistory::default(), Debt::default());
            for name in DOMAINS {
                append(&mut history, &mut debt, domain(name));
            }
            for (sequence, (owner, tid, previous)) in changes.into_iter().enumerate() {
                let record = Record::Intent(Entry {
                    sequence: sequence as u64 * 1_000_003,
                    domain: DOMAINS[owner].into(),
                    change: Change::SetAffinity { tid, cpus: [Cpu(tid)].into() },
                    previous,
                    started: Some(u64::MAX),
                });
                let before = debt.bytes();
                let added = Debt::added_by(&record, &history);
                append(&mut history, &mut debt, record);
                prop_assert_eq!(debt.bytes(), before + added);
            }
            prop_assert_eq!(&Debt::of(&history).domains, &debt.domains);
            let owed = debt.bytes();
            let mut written = 0;
            for name in order.into_iter().map(|index| DOMAINS[index]) {
                let entries = history.domain(name).unwrap().entries.clone();
                for entry in entries.iter().rev() {
                    let later = history.domains.iter().flat_map(|held| &held.entries).find(|other| {
                        other.domain != name && other.sequence > entry.sequence
                            && other.change.same_object(&entry.change)
                    });
                    if let Some(later) = later {
                        let record = Record::Replaces {
                            sequence: later.sequence,
                            previous: entry.previous.clone(),
                        };
                        written += append(&mut history, &mut debt, record);
                    }
                    let undone = Record::Undone { sequence: entry.sequence };
                    written += append(&mut history, &mut debt, undone);
                    prop_assert!(written + debt.bytes() <= owed);
                }
                written += append(&mut history, &mut debt, Record::Ended { domain: name.into() });
                prop_assert!(written + debt.bytes() <= owed);
            }
            prop_assert_eq!(debt, Debt::default());
        }
    }
}
