//! Whether there is enough CPU time for what is asked, decided before anything is changed.
//!
//! Sums of bandwidths are exact fractions. Bounds, per CPU: `rt-group` runs as SCHED_FIFO, of which
//! the kernel's RT throttling leaves 95 % by default; `ds-freeze` as well, and keeps 2 % clear of it;
//! SCHED_DEADLINE shares it with the fair server, where the kernel has one; caps may fill a CPU.

mod fixed_priority;
mod fraction;
mod pending;

use std::collections::BTreeSet;

pub use fixed_priority::{FixedPriorityServer, budget_response_ns};
pub use fraction::Fraction;
pub use pending::{Holding, Pending, UNKNOWN, admit_from};
use tailbound_linux::scheduling::format_cpu_list;
use tailbound_linux::{HostCapabilities, capabilities::Feature};
use tailbound_model::{BackendKind, Cpu, Priority};
use tailbound_time::Duration;

use crate::ReservationRequest;
use crate::ds_freeze::RealTimeLimit;
use crate::error::AdmissionError;

/// The longest name of a domain: it becomes part of file names.
const LONGEST_NAME: usize = 64;

/// What SCHED_FIFO threads may use of a CPU where RT throttling sets no bound: as the kernel's
/// default, so that the host stays alive.
const FIFO_SHARE_WITHOUT_THROTTLING: (u64, u64) = (95, 100);

