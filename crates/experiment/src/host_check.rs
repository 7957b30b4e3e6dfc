//! Whether a host can do what a description asks of it, decided before anything is started.

use std::collections::BTreeMap;

use tailbound_enforcement::admission::{Standing, admit, check_company_among, check_request};
use tailbound_enforcement::backends::backend as backend_of;
use tailbound_enforcement::binding::other_server;
use tailbound_enforcement::{AdmissionError, EnforcementError, ReservationRequest, Target};
use tailbound_linux::HostCapabilities;

use serde::Serialize;
use tailbound_analysis::interference::HostInterference;
use tailbound_analysis::resolution::{
    Deployment, HostReservations, ResolvedDomain, unenforceable, with_agents, with_fallen,
};
use tailbound_analysis::transitions::{TransitionBound, transitions};
use tailbound_assessment::protocols::{ProtocolVerdict, protocols};
use tailbound_assessment::sizing::HostFit;
use tailbound_model::{
    BackendKind, BackendOptions, BudgetScope, CpuSet, Description, ResourceInterface, Variant,
};
use tailbound_time::{Duration, nanoseconds};

use crate::ExperimentError;
use crate::host_set::{HostSet, HostView};

/// Why a host cannot do what a variant asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The host, or our rights on it, lack something; the variant itself may be sound.
    Lacking(String),
    /// The variant asks for more than there is, or for what no back end can do.
    TooMuch(String),
}

impl std::fmt::Display for Obstacle {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::Lacking(reason) | Self::TooMuch(reason)) = self;
        out.write_str(reason)
    }
}

impl Obstacle {
    /// The same, with the host that it is about.
    fn of_host(self, host: &str) -> Self {
        let about = |reason: String| format!("host \"{host}\": {reason}");
        match self {
            Self::Lacking(reason) => Self::Lacking(about(reason)),
            Self::TooMuch(reason) => Self::TooMuch(about(reason)),
        }
    }
}

impl From<AdmissionError> for Obstacle {
    fn from(error: AdmissionError) -> Self {
        Self::TooMuch(error.to_string())
    }
}

/// Why the hosts of a description cannot enforce its reservations, if so. What other reservations hold on this machine
/// at the time does not count here.
pub fn obstacle(deployment: &Deployment, hosts: &HostSet) -> Option<Obstacle> {
    obstacle_in(&Variant::as_described(), deployment, hosts)
}

/// The same in a variant. One that puts another back end in place of the described ones is a baseline, so its domains
/// may share a CPU although each is to have it to itself.
pub fn obstacle_in(
    variant: &Variant,
    deployment: &Deployment,
    hosts: &HostSet,
) -> Option<Obstacle> {
    let each = HostReservations::of_hosts(&deployment.description, &deployment.reserved);
    let mut lacking = None;
    for one in &each {
        let Some(view) = hosts.get(one.name) else {
            continue;
        };
        let obstacle = obstacle_on(variant, one, view);
        let obstacle = obstacle.map(|obstacle| match hosts.are_several() {
            true => obstacle.of_host(one.name),
            false => obstacle,
        });
        match obstacle {
            None => {}
            Some(Obstacle::TooMuch(_)) => return obstacle,
            Some(Obstacle::Lacking(_)) => lacking = lacking.or(obstacle),
        }
    }
    lacking
}

/// Why one host cannot enforce what is reserved on it, if so.
fn obstacle_on(variant: &Variant, on: &HostReservations<'_>, view: &HostView) -> Option<Obstacle> {
    if let Some(why) = other_server(&on.reserved) {
        return Some(Obstacle::TooMuch(why));
    }
    let requests = requests(&on.reserved, &HostInterference::described(on.host));
    if variant.backend.is_none()
        && let Err(error) = check_company_among(&standing(&requests))
    {
        return Some(error.into());
    }
    if let Some(why) = on.pool_refusal() {
        return Some(Obstacle::TooMuch(why));
    }
    fits(&requests, view).err()
}

fn requests(
    resolved: &BTreeMap<String, ResolvedDomain>,
    interference: &HostInterference,
) -> Vec<ReservationRequest> {
    let enforced = resolved.iter().filter(|(_, one)| one.backend.enforces());
    let requests = enforced.map(|(domain, one)| ReservationRequest {
        options: one.options,
        interference: interference.on_cpus(&one.interface.cpus),
        target: match one.is_process_group {
            true => Target::Processes(Vec::new()),
            false => Target::Threads(Vec::new()),
        },
        ..request(domain, &one.interface, one.backend)
    });
    requests.collect()
}

