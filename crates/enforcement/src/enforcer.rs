//! The one that holds reservations: admits, plans, applies, reverts.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tailbound_linux::HostCapabilities;
use tailbound_model::{BackendKind, ResourceInterface};
use tailbound_time::{Duration, Instant};

use crate::admission::{Standing, admit, check_request};
use crate::backends::{admit_vcpus, backend};
use crate::change_interface::change_interface;
use crate::error::{AdmissionError, EnforcementError, PlanError};
use crate::executor::{carry_out, members, take_back};
use crate::journal::{self, HeldDomain, Journal, Record, Turn};
use crate::kernel::KernelState;
use crate::linux_kernel::LinuxKernel;
use crate::machine::with_emulator;
use crate::managers::{FreezeManagers, LedgerSummary, Managers};
use crate::recovery::{Recovery, held_by_others, recover_in_turn};
use crate::{Change, Plan, ReservationRequest, Target};

/// Everything that is enforced by one [`Enforcer`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnforcementStatus {
    /// In the order in which they were applied.
    pub domains: Vec<DomainStatus>,
}

/// One active reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainStatus {
    /// The domain's name.
    pub domain: String,
    /// What gets the CPU time.
    pub target: Target,
    /// How much it gets.
    pub interface: ResourceInterface,
    /// What enforces it.
    pub backend: BackendKind,
    /// Threads of the domain that are alive now.
    pub threads: usize,
    /// What its manager has seen, where there is one.
    pub ledger: Option<LedgerSummary>,
}

/// An interface that was changed.
#[derive(Clone, Debug)]
pub struct Changed {
    /// What was done.
    pub plan: Plan,
    /// When its manager puts it in force; `None` without a manager: from the kernel's next
    /// replenishment on, by the old period at the latest.
    pub in_force_at: Option<Instant>,
}

/// Holds reservations on this host.
///
/// Dropping it reverts all of them. If the process dies instead, [`crate::recover`] does.
pub struct Enforcer {
    host: HostCapabilities,
    kernel: Box<dyn KernelState + Send>,
    managers: Box<dyn Managers>,
    state_directory: PathBuf,
    journal: Journal,
    recovery: Recovery,
    /// While several changes are made in one turn: what other enforcers hold.
    changes: Option<(Turn, Vec<Standing>)>,
}

impl Enforcer {
    /// An enforcer on this host, which it probes, with its journal in
    /// [`crate::state_directory`]. Nothing is written before the first [`Enforcer::apply`].
    ///
    /// # Errors
    /// If /proc cannot be read.
    pub fn new() -> Result<Self, EnforcementError> {
        Self::with_host(HostCapabilities::probe(), journal::state_directory())
    }

    /// An enforcer on this host with these capabilities and journal directory.
    ///
    /// # Errors
    /// If /proc cannot be read.
    pub fn with_host(
        host: HostCapabilities,
        state_directory: PathBuf,
    ) -> Result<Self, EnforcementError> {
        Self::with_managers(host, Box::new(FreezeManagers::default()), state_directory)
    }

    /// An enforcer on this host whose managers are set up in a special way, such as with a
    /// heartbeat ([`FreezeManagers::with_heartbeat`]).
    ///
    /// # Errors
    /// If /proc cannot be read.
    pub fn with_managers(
        host: HostCapabilities,
        managers: Box<dyn Managers>,
        state_directory: PathBuf,
    ) -> Result<Self, EnforcementError> {
        let kernel = LinuxKernel::new().map_err(|e| journal::failure(&state_directory, e))?;
        Self::with_parts(host, Box::new(kernel), managers, state_directory)
    }

    /// An enforcer over another kernel and other managers, for tests.
    ///
    /// # Errors
    /// If our own process cannot be identified in that kernel.
    pub fn with_parts(
        host: HostCapabilities,
        kernel: Box<dyn KernelState + Send>,
        managers: Box<dyn Managers>,
        state_directory: PathBuf,
    ) -> Result<Self, EnforcementError> {
        let journal = Journal::new(&state_directory, kernel.as_ref())?;
        Ok(Self {
            host,
            kernel,
            managers,
            state_directory,
            journal,
            recovery: Recovery::default(),
            changes: None,
        })
    }

