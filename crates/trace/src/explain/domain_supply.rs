//! When a domain's reservation keeps it from the CPU.
//!
//! Where a cgroup is frozen, the kernel has an event for that. Quotas, groups of real-time budgets and SCHED_DEADLINE
//! have none: a thread leaves the CPU although it could go on. That its budget is used up is inferred
//! from who comes next. Of real-time threads and of SCHED_DEADLINE nobody but a more urgent thread can come; if a
//! less urgent one comes, or nobody, the reservation has taken the CPU away. Ordinary threads take turns,
//! and there the budget that the domain has used since the last replenishment decides.
//!
//! The kernel has a timer for the budget of each group, or thread, all with the same function. The domain's own is the one
//! behind whose expiries its threads came back most often.

use std::collections::{BTreeSet, HashMap};

use crate::recording::{RecordedDomain, RecordedProcess};

/// The rank from which threads are ordinary ones.
const ORDINARY: i32 = 100;
/// The share of the budget from which it counts as used up: the kernel hands quotas out in slices, and looks at ticks.
const USED_UP: (u64, u64) = (19, 20);
/// The share of a period that lies between replenishments at least, while it is not known which timer is the domain's.
const APART: (u64, u64) = (9, 10);

/// A domain.
#[derive(Clone, Debug)]
pub(crate) struct WithheldDomain {
    domain: RecordedDomain,
    cgroups: BTreeSet<String>,
    frozen: bool,
    throttled: bool,
    used: u64,
    /// When a timer gave the budget back last, as far as one was seen.
    replenished: Option<u64>,
    /// Whether its threads were kept from the CPU since one of them ran last.
    was_throttled: bool,
    /// The timer that expired last since its threads are kept from the CPU, of those that could be the domain's.
    expired: Option<u64>,
    /// How often the domain came back after each timer.
    returns: HashMap<u64, u32>,
}

impl WithheldDomain {
    pub(crate) fn new(domain: &RecordedDomain) -> Self {
        Self {
            domain: domain.clone(),
            cgroups: BTreeSet::new(),
            frozen: false,
            throttled: false,
            used: 0,
            replenished: None,
            was_throttled: false,
            expired: None,
            returns: HashMap::new(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.domain.name
    }

    /// Whether a thread of a process belongs to it.
    pub(crate) fn has(&self, thread: u32, process: u32) -> bool {
        self.domain.has(thread, process)
    }

    /// Notes the cgroups of a process's threads, as far as they are of the domain.
    pub(crate) fn note_cgroups(&mut self, process: &RecordedProcess) {
        let threads = process.threads.iter();
        let own = threads.filter(|thread| self.has(thread.tid, process.pid));
        let cgroups = own.map(|thread| thread.cgroup.as_ref().unwrap_or(&process.cgroup));
        let cgroups: Vec<String> = cgroups.filter(|path| !path.is_empty()).cloned().collect();
        self.cgroups.extend(cgroups);
    }

    /// A cgroup is frozen or thawed: the domain's own, or one above it.
    pub(crate) fn freeze(&mut self, path: &str, frozen: bool) {
        let below = |cgroup: &String| {
            let rest = cgroup.strip_prefix(path);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) && path != "/"
        };
        if self.cgroups.iter().any(below) {
            self.frozen = frozen;
        }
    }

    /// Whether its cgroup is frozen.
    pub(crate) fn is_frozen(&self) -> bool {
        self.frozen
    }

    /// Whether it is a time partition, which the end of a window keeps from the CPU, and not a budget.
    pub(crate) fn has_windows(&self) -> bool {
        self.domain.has_windows
    }

    /// Whether its reservation keeps it from the CPU.
    pub(crate) fn is_withheld(&self) -> bool {
        self.frozen || self.throttled
    }

    /// A thread of it comes to a CPU.
    pub(crate) fn runs(&mut self) {
        let was_withheld = std::mem::take(&mut self.throttled);
        // The kernel lets a domain run on beyond what counts as all: its use goes on until its timer gives the budget back,
        // where a timer does.
        if was_withheld && self.domain.replenished_by.is_none() {
            self.used = 0;
        }
        if std::mem::take(&mut self.was_throttled)
            && let Some(timer) = self.expired
        {
            *self.returns.entry(timer).or_default() += 1;
        }
    }

    /// A thread of it has run for so many nanoseconds.
    pub(crate) fn used(&mut self, nanos: u64) {
        self.used = self.used.saturating_add(nanos);
    }

    /// Notes whether the budget is used up, now that a CPU goes to a thread with the rank `next`, or to nobody, although a
    /// thread of the domain with another rank could go on there.
    pub(crate) fn judge(&mut self, rank: i32, next: Option<i32>) {
        let Some(interface) = self.domain.interface.filter(|_| !self.domain.frozen) else {
            return;
        };
        let spent = u128::from(self.used) * u128::from(USED_UP.1)
            >= u128::from(interface.budget.as_nanos()) * u128::from(USED_UP.0);
        let is_throttled = match next {
            _ if rank >= ORDINARY => spent && next.is_none_or(|next| next >= ORDINARY),
            None => true,
            Some(next) => next > rank,
        };
        // A more urgent thread that comes meanwhile, and goes, says nothing about the budget.
        self.throttled |= is_throttled;
        if is_throttled && !std::mem::replace(&mut self.was_throttled, true) {
            self.expired = None;
        }
    }

    /// A timer of the kernel with this function has expired; whether this domain can run again.
    pub(crate) fn replenish(&mut self, function: &str, timer: u64, now: u64) -> bool {
        let Some(interface) = self.domain.interface else {
            return false;
        };
        if self.domain.replenished_by.as_deref() != Some(function) {
            return false;
        }
        let apart = self.replenished.is_none_or(|before| {
            let elapsed = u128::from(now.saturating_sub(before));
            elapsed * u128::from(APART.1)
                >= u128::from(interface.period.as_nanos()) * u128::from(APART.0)
        });
        self.expired = Some(timer);
        let own = self.returns.iter().max_by_key(|(_, returns)| **returns);
        if !own.map_or(apart, |(own, _)| *own == timer) {
            return false;
        }
        (self.used, self.replenished) = (0, Some(now));
        std::mem::take(&mut self.throttled)
    }
}
