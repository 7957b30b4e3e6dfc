//! Members of reservations that stand: whether there are any, and reservations that wait for some.

use std::path::{Path, PathBuf};

use tailbound_model::CpuSet;

use super::{Enforcer, all_restored, named_now};
use crate::error::EnforcementError;
use crate::journal::{HeldDomain, Record, room_for};
use crate::kernel::KernelView;
use crate::{Inheritance, Plan, ReservationRequest, SchedulingSetting, Target};

/// What a domain is seen to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// Somebody is there for whom the reservation holds.
    Members,
    /// Nobody is there.
    Nobody,
    /// Somebody is there, and the reservation holds for none of them.
    Strangers,
}

/// Where the members of one reservation are looked for; looking takes no lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The reservation's domain.
    pub domain: String,
    /// What it is for.
    pub target: Target,
    /// Cgroups all of whose members belong to the domain.
    groups: Vec<PathBuf>,
    /// Processes or threads of the domain, with when each started.
    subjects: Vec<(u32, u64)>,
    /// The policy of all members, where the back end gives one.
    policy: Option<SchedulingSetting>,
    /// The affinity of all members, where the back end gives one.
    affinity: Option<CpuSet>,
    /// The target's own cgroup.
    home: Option<PathBuf>,
}

impl Probe {
    fn of(held: &HeldDomain, v2_root: Option<&Path>) -> Option<Self> {
        let request = &held.request;
        // Devices and topics have no members that come and go.
        let is_without_members = matches!(
            request.target,
            Target::XenDomain(_) | Target::Interrupts(_) | Target::Topics(_)
        );
        if is_without_members {
            return None;
        }
        let home = v2_root.zip(request.target.cgroup()).map(|(root, path)| {
            let below = path.strip_prefix("/").unwrap_or(path);
            root.join(below)
        });
        let subjects = held.entries.iter().filter_map(|entry| {
            let subject = entry.change.subject()?;
            Some((subject, entry.started?))
        });
        let mut subjects: Vec<(u32, u64)> = subjects.collect();
        if let Some(vcpus) = request.target.single_threads() {
            // An emulator's other threads are no members.
            subjects.retain(|(tid, _)| vcpus.contains(tid));
        }
        subjects.sort_unstable();
        subjects.dedup();
        Some(Self {
            domain: request.domain.clone(),
            target: request.target.clone(),
            groups: held.inheritance.cgroups.clone(),
            subjects,
            policy: held.inheritance.scheduling,
            affinity: held.inheritance.affinity.clone(),
            home,
        })
    }

    /// Looks once; of a large domain at few members.
    pub fn look(&self, kernel: &dyn KernelView) -> Sight {
        // A process lives on without its first thread.
        let lives = |&(id, started): &(u32, u64)| {
            let same = |now: std::io::Result<u64>| now.is_ok_and(|now| now == started);
            same(kernel.started(id)) || same(kernel.process_started(id))
        };
        let Some(home) = &self.home else {
            let lives = self.subjects.iter().any(lives)
                || self
                    .groups
                    .iter()
                    .any(|group| any_below(group, kernel, &mut |_| true));
            return if lives { Sight::Members } else { Sight::Nobody };
        };
        if !any_below(home, kernel, &mut |_| true) {
            return match self.has_moved(home, kernel) {
                true => Sight::Strangers,
                false => Sight::Nobody,
            };
        }
        // Whoever was there from the start, or inherited from one who was.
        let is_at_home = |tid: u32| {
            kernel
                .cgroup_of(tid, home)
                .is_ok_and(|group| group.starts_with(home))
        };
        let mut subjects = self.subjects.iter();
        let is_bound = subjects.any(|one| lives(one) && is_at_home(one.0))
            || any_below(home, kernel, &mut |tid| self.has_inherited(tid, kernel));
        match is_bound {
            true => Sight::Members,
            false => Sight::Strangers,
        }
    }