fn standing(requests: &[ReservationRequest]) -> Vec<Standing> {
    requests.iter().cloned().map(Standing::from_start).collect()
}

/// What is asked for is judged first, so that it is told on hosts that lack the means, too.
fn fits(requests: &[ReservationRequest], view: &HostView) -> Result<(), Obstacle> {
    let host = view.capabilities();
    for request in requests {
        check_request(request, host)?;
    }
    admit(&[], &standing(requests), host)?;
    let mut answer = Ok(());
    for request in requests {
        let backend = request.backend;
        let missing = match view.is_here() {
            true => backend_of(backend).missing_for(request, host),
            false => Vec::new(),
        };
        // What a back end would take here cannot be told without its means; what it takes anywhere can.
        let usual =
            (!missing.is_empty()).then(|| HostCapabilities::usual(host.online_cpus.clone()));
        let judged = usual.as_ref().unwrap_or(host);
        backend_of(backend).check_interface(request, judged)?;
        if !missing.is_empty() && answer.is_ok() {
            let missing = EnforcementError::Missing { backend, missing };
            answer = Err(Obstacle::Lacking(missing.to_string()));
        }
    }
    answer
}

/// Whether the hosts of a description can hold it, in every variant and every mode.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostCheck {
    /// The description's name.
    pub name: String,
    /// The budgets of every variant.
    pub reservations: Vec<CheckedReservation>,
    /// The variants that ask for more than there is.
    pub unfit: Vec<UnfitVariant>,
    /// The modes that ask for more than there is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unfit_modes: Vec<UnfitMode>,
    /// How long changes between modes take at most.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub transitions: Vec<TransitionBound>,
    /// The verdict on the protocol of mode changes, for each change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub protocols: Vec<ProtocolVerdict>,
    /// The variants for which the host, or our rights on it, lack something.
    #[serde(skip)]
    pub lacking: Vec<UnfitVariant>,
}

/// The budget of a domain in a variant.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckedReservation {
    /// The variant.
    pub variant: String,
    /// The host.
    pub host: String,
    /// The domain.
    pub domain: String,
    /// The back end.
    pub backend: BackendKind,
    /// The budget.
    #[serde(rename = "budget_ns", with = "nanoseconds")]
    pub budget: Duration,
    /// The period.
    #[serde(rename = "period_ns", with = "nanoseconds")]
    pub period: Duration,
    /// Budget / period.
    pub bandwidth: f64,
    /// Whether each of the CPUs has the budget, or all of them together.
    #[serde(skip_serializing_if = "is_of_each_cpu")]
    pub budget_scope: BudgetScope,
    /// The CPUs.
    pub cpus: CpuSet,
}

// serde passes references.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_of_each_cpu(scope: &BudgetScope) -> bool {
    *scope == BudgetScope::EachCpu
}

/// A variant that cannot be enforced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnfitVariant {
    /// The variant.
    pub variant: String,
    /// Why not.
    pub reason: String,
}

/// A mode that asks for more than there is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnfitMode {
    /// The mode.
    pub mode: String,
    /// Why it does not fit.
    pub reason: String,
}

impl UnfitMode {
    /// The mode and the reason, in words.
    pub fn objection(&self) -> String {
        format!("mode {} does not fit: {}", self.mode, self.reason)
    }
}

impl HostCheck {
    /// Resolves every variant and every mode of a description and admits each to its hosts; applies nothing.
    ///
    /// # Errors
    /// A reservation that cannot be derived.
    pub fn of(description: &Description, hosts: &HostSet) -> Result<Self, ExperimentError> {
        let unenforceable = unenforceable(description);
        let mut check = Self {
            name: description.name.clone(),
            reservations: Vec::new(),
            unfit: Vec::new(),
            unfit_modes: Vec::new(),
            transitions: Vec::new(),
            protocols: Vec::new(),
            lacking: Vec::new(),
        };
        for variant in &description.experiment.variants {
            let deployment = Deployment::of_run(description, variant)?;
            let obstacle = match &unenforceable {
                Some(reason) => Some(Obstacle::TooMuch(reason.clone())),
                None => obstacle_in(variant, &deployment, hosts),
            };
            let unfit = |reason| UnfitVariant {
                variant: variant.name.clone(),
                reason,
            };
            match obstacle {
                None => {}
                Some(Obstacle::TooMuch(reason)) => check.unfit.push(unfit(reason)),
                Some(Obstacle::Lacking(reason)) => check.lacking.push(unfit(reason)),
            }
            check
                .reservations
                .extend(checked(&variant.name, deployment));
        }
        if unenforceable.is_none() {
            check.unfit_modes = unfit_modes(description, hosts, |_| true)?;
            check.transitions = transitions(description)?;
            check.protocols = protocols(description)?;
        }
        Ok(check)
    }

