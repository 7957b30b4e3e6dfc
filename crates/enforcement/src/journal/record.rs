//! The lines of a journal, and what they add up to.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tailbound_linux::xen::VcpuSetting;
use tailbound_model::CpuSet;
use tailbound_time::Instant;

use crate::admission::{Holding, Pending, Standing};
use crate::{Change, Inheritance, ReservationRequest, SchedulingSetting};

/// The version of the lines.
pub const JOURNAL_VERSION: u32 = 2;

/// One line of a journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "record")]
pub enum Record {
    /// Whose journal it is; the first line.
    Owner(Owner),
    /// A reservation is about to be made, or extended to threads that came with it.
    Domain {
        /// What was asked for.
        request: ReservationRequest,
        /// What the domain's later threads come with.
        inheritance: Inheritance,
    },
    /// A reservation as it stood when the journal was written anew; its changes follow.
    Held {
        /// What was asked for, as it holds.
        request: ReservationRequest,
        /// What the domain's later threads come with.
        inheritance: Inheritance,
        /// Whether its period is the one that it started with.
        first_period: bool,
        /// What of it was replaced and may hold still.
        pending: Pending,
    },
    /// A change is about to be made.
    Intent(Entry),
    /// A change has been taken back.
    Undone {
        /// Its number.
        sequence: u64,
    },
    /// What a change will be taken back to is another state than noted before, since an older
    /// change of the same thing has ended.
    Replaces {
        /// Its number.
        sequence: u64,
        /// The state.
        previous: Previous,
    },
    /// An active reservation got another interface.
    Changed {
        /// As it holds now.
        request: ReservationRequest,
        /// What the domain's later threads come with now.
        inheritance: Inheritance,
        /// When it was accepted (CLOCK_MONOTONIC).
        #[serde(default)]
        accepted_at_ns: Instant,
        /// When it holds, and what was before no longer does; [`UNKNOWN`] until a manager has said.
        #[serde(default)]
        in_force_at_ns: Instant,
    },
    /// A reservation has ended.
    Ended {
        /// Its domain.
        domain: String,
    },
}

/// The process that a journal belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// [`JOURNAL_VERSION`].
    pub version: u32,
    /// The process.
    pub pid: u32,
    /// When it started, in ticks since boot.
    pub started: u64,
    /// The boot that it runs in.
    pub boot: String,
}

/// A change with what it replaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number; later changes have higher ones.
    pub sequence: u64,
    /// The domain that it is made for.
    pub domain: String,
    /// The change.
    pub change: Change,
    /// What it replaces.
    pub previous: Previous,
    /// When the thread or process that it is about started, in ticks since boot.
    pub started: Option<u64>,
}

/// What a change replaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "previous")]
pub enum Previous {
    /// A cgroup that was not there.
    Absent,
    /// A cgroup that was there.
    Present,
    /// A file's text.
    Text {
        /// The text.
        text: String,
    },
    /// A process's or thread's cgroup.
    Cgroup {
        /// Its directory.
        directory: PathBuf,
    },
    /// A thread's policy.
    Scheduling {
        /// The policy.
        setting: SchedulingSetting,
    },
    /// A thread's affinity.
    Affinity {
        /// The CPUs.
        cpus: CpuSet,
    },
    /// What a virtual CPU of Xen's had.
    XenVcpu {
        /// The budget and period.
        setting: VcpuSetting,
    },
}

/// What lines of a journal add up to: the changes that stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalHistory {
    /// Whose it is.
    pub owner: Option<Owner>,
    /// The reservations that stand, in the order in which they were made.
    pub domains: Vec<HeldDomain>,
}

/// A reservation that stands, perhaps in part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldDomain {
    /// What was asked for.
    pub request: ReservationRequest,
    /// What the domain's later threads come with.
    pub inheritance: Inheritance,
    /// The changes that stand, in order.
    pub entries: Vec<Entry>,
    /// Whether its period is the one that it started with.
    pub first_period: bool,
    /// What of it was replaced and may hold still.
    pub pending: Pending,
}

impl HeldDomain {
    /// As admission counts it, with what may still hold of what it was.
    pub fn holding(&self) -> Holding {
        Holding {
            standing: self.standing(),
            pending: self.pending.clone(),
        }
    }

    /// As it is, or will be once the latest change holds.
    pub fn standing(&self) -> Standing {
        let mut standing = Standing::from_start(self.request.clone());
        standing.on_common_grid &= self.first_period;
        standing
    }
}

impl JournalHistory {
    /// Adds a line. Lines that refer to nothing known change nothing.
    pub fn add(&mut self, record: Record) {
        match record {
            Record::Owner(owner) => self.owner = Some(owner),
            Record::Domain {
                request,
                inheritance,
            } => self.begin(request, inheritance),
            Record::Held {
                request,
                inheritance,
                first_period,
                pending,
            } => self.domains.push(HeldDomain {
                request,
                inheritance,
                entries: Vec::new(),
                first_period,
                pending,
            }),
            Record::Intent(entry) => {
                if let Some(held) = self.domain_mut(&entry.domain) {
                    held.entries.push(entry);
                }
            }
            Record::Undone { sequence } => {
                for held in &mut self.domains {
                    held.entries.retain(|entry| entry.sequence != sequence);
                }
            }
            Record::Replaces { sequence, previous } => {
                let mut entries = self.domains.iter_mut().flat_map(|held| &mut held.entries);
                if let Some(entry) = entries.find(|entry| entry.sequence == sequence) {
                    entry.previous = previous;
                }
            }
            Record::Changed {
                request,
                inheritance,
                accepted_at_ns,
                in_force_at_ns,
            } => {
                if let Some(held) = self.domain_mut(&request.domain) {
                    let old = &held.request.interface;
                    held.pending.replace(old, accepted_at_ns, in_force_at_ns);
                    held.first_period &= held.request.interface.period == request.interface.period;
                    held.request = request;
                    held.inheritance = inheritance;
                }
            }
            Record::Ended { domain } => {
                self.domains.retain(|held| held.request.domain != domain);
            }
        }
    }

    /// Adds a reservation that is about to be made; one that stands already is for more threads from now on.
    fn begin(&mut self, request: ReservationRequest, inheritance: Inheritance) {
        match self.domain_mut(&request.domain) {
            Some(held) => (held.request, held.inheritance) = (request, inheritance),
            None => self.domains.push(HeldDomain {
                request,
                inheritance,
                entries: Vec::new(),
                first_period: true,
                pending: Pending::default(),
            }),
        }
    }

    /// The reservation of `domain`.
    pub fn domain(&self, domain: &str) -> Option<&HeldDomain> {
        self.domains
            .iter()
            .find(|held| held.request.domain == domain)
    }

    fn domain_mut(&mut self, domain: &str) -> Option<&mut HeldDomain> {
        let mut held = self.domains.iter_mut();
        held.find(|held| held.request.domain == domain)
    }

    /// Reads a journal. A last line without an end is a write that was cut off: the change that it
    /// announces was not made. The zeros behind it are room for more. Lines that cannot be read are counted and passed over.
    pub fn read(bytes: &[u8]) -> (Self, usize) {
        let (mut history, mut unreadable) = (Self::default(), 0);
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            match line.strip_suffix(b"\n").map(serde_json::from_slice) {
                Some(Ok(record)) => history.add(record),
                Some(Err(_)) => unreadable += 1,
                None => {}
            }
        }
        (history, unreadable)
    }
}