    /// Whether its name is that of another cgroup by now, which has members.
    fn has_moved(&self, home: &Path, kernel: &dyn KernelView) -> bool {
        let Target::NamedCgroup(named) = &self.target else {
            return false;
        };
        let now = kernel.named_cgroup(&named.name);
        now.is_ok_and(|now| now != home && any_below(&now, kernel, &mut |_| true))
    }

    fn has_inherited(&self, tid: u32, kernel: &dyn KernelView) -> bool {
        match (self.policy, &self.affinity) {
            (Some(policy), _) => kernel.scheduling(tid).is_ok_and(|now| now == policy),
            (None, Some(cpus)) => kernel.affinity(tid).is_ok_and(|now| now == *cpus),
            (None, None) => false,
        }
    }
}

impl Enforcer {
    /// Where the members of all reservations are looked for, those of Xen's domains left out.
    pub fn probes(&self) -> Vec<Probe> {
        let root = self.host.cgroup_v2_root.as_deref();
        let held = self.journal.history().domains.iter();
        held.filter_map(|held| Probe::of(held, root)).collect()
    }

    /// Takes back all that a reservation changed, and keeps its budget booked for members that are
    /// yet to come: [`Enforcer::bind`].
    ///
    /// # Errors
    /// If there is no such reservation, or something could not be put back.
    pub fn detach(&mut self, domain: &str) -> Result<(), EnforcementError> {
        let _turn = self.turn_to_undo()?;
        let request = self.booked(domain)?;
        self.let_go(domain)?;
        self.book(&request)
    }

    /// Puts a reservation in force anew, for the members that its target has now. Its budget is
    /// booked all the while, so it needs no admission; if this fails, it stays booked.
    ///
    /// # Errors
    /// If there is no such reservation, or its target does not suit, or the kernel refuses a change.
    pub fn bind(&mut self, domain: &str) -> Result<Plan, EnforcementError> {
        let _turn = self.turn()?;
        let request = self.booked(domain)?;
        self.let_go(domain)?;
        match self.bind_request(&request) {
            Ok(plan) => Ok(plan),
            Err(cause) => {
                let cause = match self.let_go(domain) {
                    Ok(()) => cause,
                    Err(also) => cause.and_then(also),
                };
                if self.journal.history().domain(domain).is_none() {
                    self.book(&request)?;
                }
                Err(cause)
            }
        }
    }

    fn bind_request(&mut self, request: &ReservationRequest) -> Result<Plan, EnforcementError> {
        let request = named_now(request, self.kernel.as_ref())?;
        let plan = self.plan_for(&request)?;
        let plans = std::slice::from_ref(&plan);
        self.check_disjoint(plans)?;
        self.enter_registry()?;
        self.journal.make_room(room_for(plans))?;
        self.apply_one(&plan)?;
        Ok(plan)
    }

    /// What was asked for by the reservation of `domain`, as it was changed since.
    fn booked(&self, domain: &str) -> Result<ReservationRequest, EnforcementError> {
        let held = self.journal.history().domain(domain);
        let held = held.ok_or_else(|| self.not_active(domain))?;
        Ok(held.request.clone())
    }

    /// Takes back all that stands of a reservation, if any does.
    fn let_go(&mut self, domain: &str) -> Result<(), EnforcementError> {
        all_restored(self.take_back_one(domain))
    }

    /// Has a reservation counted that changes nothing.
    fn book(&mut self, request: &ReservationRequest) -> Result<(), EnforcementError> {
        self.journal.append(Record::Domain {
            request: request.clone(),
            inheritance: Inheritance::default(),
        })
    }
}

/// Whether `holds` of a living thread in a cgroup or below it.
fn any_below(group: &Path, kernel: &dyn KernelView, holds: &mut dyn FnMut(u32) -> bool) -> bool {
    let threads = kernel.threads_in(group).unwrap_or_default();
    let mut living = threads
        .into_iter()
        .filter(|&tid| kernel.started(tid).is_ok());
    if living.any(&mut *holds) {
        return true;
    }
    let below = kernel.cgroups_below(group).unwrap_or_default();
    below.iter().any(|one| any_below(one, kernel, holds))
}
