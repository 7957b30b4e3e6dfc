//! The one that holds reservations: admits, plans, applies, reverts.

mod changes;
mod members;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tailbound_analysis::interference::HostInterference;
use tailbound_linux::HostCapabilities;
use tailbound_model::{BackendKind, BackendOptions, Precedence, ResourceInterface};
use tailbound_time::{Duration, Instant};

pub use self::changes::{Changed, ReservationChange};
pub use self::members::{Probe, Sight};
use crate::admission::{Holding, Standing, admit_from, check_company, check_request};
use crate::audit::{AuditSummary, AuditedDomain, Band};
use crate::backends::{admit_vcpus, backend};
use crate::confinement::with_cpuset;
use crate::error::{EnforcementError, PlanError};
use crate::executor::{carry_out, members, take_back};
use crate::interrupts::{
    awaits_threads, has_no_threads, plan_without_backend, with_device, with_threads,
};
use crate::journal::{self, Disk, HeldDomain, Journal, PATIENCE, Turn, room_for};
use crate::kernel::{KernelState, KernelView};
use crate::linux_kernel::LinuxKernel;
use crate::managers::{FreezeManagers, LedgerSummary, Managers};
use crate::packet_table::{TopicTables, plan_of_topics};
use crate::recovery::{Recovery, held_by_others, recover_in_turn};
use crate::registry::{HeldElsewhere, HostRegistry};
use crate::virtual_machine::with_emulator;
use crate::{Change, NamedCgroup, Plan, ReservationRequest, Site, Target};

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
    /// What is set that only some back ends know.
    #[serde(default, skip_serializing_if = "BackendOptions::is_empty")]
    pub options: BackendOptions,
    /// Interference on its CPUs that it was admitted with.
    #[serde(default, skip_serializing_if = "HostInterference::is_empty")]
    pub interference: HostInterference,
    /// Threads of the domain that are alive now.
    pub threads: usize,
    /// What its manager has seen, where there is one.
    pub ledger: Option<LedgerSummary>,
    /// What audits of its members found, where there are some.
    #[serde(default)]
    pub audit: Option<AuditSummary>,
}