    /// Everything that stands against the description, in words.
    pub fn objections(&self) -> Vec<String> {
        let variants = self.unfit.iter();
        let variants =
            variants.map(|one| format!("variant {} does not fit: {}", one.variant, one.reason));
        let modes = self.unfit_modes.iter().map(UnfitMode::objection);
        let protocols = self.protocols.iter().filter_map(ProtocolVerdict::objection);
        variants.chain(modes).chain(protocols).collect()
    }
}

/// Why the hosts cannot enforce what a run or `apply` puts into force for a variant, if so: its reservations, and in a
/// variant with modes those of every mode.
///
/// # Errors
/// A reservation that cannot be derived.
pub fn obstacle_of_run(
    description: &Description,
    variant: &Variant,
    hosts: &HostSet,
) -> Result<Option<Obstacle>, ExperimentError> {
    let deployment = Deployment::of_run(description, variant)?;
    let obstacle = obstacle_in(variant, &deployment, hosts);
    if obstacle.is_some() || !variant.has_modes() {
        return Ok(obstacle);
    }
    let unfit = unfit_modes(description, hosts, |_| true)?;
    let reasons: Vec<String> = unfit.iter().map(UnfitMode::objection).collect();
    Ok((!reasons.is_empty()).then(|| Obstacle::TooMuch(reasons.join("\n"))))
}