    /// What the host was found to be able to.
    pub fn host(&self) -> &HostCapabilities {
        &self.host
    }

    /// What [`Enforcer::apply`] found left behind by dead enforcers, and took back, so far.
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// What would be changed to serve `requests` beside the active reservations; changes nothing.
    /// The reservations of other living enforcers with the same journal directory count, too.
    ///
    /// # Errors
    /// If the host lacks something, or there is too little CPU time, or the targets do not suit.
    pub fn plan(&self, requests: &[ReservationRequest]) -> Result<Vec<Plan>, EnforcementError> {
        let requested = requests.iter().cloned().map(Standing::from_start);
        self.plan_beside(&self.active(None)?, &requested.collect::<Vec<_>>())
    }

    /// The reservations that count against new ones, `without` one of ours.
    fn active(&self, without: Option<&str>) -> Result<Vec<Standing>, EnforcementError> {
        let own = self.journal.history().domains.iter();
        let own = own.filter(|held| Some(held.request.domain.as_str()) != without);
        let mut active: Vec<Standing> = own.map(HeldDomain::standing).collect();
        match &self.changes {
            Some((_, others)) => active.extend(others.iter().cloned()),
            None => active.extend(self.held_by_others()?),
        }
        Ok(active)
    }

    fn held_by_others(&self) -> Result<Vec<Standing>, EnforcementError> {
        let own = self.journal.path();
        held_by_others(&self.state_directory, own, self.kernel.as_ref())
    }

    /// Begins changes that are made one soon after another, all in one turn: other enforcers over the
    /// same directory wait until [`Enforcer::end_changes`], so what they hold is looked up once, and
    /// what budgets became is written once. If we die before, all that we hold is taken back anyway.
    /// [`Enforcer::apply`] and [`Enforcer::revert`] end it, too.
    ///
    /// # Errors
    /// If our turn or the others' journals cannot be had.
    pub fn begin_changes(&mut self) -> Result<(), EnforcementError> {
        if self.changes.is_none() {
            let turn = Turn::take(&self.state_directory)?;
            self.changes = Some((turn, self.held_by_others()?));
        }
        Ok(())
    }

    /// Ends what [`Enforcer::begin_changes`] began; nothing if nothing was.
    ///
    /// # Errors
    /// If what the budgets became cannot be written; it is written with the next change then.
    pub fn end_changes(&mut self) -> Result<(), EnforcementError> {
        let written = self.journal.write_later();
        self.changes = None;
        written
    }

    fn plan_beside(
        &self,
        active: &[Standing],
        requests: &[Standing],
    ) -> Result<Vec<Plan>, EnforcementError> {
        for request in requests {
            check_request(request, &self.host)?;
            let chosen = backend(request.backend);
            let missing = chosen.missing(&self.host);
            if !missing.is_empty() {
                let backend = request.backend;
                return Err(EnforcementError::Missing { backend, missing });
            }
            chosen.check_interface(request, &self.host)?;
        }
        admit(active, requests, &self.host)?;
        let plan = |standing: &Standing| {
            let request = &standing.request;
            let plan = backend(request.backend).plan(request, &self.host, self.kernel.as_ref())?;
            Ok::<Plan, EnforcementError>(with_emulator(plan))
        };
        let plans: Vec<Plan> = requests.iter().map(plan).collect::<Result<_, _>>()?;
        self.check_disjoint(&plans)?;
        let held = &self.journal.history().domains;
        admit_vcpus(&plans, held, self.kernel.as_ref())?;
        Ok(plans)
    }