/// What the kernel's fair server keeps of a CPU from SCHED_DEADLINE: 50 ms a second by default.
const FAIR_SERVER_SHARE: (u64, u64) = (5, 100);

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
    let is_xen = request.backend == BackendKind::XenRtds;
    let offline = |cpu: &&Cpu| !is_xen && !host.online_cpus.contains(&cpu.0);
    if let Some(&cpu) = interface.cpus.iter().find(offline) {
        return Err(AdmissionError::CpuNotOnline {
            domain,
            cpu,
            online: format_cpu_list(host.online_cpus.iter().copied()),
        });
    }
    if interface.budget.is_zero() || interface.budget > interface.period {
        return Err(AdmissionError::BudgetOutOfRange {
            domain,
            budget: interface.budget,
            period: interface.period,
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
        // A real-time group starts its grid anew when it wakes from idling.
        let on_common_grid = request.backend == BackendKind::DsFreeze;
        Self {
            request,
            on_common_grid,
            place: None,
        }
    }

    /// Its domain, and where it is from.
    fn name(&self) -> String {
        match &self.place {
            None => self.domain.clone(),
            Some(place) => format!("{} ({place})", self.domain),
        }
    }
}

impl std::ops::Deref for Standing {
    type Target = ReservationRequest;

    fn deref(&self) -> &ReservationRequest {
        &self.request
    }
}

/// Whether the back end gives a domain its budget whatever else runs beneath it.
fn guarantees(kind: BackendKind) -> bool {
    matches!(
        kind,
        BackendKind::DsFreeze | BackendKind::Deadline | BackendKind::RtGroup
    )
}

/// Checks `requested` beside `active` on every CPU. Each request has passed [`check_request`].
///
/// # Errors
/// What is too much, and what would fit.
pub fn admit(
    active: &[Standing],
    requested: &[Standing],
    host: &HostCapabilities,
) -> Result<(), AdmissionError> {
    let mut names: BTreeSet<&str> = active.iter().map(|held| held.domain.as_str()).collect();
    for request in requested {
        if !names.insert(&request.domain) {
            return Err(duplicate(active, &request.domain));
        }
    }
    let cpus: BTreeSet<Cpu> = requested
        .iter()
        .flat_map(|request| request.interface.cpus.iter().copied())
        .collect();
    for cpu in cpus {
        let here = |request: &&Standing| request.interface.cpus.contains(&cpu);
        let mut held: Vec<&Standing> = active.iter().filter(here).collect();
        for request in requested.iter().filter(here) {
            check_mix(cpu, request, &held)?;
            check_sum(cpu, request, &held, host)?;
            held.push(request);
        }
        check_priorities(cpu, &held, host)?;
    }
    Ok(())
}

/// Which of the active reservations has the name already, or another one of the requests.
fn duplicate(active: &[Standing], domain: &str) -> AdmissionError {
    let mut active = active.iter().filter(|held| held.domain == domain);
    let domain = domain.to_owned();
    match active.find_map(|held| held.place.clone()) {
        None => AdmissionError::DuplicateDomain(domain),
        Some(place) => AdmissionError::DuplicateElsewhere { domain, place },
    }
}

/// SCHED_DEADLINE runs before SCHED_FIFO, so it would break the promises of the others.
fn check_mix(
    cpu: Cpu,
    request: &ReservationRequest,
    held: &[&Standing],
) -> Result<(), AdmissionError> {
    let is_deadline = |kind| kind == BackendKind::Deadline;
    let clash = held.iter().find(|other| {
        guarantees(request.backend)
            && guarantees(other.backend)
            && is_deadline(request.backend) != is_deadline(other.backend)
    });
    match clash {
        None => Ok(()),
        Some(other) => Err(AdmissionError::MixedBackends {
            cpu,
            domain: request.domain.clone(),
            backend: request.backend,
            other: other.name(),
            other_backend: other.backend,
        }),
    }
}

/// What the back ends of one kind may use of a CPU together.
pub fn bound(kind: BackendKind, host: &HostCapabilities) -> Fraction {
    let one = Fraction::new(1, 1);
    let share = match host.rt_share() {
        Some((budget, period)) => Fraction::new(budget, period),
        None => Fraction::new(
            FIFO_SHARE_WITHOUT_THROTTLING.0,
            FIFO_SHARE_WITHOUT_THROTTLING.1,
        ),
    };
    let share = if share > one { one } else { share };
    match kind {
        BackendKind::Deadline if host.has(Feature::FairServer) => {
            share.saturating_sub(Fraction::new(FAIR_SERVER_SHARE.0, FAIR_SERVER_SHARE.1))
        }
        BackendKind::DsFreeze => Fraction::new(real_time_limit(host).rate_per_mille(), 1_000),
        BackendKind::CfsQuota
        | BackendKind::Dedicated
        | BackendKind::None
        | BackendKind::XenRtds => one,
        _ => share,
    }
}

/// Why the back ends of one kind may use no more than their bound.
fn reason_of_bound(kind: BackendKind, host: &HostCapabilities) -> String {
    let reason = match host.rt_share() {
        Some((budget, period)) => format!("RT throttling: {budget} of {period} microseconds"),
        None => "RT throttling is off; 5 % are left to the rest of the host".to_owned(),
    };
    match kind {
        BackendKind::Deadline if host.has(Feature::FairServer) => {
            format!("{reason}, less 5 % for the fair server")
        }
        BackendKind::DsFreeze => format!("{reason}; the manager keeps 2 % clear of it"),
        BackendKind::CfsQuota
        | BackendKind::Dedicated
        | BackendKind::None
        | BackendKind::XenRtds => "a whole CPU".into(),
        _ => reason,
    }
}

fn real_time_limit(host: &HostCapabilities) -> RealTimeLimit {
    RealTimeLimit::beneath(host.throttling())
}

fn share_of(request: &ReservationRequest) -> Fraction {
    let interface = &request.interface;
    Fraction::new(interface.budget.as_nanos(), interface.period.as_nanos())
}

/// The exact sum of bandwidths against the bound. Caps do not lessen what guarantees get, so only
/// guarantees count against a guarantee; everything counts against a cap.
fn check_sum(
    cpu: Cpu,
    request: &ReservationRequest,
    held: &[&Standing],
    host: &HostCapabilities,
) -> Result<(), AdmissionError> {
    let counts = |kind: BackendKind| match request.backend {
        BackendKind::CfsQuota => guarantees(kind) || kind == BackendKind::CfsQuota,
        _ => guarantees(kind),
    };
    if !counts(request.backend) {
        return Ok(());
    }
    let counted: Vec<_> = held.iter().filter(|other| counts(other.backend)).collect();
    let sum = counted
        .iter()
        .fold(Fraction::new(0, 1), |sum, other| sum + share_of(other));
    let kinds = counted.iter().map(|other| other.backend);
    let bounds = kinds
        .filter(|&kind| guarantees(kind) == guarantees(request.backend))
        .chain([request.backend])
        .map(|kind| (bound(kind, host), kind));
    let Some((most, kind)) = bounds.min_by(|(a, _), (b, _)| a.cmp(b)) else {
        return Ok(());
    };
    let asked = share_of(request);
    if sum + asked <= most {
        return Ok(());
    }
    let holders: Vec<String> = counted
        .iter()
        .map(|other| match &other.place {
            None => format!("{} {}", other.domain, share_of(other)),
            Some(place) => format!("{} {} {place}", other.domain, share_of(other)),
        })
        .collect();
    let holders = match holders.is_empty() {
        true => "by nobody".into(),
        false => holders.join(", "),
    };
    let period = request.interface.period;
    Err(AdmissionError::TooMuch {
        cpu,
        domain: request.domain.clone(),
        asked_percent: asked.to_string(),
        held_percent: sum.to_string(),
        holders,
        bound_percent: most.to_string(),
        bound_reason: reason_of_bound(kind, host),
        fits: most.saturating_sub(sum).of(period),
        period,
    })
}

/// Every fixed-priority reservation on the CPU gets its budget in its period.
fn check_priorities(
    cpu: Cpu,
    held: &[&Standing],
    host: &HostCapabilities,
) -> Result<(), AdmissionError> {
    let kinds = [BackendKind::DsFreeze, BackendKind::RtGroup];
    let ranked = held
        .iter()
        .filter(|request| kinds.contains(&request.backend));
    let ranked: Vec<_> = ranked.collect();
    let servers: Vec<FixedPriorityServer> = ranked
        .iter()
        .map(|request| FixedPriorityServer {
            budget_ns: request.interface.budget.as_nanos(),
            period_ns: request.interface.period.as_nanos(),
            priority: request.interface.priority.0,
            on_common_grid: request.on_common_grid,
        })
        .collect();
    let limit = real_time_limit(host);
    let lengths: Vec<_> = ranked
        .iter()
        .map(|request| (request.interface.budget, request.interface.period))
        .collect();
    let one_grid = ranked.iter().all(|request| request.on_common_grid);
    let out_of_reach = limit.is_out_of_reach_of(lengths.iter().copied())
        || (one_grid && limit.is_out_of_reach_on_one_grid(&lengths));
    let paused = (!out_of_reach).then_some(&limit);
    for (index, request) in ranked.iter().enumerate() {
        let response_ns = budget_response_ns(&servers, index, paused);
        let interface = &request.interface;
        if response_ns <= interface.period.as_nanos() {
            continue;
        }
        let above = ranked.iter().enumerate().filter(|(other, above)| {
            *other != index && above.interface.priority >= interface.priority
        });
        let mut above: Vec<String> = above.map(|(_, above)| above.name()).collect();
        if paused.is_some() {
            above.push("the pauses that keep clear of real-time throttling".into());
        }
        return Err(AdmissionError::BudgetTooLate {
            cpu,
            domain: request.domain.clone(),
            above: above.join(", "),
            budget: interface.budget,
            period: interface.period,
            response: Duration::from_nanos(response_ns),
        });
    }
    Ok(())
}