impl DomainStatus {
    /// The request that the domain's reservation meets.
    pub fn request(&self) -> ReservationRequest {
        ReservationRequest {
            domain: self.domain.clone(),
            target: self.target.clone(),
            interface: self.interface.clone(),
            backend: self.backend,
            options: self.options,
            interference: self.interference.clone(),
        }
    }
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
    /// Where the journals of all enforcers of this host are entered.
    registry: Option<HostRegistry>,
    /// While several changes are made in one turn: what other enforcers hold.
    changes: Option<(Turn, Vec<HeldElsewhere>)>,
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
        let enforcer = Self::with_parts(host, Box::new(kernel), managers, state_directory)?;
        Ok(enforcer.with_registry(HostRegistry::of_this_host()))
    }

    /// An enforcer over another kernel and other managers, for tests. It knows of other enforcers over
    /// the same directory only, unless it gets a registry.
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
            registry: None,
            changes: None,
        })
    }

    /// The same enforcer, whose reservations are admitted together with all that are in `registry`.
    #[must_use]
    pub fn with_registry(mut self, registry: HostRegistry) -> Self {
        self.registry = Some(registry);
        self
    }

    /// The same with its journal on another file system, for tests.
    #[must_use]
    pub fn with_disk(mut self, disk: Box<dyn Disk>) -> Self {
        self.journal.set_disk(disk);
        self
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
    /// The reservations of other enforcers count, too, whatever their state directory.
    ///
    /// # Errors
    /// If the host lacks something, or there is too little CPU time, or the targets do not suit.
    pub fn plan(&self, requests: &[ReservationRequest]) -> Result<Vec<Plan>, EnforcementError> {
        let from = self.kernel.now();
        self.plan_from_start(requests, from).map(|(plans, _)| plans)
    }

    /// The plans of new reservations, and from when on there is room for them.
    fn plan_from_start(
        &self,
        requests: &[ReservationRequest],
        from: Instant,
    ) -> Result<(Vec<Plan>, Instant), EnforcementError> {
        let view = self.kernel.as_ref();
        let requested = requests.iter().map(|request| named_now(request, view));
        let requested: Vec<Standing> = requested
            .map(|request| request.map(Standing::from_start))
            .collect::<Result<_, _>>()?;
        let active = self.active(None)?;
        // A change leaves a reservation on its CPUs, with the company that it was admitted with.
        check_company(&active, &requested)?;
        self.plan_beside(&active, &requested, from)
    }

    /// The reservations that count against new ones, `without` one of ours.
    fn active(&self, without: Option<&str>) -> Result<Vec<Holding>, EnforcementError> {
        let own = self.journal.history().domains.iter();
        let own = own.filter(|held| Some(held.request.domain.as_str()) != without);
        let mut active: Vec<Holding> = own.map(HeldDomain::holding).collect();
        active.extend(self.others()?.iter().map(HeldElsewhere::holding));
        Ok(active)
    }

    /// What other enforcers hold, looked up once for changes that are made in one turn.
    fn others(&self) -> Result<Cow<'_, [HeldElsewhere]>, EnforcementError> {
        match &self.changes {
            Some((_, others)) => Ok(Cow::Borrowed(others)),
            None => self.held_by_others().map(Cow::Owned),
        }
    }

    fn held_by_others(&self) -> Result<Vec<HeldElsewhere>, EnforcementError> {
        let (own, registry) = (self.journal.path(), self.registry.as_ref());
        held_by_others(&self.state_directory, own, registry, self.kernel.as_ref())
    }

    /// The turn that we have, or the next one; what is left to be written goes with the next line.
    fn turn(&mut self) -> Result<Turn, EnforcementError> {
        match self.changes.take() {
            Some((turn, _)) => Ok(turn),
            None => self.take_turn(PATIENCE),
        }
    }

    fn take_turn(&self, patience: Duration) -> Result<Turn, EnforcementError> {
        Turn::take(self.registry.as_ref(), &self.state_directory, patience)
    }

    /// As [`Enforcer::turn`], to take something back.
    fn turn_to_undo(&mut self) -> Result<Turn, EnforcementError> {
        match self.changes.take() {
            Some((turn, _)) => Ok(turn),
            None => Turn::take_to_undo(self.registry.as_ref(), &self.state_directory),
        }
    }

    /// Has our journal counted by every other enforcer of this host, before the first change.
    fn enter_registry(&self) -> Result<(), EnforcementError> {
        let Some(registry) = &self.registry else {
            return Ok(());
        };
        registry.refuse_strangers()?;
        registry.clean(self.kernel.as_ref());
        registry.enter(self.journal.owner(), self.journal.path())
    }

    fn plan_beside(
        &self,
        active: &[Holding],
        requests: &[Standing],
        from: Instant,
    ) -> Result<(Vec<Plan>, Instant), EnforcementError> {
        for request in requests {
            check_request(request, &self.host)?;
            let chosen = backend(request.backend);
            let missing = chosen.missing_for(request, &self.host);
            if !missing.is_empty() {
                let backend = request.backend;
                return Err(EnforcementError::Missing { backend, missing });
            }
            chosen.check_interface(request, &self.host)?;
        }
        let has_room_from = admit_from(active, requests, &self.host, from)?;
        let requests = requests.iter().map(|standing| &standing.request);
        let plans = requests.map(|request| self.plan_for(request));
        let plans: Vec<Plan> = plans.collect::<Result<_, _>>()?;
        self.check_disjoint(&plans)?;
        let held = &self.journal.history().domains;
        admit_vcpus(&plans, held, self.kernel.as_ref())?;
        Ok((plans, has_room_from))
    }

    /// What a request that has been admitted changes.
    fn plan_for(&self, request: &ReservationRequest) -> Result<Plan, EnforcementError> {
        let view = self.kernel.as_ref();
        let host = &self.host;
        if let Target::Topics(topics) = &request.target {
            return Ok(plan_of_topics(request, topics, view)?);
        }
        let plan = match has_no_threads(request) {
            true => plan_without_backend(request),
            false => backend(request.backend).plan(request, Site { host, view })?,
        };
        let plan = with_emulator(plan, host, view);
        Ok(with_device(with_cpuset(plan, host, view), view)?)
    }

    /// No thread belongs to two reservations.
    fn check_disjoint(&self, plans: &[Plan]) -> Result<(), EnforcementError> {
        let planned = plans.iter().map(|plan| plan.request.domain.as_str());
        let planned: Vec<&str> = planned.collect();
        let own = self.journal.history().domains.iter();
        // One whose interface is being changed is planned anew.
        let own = own.filter(|held| !planned.contains(&held.request.domain.as_str()));
        let others = self.others()?;
        let mut owners: BTreeMap<u32, (&str, &str)> = BTreeMap::new();
        let own = own.map(|held| (held, ""));
        let others = others.iter();
        let others = others.map(|one| (&one.held, one.place.as_deref().unwrap_or_default()));
        for (held, place) in own.chain(others) {
            let changes = held.entries.iter().map(|entry| &entry.change);
            for tid in changes.filter_map(reserved_thread) {
                owners.insert(tid, (&held.request.domain, place));
            }
        }
        for plan in plans {
            for tid in plan.changes.iter().filter_map(reserved_thread) {
                let domain = plan.request.domain.as_str();
                match owners.insert(tid, (domain, "")) {
                    Some((other, place)) if other != domain => {
                        return Err(PlanError::ReservedAlready {
                            domain: domain.into(),
                            tid,
                            other: other.into(),
                            place: place.into(),
                        }
                        .into());
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Carries out plans for `requests`: all of them or none. Takes back what dead enforcers left
    /// behind first. If there is room only once a change that was accepted holds, it waits for that.
    ///
    /// # Errors
    /// As [`Enforcer::plan`], and if the kernel refuses a change.
    pub fn apply(
        &mut self,
        requests: &[ReservationRequest],
    ) -> Result<Vec<Plan>, EnforcementError> {
        let _turn = self.turn()?;
        self.journal.write_later()?;
        let recovery = recover_in_turn(&self.state_directory, self.kernel.as_mut())?;
        self.recovery.reverted.extend(recovery.reverted);
        self.recovery.failures.extend(recovery.failures);
        let (plans, has_room_from) = self.plan_from_start(requests, self.kernel.now())?;
        let prepared = self
            .enter_registry()
            .and_then(|()| self.journal.make_room(room_for(&plans)));
        if let Err(cause) = prepared {
            return Err(self.roll_back(&[], cause));
        }
        self.kernel.wait_until(has_room_from);
        for (index, plan) in plans.iter().enumerate() {
            if let Err(cause) = self.apply_one(plan) {
                let begun = plans.iter().take(index + 1).rev();
                let begun: Vec<&str> = begun.map(|plan| plan.request.domain.as_str()).collect();
                return Err(self.roll_back(&begun, cause));
            }
        }
        debug_assert!(
            plans
                .iter()
                .all(|plan| self.check_active(&plan.request.domain).is_ok()),
            "what was carried out stands in the journal"
        );
        Ok(plans)
    }

    fn apply_one(&mut self, plan: &Plan) -> Result<(), EnforcementError> {
        carry_out(self.kernel.as_mut(), &mut self.journal, plan)?;
        let of_threads = self.plan_of_threads(plan)?;
        let plan = of_threads.as_ref().unwrap_or(plan);
        self.managers
            .start(plan)
            .and_then(|()| self.audit(plan))
            .map_err(|reason| EnforcementError::Manager {
                domain: plan.request.domain.clone(),
                reason,
            })
    }

    /// Plans and makes the changes of the threads that a device got with a plan that was carried out; `None` where it was to
    /// get none.
    fn plan_of_threads(&mut self, plan: &Plan) -> Result<Option<Plan>, EnforcementError> {
        if !awaits_threads(&plan.request) {
            return Ok(None);
        }
        let request = with_threads(&plan.request, self.kernel.as_ref())?;
        let Target::Interrupts(interrupts) = &request.target else {
            return Ok(None);
        };
        if interrupts.threads.is_empty() {
            return Err(PlanError::NoInterruptThread {
                domain: request.domain.clone(),
                source_name: interrupts.source.clone(),
            }
            .into());
        }
        let plan = self.plan_for(&request)?;
        let plans = std::slice::from_ref(&plan);
        self.check_disjoint(plans)?;
        self.journal.make_room(room_for(plans))?;
        carry_out(self.kernel.as_mut(), &mut self.journal, &plan)?;
        Ok(Some(plan))
    }

    /// Has the members of a domain audited as its plan says.
    fn audit(&mut self, plan: &Plan) -> Result<(), String> {
        let held = self.journal.history().domain(&plan.request.domain);
        let path = self.journal.path();
        if let Some(audited) = held.and_then(|held| AuditedDomain::of(plan, held, path)) {
            self.managers.audit(audited)?;
        }
        self.set_bands();
        Ok(())
    }

    /// Gives each domain the priorities down to those of the next lower one on its CPUs. Where the reservations of
    /// others cannot be read the bands stay as they are, so that no thread falls below a domain that is not known.
    fn set_bands(&self) {
        let (Some(auditor), Ok(active)) = (self.managers.auditor(), self.active(None)) else {
            return;
        };
        for held in &self.journal.history().domains {
            let (domain, interface) = (&held.request.domain, &held.request.interface);
            let others = active.iter().map(|one| &one.standing.request);
            let others = others.filter(|other| {
                other.domain != *domain
                    && other.backend.precedence() == Precedence::Priority
                    && !other.interface.cpus.is_disjoint(&interface.cpus)
            });
            let others = others.map(|other| other.interface.priority.0);
            auditor.set_band(domain, Band::below(interface.priority.0, others));
        }
    }

    fn roll_back(&mut self, domains: &[&str], cause: EnforcementError) -> EnforcementError {
        match self.take_back_all(domains) {
            Ok(()) => cause,
            Err(also) => cause.and_then(also),
        }
    }

    fn take_back_all(&mut self, domains: &[&str]) -> Result<(), EnforcementError> {
        let mut failures = Vec::new();
        for domain in domains {
            failures.extend(self.take_back_one(domain));
        }
        match self.journal.finish() {
            Err(error) => failures.push(error.to_string()),
            Ok(()) if self.journal.history().domains.is_empty() => {
                if let Some(registry) = &self.registry {
                    registry.leave(self.journal.path());
                }
            }
            Ok(()) => {}
        }
        self.set_bands();
        debug_assert!(
            !failures.is_empty()
                || domains
                    .iter()
                    .all(|domain| self.check_active(domain).is_err()),
            "what was taken back does not stand in the journal"
        );
        all_restored(failures)
    }

    /// Takes back what stands of one reservation; what could not be put back.
    fn take_back_one(&mut self, domain: &str) -> Vec<String> {
        // First, or it would adopt again what is being given back.
        if let Some(auditor) = self.managers.auditor() {
            auditor.end(domain);
        }
        let managers = Some(self.managers.as_mut());
        let (kernel, journal) = (self.kernel.as_mut(), &mut self.journal);
        take_back(kernel, journal, managers, domain)
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
        let _turn = self.turn_to_undo()?;
        self.take_back_all(&[domain])
    }

    /// Takes all reservations back, the latest first. A journal that could not be removed before goes too.
    ///
    /// # Errors
    /// If something could not be put back (the rest was).
    pub fn revert_all(&mut self) -> Result<(), EnforcementError> {
        let held = self.journal.history().domains.iter().rev();
        let domains: Vec<String> = held.map(|held| held.request.domain.clone()).collect();
        if domains.is_empty() && !self.journal.path().exists() {
            return Ok(());
        }
        let _turn = self.turn_to_undo()?;
        let domains: Vec<&str> = domains.iter().map(String::as_str).collect();
        self.take_back_all(&domains)
    }

    /// What the manager of a domain has seen, where there is one. It costs less than the whole status.
    pub fn ledger(&self, domain: &str) -> Option<LedgerSummary> {
        self.managers.ledger(domain)
    }

    /// The tables of nftables that are in force.
    pub fn topic_tables(&self) -> Vec<TopicTables> {
        let held = self.journal.history().domains.iter();
        held.filter_map(TopicTables::of).collect()
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
                options: request.options,
                interference: request.interference.clone(),
                threads,
                ledger: self.managers.ledger(&request.domain),
                audit: self
                    .managers
                    .auditor()
                    .and_then(|auditor| auditor.summary(&request.domain)),
            }
        });
        EnforcementStatus {
            domains: domains.collect(),
        }
    }
}

fn all_restored(failures: Vec<String>) -> Result<(), EnforcementError> {
    match failures.is_empty() {
        true => Ok(()),
        false => Err(EnforcementError::NotRestored { failures }),
    }
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

/// The same request, for the cgroup that belongs to its name now, or the threads that work for its interrupts.
fn named_now(
    request: &ReservationRequest,
    view: &dyn KernelView,
) -> Result<ReservationRequest, PlanError> {
    let mut request = with_threads(request, view)?;
    if let Target::NamedCgroup(named) = &request.target {
        let now = NamedCgroup::of(named.name.clone(), view);
        let now = now.map_err(|source| PlanError::Name {
            domain: request.domain.clone(),
            source,
        })?;
        request.target = Target::NamedCgroup(now);
    }
    Ok(request)
}