/// Those of the wanted modes, also with domains fallen back, that the hosts cannot hold: as described, and
/// with what agents take before all domains.
///
/// # Errors
/// A reservation that cannot be derived.
pub fn unfit_modes(
    description: &Description,
    hosts: &HostSet,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Vec<UnfitMode>, ExperimentError> {
    let all = with_fallen(description)?;
    let with_agents = with_agents(&all.description);
    let mut unfit = Vec::new();
    let modes = all.description.modes.keys();
    for mode in modes.filter(|mode| is_wanted(all.mode_of(mode))) {
        let deployment = Deployment::of(&with_agents, Some(mode), &Variant::as_described())?;
        if let Some(Obstacle::TooMuch(reason)) = obstacle(&deployment, hosts) {
            let mode = mode.clone();
            unfit.push(UnfitMode { mode, reason });
        }
    }
    Ok(unfit)
}

/// The budgets of a variant's reservations.
fn checked(variant: &str, deployment: Deployment) -> Vec<CheckedReservation> {
    let Deployment {
        description,
        reserved,
    } = deployment;
    let each = reserved.into_iter().filter_map(|(domain, resolved)| {
        let interface = resolved.enforced_interface()?;
        let host = description.host_of(description.domains.get(&domain)?)?.0;
        Some(CheckedReservation {
            variant: variant.into(),
            host: host.into(),
            domain,
            backend: resolved.backend,
            budget: interface.budget,
            period: interface.period,
            bandwidth: interface.budget.as_nanos() as f64 / interface.period.as_nanos() as f64,
            budget_scope: interface.budget_scope,
            cpus: interface.cpus,
        })
    });
    each.collect()
}

impl HostFit for HostSet {
    fn refusal(
        &self,
        host: &str,
        domain: &str,
        kind: BackendKind,
        interface: &ResourceInterface,
    ) -> Option<String> {
        let request = request(domain, interface, kind);
        let checked = backend_of(kind).check_interface(&request, self.get(host)?.capabilities());
        checked.err().map(|error| error.to_string())
    }

    fn misfit(&self, on: &HostReservations<'_>) -> Option<String> {
        match obstacle_on(&Variant::as_described(), on, self.get(on.name)?) {
            Some(Obstacle::TooMuch(reason)) => Some(reason),
            Some(Obstacle::Lacking(_)) | None => None,
        }
    }
}

/// A request for no process in particular: who gets the time does not matter for whether there is enough.
fn request(
    domain: &str,
    interface: &ResourceInterface,
    backend: BackendKind,
) -> ReservationRequest {
    ReservationRequest {
        domain: domain.into(),
        // CPUs share the budget of whole processes alone.
        target: match interface.shares_budget() {
            true => Target::Processes(Vec::new()),
            false => Target::Threads(Vec::new()),
        },
        interface: interface.clone(),
        backend,
        options: BackendOptions::default(),
        interference: HostInterference::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tailbound_linux::capabilities::Feature;
    use tailbound_model::{Cpu, Priority};

    /// Why this machine, which has no CPU but 0 and 1, cannot enforce these.
    fn obstacle(
        resolved: &BTreeMap<String, ResolvedDomain>,
        here: HostCapabilities,
    ) -> Option<Obstacle> {
        let requests = requests(resolved, &HostInterference::default());
        fits(&requests, &HostView::ThisMachine(here)).err()
    }

    fn able() -> HostCapabilities {
        HostCapabilities::usual([0, 1])
    }

    fn asked(domain: &str, budget_us: u64, cpu: u32) -> (String, ResolvedDomain) {
        let interface = ResourceInterface {
            budget: Duration::from_micros(budget_us),
            period: Duration::from_millis(10),
            priority: Priority(90),
            cpus: [Cpu(cpu)].into(),
            budget_scope: BudgetScope::EachCpu,
            windows: Vec::new(),
            slack: Vec::new(),
        };
        let backend = BackendKind::default();
        let server_kind = None;
        let one = ResolvedDomain {
            backend,
            interface,
            vcpus: 1,
            is_process_group: true,
            server_kind,
            options: BackendOptions::default(),
        };
        (domain.into(), one)
    }

    #[test]
    fn processes_that_are_stopped_as_a_group_have_one_cpu() {
        let on_both = |is_process_group| {
            let (domain, mut one) = asked("a", 6_000, 0);
            one.interface.cpus.insert(Cpu(1));
            one.is_process_group = is_process_group;
            obstacle(&[(domain, one)].into(), able())
        };
        let Some(Obstacle::TooMuch(why)) = on_both(true) else {
            panic!("it is accepted");
        };
        assert!(why.contains("CPUs 0-1"), "{why}");
        assert_eq!(on_both(false), None, "virtual CPUs are stopped one by one");
    }

    #[test]
    fn what_fits_has_no_obstacle() {
        let resolved = [asked("a", 6_000, 0), asked("b", 9_000, 1)].into();
        assert_eq!(obstacle(&resolved, able()), None);
    }

    #[test]
    fn more_than_a_cpu_has_is_too_much() {
        let alone = [asked("a", 9_900, 0)].into();
        let refusal = obstacle(&alone, able());
        assert!(
            matches!(&refusal, Some(Obstacle::TooMuch(why)) if why.contains("93%")),
            "{refusal:?}"
        );
        let together = [asked("a", 5_000, 0), asked("b", 5_000, 0)].into();
        let refusal = obstacle(&together, able());
        assert!(
            matches!(&refusal, Some(Obstacle::TooMuch(why)) if why.contains("\"b\"")),
            "{refusal:?}"
        );
    }

    #[test]
    fn a_cpu_that_is_not_there_is_too_much() {
        let refusal = obstacle(&[asked("a", 1_000, 7)].into(), able());
        assert!(
            matches!(&refusal, Some(Obstacle::TooMuch(why)) if why.contains("CPU 7 is not online")),
            "{refusal:?}"
        );
    }

    fn unable() -> HostCapabilities {
        able().without(&Feature::ALL)
    }

    /// A host that lacks the means is asked for nothing that no host could do.
    #[test]
    fn what_no_host_takes_is_too_much_without_the_means_too() {
        let obstacle = obstacle(&[asked("a", 1, 0)].into(), unable());
        assert!(
            matches!(&obstacle, Some(Obstacle::TooMuch(why)) if why.contains("its manager")),
            "{obstacle:?}"
        );
    }

    #[test]
    fn a_host_without_the_means_lacks_them() {
        let refusal = obstacle(&[asked("a", 1_000, 0)].into(), unable());
        assert!(
            matches!(&refusal, Some(Obstacle::Lacking(why)) if why.contains("SCHED_FIFO")),
            "{refusal:?}"
        );
    }
}
