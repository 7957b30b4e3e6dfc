//! Whether there is enough CPU time for what is asked, decided before anything is changed: what the host
//! allows and what holds on it, for the one answer of [`tailbound_analysis::admission`].

mod replacement;

pub use replacement::{Holding, Pending, UNKNOWN, admit_from};
use tailbound_analysis::admission::{self, HostLimits, RealTimeLimit, Reserved};
use tailbound_analysis::interference::HostInterference;
use tailbound_linux::host_facts::Throttling;
use tailbound_linux::scheduling::format_cpu_list;
use tailbound_linux::{HostCapabilities, capabilities::Feature};
use tailbound_model::{Cpu, Precedence, Priority};

use crate::ReservationRequest;
use crate::error::AdmissionError;

/// The longest name of a domain: it becomes part of file names.
const LONGEST_NAME: usize = 64;

/// Checks what can be told from a request alone.
///
/// # Errors
/// What is wrong, and what would be right.
pub fn check_request(
    request: &ReservationRequest,
    host: &HostCapabilities,
) -> Result<(), AdmissionError> {
    let domain = request.domain.clone();
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let good_length = (1..=LONGEST_NAME).contains(&domain.len());
    if !good_length || domain.starts_with('.') || !domain.chars().all(allowed) {
        return Err(AdmissionError::BadName(domain));
    }
    let interface = &request.interface;
    if interface.cpus.is_empty() {
        return Err(AdmissionError::NoCpu(domain));
    }
    // Xen's CPUs have numbers of their own, of which its control domain knows nothing.
    let is_xen = request.backend.precedence() == Precedence::Hypervisor;
    let offline = |cpu: &&Cpu| !is_xen && !host.online_cpus.contains(&cpu.0);
    if let Some(&cpu) = interface.cpus.iter().find(offline) {
        return Err(AdmissionError::CpuNotOnline {
            domain,
            cpu,
            online: format_cpu_list(host.online_cpus.iter().copied()),
        });
    }
    let shares_budget = interface.shares_budget() && request.backend.has_budget();
    if shares_budget && !request.backend.traits().cpus_share_budget {
        return Err(AdmissionError::SharedBudget {
            domain,
            backend: request.backend,
        });
    }
    if interface.budget.is_zero() || interface.budget > interface.longest_budget() {
        return Err(AdmissionError::BudgetOutOfRange {
            domain,
            budget: interface.budget,
            longest: interface.longest_budget(),
        });
    }
    if !(Priority::LOWEST..=Priority::HIGHEST).contains(&interface.priority) {
        return Err(AdmissionError::PriorityOutOfRange {
            domain,
            priority: interface.priority.0,
        });
    }
    Ok(())
}

/// A reservation as admission counts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The reservation.
    pub request: ReservationRequest,
    /// Whether its replenishments lie at multiples of its period; no longer so once the period of
    /// an active reservation was changed.
    pub on_common_grid: bool,
    /// Where it is from, in words, if that is another state directory.
    pub place: Option<String>,
}

impl Standing {
    /// A reservation that has held its period from its start.
    pub fn from_start(request: ReservationRequest) -> Self {
        let on_common_grid = request.backend.traits().fixed_grid;
        Self {
            request,
            on_common_grid,
            place: None,
        }
    }

    /// As admission sees it. What back ends enforce at fixed priorities are deferrable servers.
    fn reserved(&self) -> Reserved<'_> {
        Reserved {
            domain: &self.request.domain,
            place: self.place.as_deref(),
            backend: self.request.backend,
            interface: &self.request.interface,
            server: self.request.backend.server_kind(),
            on_common_grid: self.on_common_grid,
        }
    }
}

impl std::ops::Deref for Standing {
    type Target = ReservationRequest;

    fn deref(&self) -> &ReservationRequest {
        &self.request
    }
}

/// Checks `requested` beside `active` on every CPU, with the interference that any of them came with. Each request has
/// passed [`check_request`].
///
/// # Errors
/// What is too much, and what would fit.
pub fn admit(
    active: &[Standing],
    requested: &[Standing],
    host: &HostCapabilities,
) -> Result<(), AdmissionError> {
    let mut limits = limits_of(host);
    for one in active.iter().chain(requested) {
        limits.interference.include(&one.request.interference);
    }
    let active: Vec<Reserved<'_>> = active.iter().map(Standing::reserved).collect();
    let requested: Vec<Reserved<'_>> = requested.iter().map(Standing::reserved).collect();
    admission::admit(&active, &requested, &limits).map_err(AdmissionError::from)
}

/// Checks that no request comes to a CPU with a reservation where one of the two is to have it to itself. Requests are
/// not judged against each other: [`check_company_among`] refuses a description with such a pair, and the variant of an experiment
/// that gives all its domains whole CPUs puts them on the CPUs of their reservations.
///
/// # Errors
/// The CPU and the two domains.
pub fn check_company(active: &[Holding], requested: &[Standing]) -> Result<(), AdmissionError> {
    let active: Vec<Reserved<'_>> = active.iter().map(|one| one.standing.reserved()).collect();
    for one in requested.iter().map(Standing::reserved) {
        let mut cpus = one.interface.cpus.iter();
        if let Some(refusal) = cpus.find_map(|cpu| admission::company(*cpu, &one, &active)) {
            return Err(refusal.into());
        }
    }
    Ok(())
}

/// Checks that no two of the reservations that a description has at one time are on one CPU that one of the two is to
/// have to itself.
///
/// # Errors
/// The CPU and the two domains.
pub fn check_company_among(described: &[Standing]) -> Result<(), AdmissionError> {
    let described: Vec<Reserved<'_>> = described.iter().map(Standing::reserved).collect();
    match admission::company_among(&described) {
        None => Ok(()),
        Some(refusal) => Err(refusal.into()),
    }
}

/// What this host lets reservations have of a CPU.
pub fn limits_of(host: &HostCapabilities) -> HostLimits {
    HostLimits {
        real_time: real_time_limit(host.throttling()),
        throttling_us: host.rt_share(),
        has_fair_server: host.has(Feature::FairServer),
        groups_us: host.rt_groups_us,
        interference: HostInterference::default(),
    }
}

/// What managers keep to beneath the kernel's throttling; `None` stands for its default.
pub fn real_time_limit(throttling: Option<Throttling>) -> RealTimeLimit {
    throttling.map_or_else(RealTimeLimit::default, |throttling| {
        RealTimeLimit::beneath(throttling.runtime_us, throttling.period_us)
    })
}