    /// No thread belongs to two reservations.
    fn check_disjoint(&self, plans: &[Plan]) -> Result<(), PlanError> {
        let mut owners: BTreeMap<u32, &str> = BTreeMap::new();
        let planned = plans.iter().map(|plan| plan.request.domain.as_str());
        let planned: Vec<&str> = planned.collect();
        for held in &self.journal.history().domains {
            // One whose interface is being changed is planned anew.
            if planned.contains(&held.request.domain.as_str()) {
                continue;
            }
            let changes = held.entries.iter().map(|entry| &entry.change);
            for tid in changes.filter_map(reserved_thread) {
                owners.insert(tid, &held.request.domain);
            }
        }
        for plan in plans {
            for tid in plan.changes.iter().filter_map(reserved_thread) {
                let domain = plan.request.domain.as_str();
                match owners.insert(tid, domain) {
                    Some(other) if other != domain => {
                        return Err(PlanError::ReservedAlready {
                            domain: domain.into(),
                            tid,
                            other: other.into(),
                        });
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Carries out plans for `requests`: all of them or none. Takes back what dead enforcers left
    /// behind first.
    ///
    /// # Errors
    /// As [`Enforcer::plan`], and if the kernel refuses a change.
    pub fn apply(
        &mut self,
        requests: &[ReservationRequest],
    ) -> Result<Vec<Plan>, EnforcementError> {
        self.end_changes()?;
        let _turn = Turn::take(&self.state_directory)?;
        let found = recover_in_turn(&self.state_directory, self.kernel.as_mut())?;
        self.recovery.reverted.extend(found.reverted);
        self.recovery.failures.extend(found.failures);
        let plans = self.plan(requests)?;
        for (index, plan) in plans.iter().enumerate() {
            if let Err(cause) = self.apply_one(plan) {
                let begun = plans.iter().take(index + 1).rev();
                let begun: Vec<&str> = begun.map(|plan| plan.request.domain.as_str()).collect();
                return Err(self.roll_back(&begun, cause));
            }
        }
        Ok(plans)
    }

    fn apply_one(&mut self, plan: &Plan) -> Result<(), EnforcementError> {
        carry_out(self.kernel.as_mut(), &mut self.journal, plan)?;
        self.managers
            .start(plan)
            .map_err(|reason| EnforcementError::Manager {
                domain: plan.request.domain.clone(),
                reason,
            })
    }

    fn roll_back(&mut self, domains: &[&str], cause: EnforcementError) -> EnforcementError {
        match self.take_back_all(domains) {
            Ok(()) => cause,
            Err(also) => EnforcementError::RollBack {
                cause: Box::new(cause),
                also: Box::new(also),
            },
        }
    }

    fn take_back_all(&mut self, domains: &[&str]) -> Result<(), EnforcementError> {
        let mut failures = Vec::new();
        for domain in domains {
            let managers = Some(self.managers.as_mut());
            let (kernel, journal) = (self.kernel.as_mut(), &mut self.journal);
            match take_back(kernel, journal, managers, domain) {
                Ok(found) => failures.extend(found),
                Err(error) => failures.push(error.to_string()),
            }
        }
        if let Err(error) = self.journal.finish() {
            failures.push(error.to_string());
        }
        match failures.is_empty() {
            true => Ok(()),
            false => Err(EnforcementError::NotRestored { failures }),
        }
    }

    /// Changes the budget, period or priority of an active reservation; its CPUs stay.
    ///
    /// # Errors
    /// As [`Enforcer::apply`]; the old interface then still holds.
    pub fn change(
        &mut self,
        domain: &str,
        interface: &ResourceInterface,
    ) -> Result<Plan, EnforcementError> {
        let changed = self.change_from(domain, interface, Instant::ORIGIN)?;
        Ok(changed.plan)
    }

    /// As [`Enforcer::change`], for a change that is not to be in force before an instant. Back ends
    /// that have no manager cannot wait: call this when it has come.
    ///
    /// # Errors
    /// As [`Enforcer::change`].
    pub fn change_from(
        &mut self,
        domain: &str,
        interface: &ResourceInterface,
        not_before: Instant,
    ) -> Result<Changed, EnforcementError> {
        let held = self.journal.history().domain(domain);
        let old = held.ok_or_else(|| self.not_active(domain))?.standing();
        if old.interface.cpus != interface.cpus {
            return Err(AdmissionError::CpusChanged(domain.into()).into());
        }
        let mut request = old.clone();
        request.on_common_grid &= old.interface.period == interface.period;
        request.request.interface = interface.clone();
        let only_managers = self.is_for_managers_alone(&old, &request);
        // Who plans something else meanwhile reckons with the larger budget.
        let needs_turn = self.changes.is_none() && !(only_managers && shrinks(&old, &request));
        let _turn = match needs_turn {
            true => Some(Turn::take(&self.state_directory)?),
            false => None,
        };
        if only_managers {
            let plan = self.plan_budget(&old, &request)?;
            let in_force_at = self.change_budget(&plan, not_before)?;
            return Ok(Changed { plan, in_force_at });
        }
        let mut plans = self.plan_beside(&self.active(Some(domain))?, &[request])?;
        let Some(plan) = plans.pop() else {
            return Err(self.not_active(domain));
        };
        let (kernel, managers) = (self.kernel.as_mut(), self.managers.as_mut());
        let journal = &mut self.journal;
        let in_force_at = change_interface(kernel, journal, managers, &plan, not_before)?;
        Ok(Changed { plan, in_force_at })
    }

    /// Whether only managers carry a change out: nothing in the kernel depends on budget and period
    /// then, and looking through /proc would take longer than all else.
    fn is_for_managers_alone(&self, old: &Standing, new: &Standing) -> bool {
        let by_managers = old.backend == BackendKind::DsFreeze && new.backend == old.backend;
        by_managers && old.interface.priority == new.interface.priority
    }

    /// The plan of a change that only managers carry out.
    fn plan_budget(&self, old: &Standing, new: &Standing) -> Result<Plan, EnforcementError> {
        let held = self.journal.history().domain(&old.domain);
        let held = held.ok_or_else(|| self.not_active(&old.domain))?;
        check_request(new, &self.host)?;
        backend(new.backend).check_interface(new, &self.host)?;
        // Where there was room for more, there is room for less.
        if !shrinks(old, new) {
            let active = self.active(Some(&old.domain))?;
            admit(&active, std::slice::from_ref(new), &self.host)?;
        }
        let interface = &new.interface;
        Ok(Plan {
            request: new.request.clone(),
            changes: Vec::new(),
            managers: Vec::new(),
            mapping: vec![format!(
                "budget {} every {} -> the managers, from their next replenishment on",
                interface.budget, interface.period
            )],
            inheritance: held.inheritance.clone(),
        })
    }

    /// Tells the managers, and notes what holds now.
    fn change_budget(
        &mut self,
        plan: &Plan,
        not_before: Instant,
    ) -> Result<Option<Instant>, EnforcementError> {
        let changed = self.managers.change(&plan.request, not_before);
        let domain = &plan.request.domain;
        let in_force_at = changed.map_err(|reason| self.manager_error(domain, reason))?;
        let changed = Record::Changed {
            request: plan.request.clone(),
            inheritance: plan.inheritance.clone(),
        };
        match self.changes {
            Some(_) => self.journal.append_later(changed)?,
            None => self.journal.append(changed)?,
        }
        Ok(in_force_at)
    }

    /// Lets an active domain run whatever budget it has, for `at_most` (and no longer than
    /// [`crate::ds_freeze::LONGEST_BOOST`]); what it uses meanwhile comes from no budget. With
    /// `if_exhausted` only from when its budget is used up. Back ends other than `ds-freeze` have no boost.
    ///
    /// # Errors
    /// If there is no such domain, or its manager takes nothing up any more.
    pub fn boost(
        &mut self,
        domain: &str,
        at_most: Duration,
        if_exhausted: bool,
    ) -> Result<(), EnforcementError> {
        self.check_active(domain)?;
        let outcome = self.managers.boost(domain, at_most, if_exhausted);
        outcome.map_err(|reason| self.manager_error(domain, reason))
    }

    /// Ends a boost; nothing if there is none.
    ///
    /// # Errors
    /// As [`Enforcer::boost`]; the boost then ends by itself.
    pub fn unboost(&mut self, domain: &str) -> Result<(), EnforcementError> {
        self.check_active(domain)?;
        let outcome = self.managers.unboost(domain);
        outcome.map_err(|reason| self.manager_error(domain, reason))
    }

    fn check_active(&self, domain: &str) -> Result<(), EnforcementError> {
        let held = self.journal.history().domain(domain);
        held.map(|_| ()).ok_or_else(|| self.not_active(domain))
    }

    fn manager_error(&self, domain: &str, reason: String) -> EnforcementError {
        EnforcementError::Manager {
            domain: domain.into(),
            reason,
        }
    }

    fn not_active(&self, domain: &str) -> EnforcementError {
        let held = self.journal.history().domains.iter();
        EnforcementError::NotActive {
            domain: domain.into(),
            active: held.map(|held| held.request.domain.clone()).collect(),
        }
    }

    /// Takes one reservation back: everything is as before it.
    ///
    /// # Errors
    /// If there is none of that name, or something could not be put back (the rest was; the
    /// reservation stays listed, and reverting it again tries again).
    pub fn revert(&mut self, domain: &str) -> Result<(), EnforcementError> {
        if self.journal.history().domain(domain).is_none() {
            return Err(self.not_active(domain));
        }
        // What cannot be written now is about budgets that end.
        let _ends_anyway = self.end_changes();
        let _turn = Turn::take(&self.state_directory)?;
        self.take_back_all(&[domain])
    }

    /// Takes all reservations back, the latest first.
    ///
    /// # Errors
    /// If something could not be put back (the rest was).
    pub fn revert_all(&mut self) -> Result<(), EnforcementError> {
        let held = self.journal.history().domains.iter().rev();
        let domains: Vec<String> = held.map(|held| held.request.domain.clone()).collect();
        let _ends_anyway = self.end_changes();
        if domains.is_empty() {
            return Ok(());
        }
        let _turn = Turn::take(&self.state_directory)?;
        let domains: Vec<&str> = domains.iter().map(String::as_str).collect();
        self.take_back_all(&domains)
    }

    /// What the manager of a domain has seen, where there is one. It costs less than the whole status.
    pub fn ledger(&self, domain: &str) -> Option<LedgerSummary> {
        self.managers.ledger(domain)
    }

    /// What is enforced now.
    pub fn status(&self) -> EnforcementStatus {
        let held = self.journal.history().domains.iter();
        let domains = held.map(|held| {
            let request = &held.request;
            let threads = match request.target.single_threads() {
                Some(tids) => {
                    let alive = tids.iter().filter(|&&tid| self.kernel.started(tid).is_ok());
                    alive.count()
                }
                None => members(self.kernel.as_ref(), &held.inheritance).len(),
            };
            DomainStatus {
                domain: request.domain.clone(),
                target: request.target.clone(),
                interface: request.interface.clone(),
                backend: request.backend,
                threads,
                ledger: self.managers.ledger(&request.domain),
            }
        });
        EnforcementStatus {
            domains: domains.collect(),
        }
    }
}

/// Whether a change leaves everything but the budget, and that not larger.
fn shrinks(old: &Standing, new: &Standing) -> bool {
    let budget = new.interface.budget;
    let with_old_budget = ResourceInterface {
        budget: old.interface.budget,
        ..new.interface.clone()
    };
    budget <= old.interface.budget && with_old_budget == old.interface
}

/// The thread that a change reserves.
fn reserved_thread(change: &Change) -> Option<u32> {
    match change {
        Change::SetScheduling { tid, .. } | Change::SetAffinity { tid, .. } => Some(*tid),
        _ => None,
    }
}

impl Drop for Enforcer {
    fn drop(&mut self) {
        // Whoever wants to know calls `revert_all`; what fails stays in the journal.
        let _told_by_revert_all = self.revert_all();
    }
}
