//! `deadline`: SCHED_DEADLINE, the kernel's hard constant-bandwidth server, for one thread per CPU.
//!
//! The kernel has no SCHED_DEADLINE budget for groups, wants a thread's affinity to span the whole
//! root domain, and enforces budgets at ticks unless HRTICK_DL is on. So each CPU becomes a root
//! domain of its own (an exclusive cgroup v1 cpuset), and budgets below three ticks are refused.

use std::path::Path;

use tailbound_linux::scheduling::RESET_ON_FORK;
use tailbound_linux::{HostCapabilities, capabilities::Feature};
use tailbound_model::{BackendKind, Cpu, CpuSet};

use super::target::{not_supported, reading};
use super::{TargetMembers, check_range, check_range_from, lacking};
use crate::change::cpu_list;
use crate::error::{AdmissionError, EnforcementError, PlanError};
use crate::kernel::KernelView;
use crate::{
    Backend, Change, Inheritance, MissingRequirement, Plan, ReservationRequest, SchedulingSetting,
    Site,
};

/// Ticks that a budget spans at least where it is only enforced at ticks: a burst ends up to one
/// tick late, and three keep that below a third.
const TICKS_PER_BUDGET: u64 = 3;

/// The start of the names of the cpusets that are root domains of one CPU.
const PARTITION_PREFIX: &str = "tailbound-cpu";
/// The cpuset of all other CPUs, so that they are balanced as before.
const REST: &str = "tailbound-rest";

/// Whether a cpuset is one of the root domains that this back end makes.
pub(crate) fn is_partition(cpuset: &Path) -> bool {
    let name = cpuset.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name == REST || name.starts_with(PARTITION_PREFIX))
}

/// SCHED_DEADLINE, one thread per CPU.
pub struct Deadline;

impl Backend for Deadline {
    fn kind(&self) -> BackendKind {
        BackendKind::Deadline
    }

    fn missing(&self, host: &HostCapabilities) -> Vec<MissingRequirement> {
        let policy = lacking(host, Feature::SchedDeadline, "SCHED_DEADLINE");
        let single = host.online_cpus.len() == 1;
        let cpuset = match single {
            true => None,
            false => lacking(
                host,
                Feature::CpusetV1,
                "a cgroup v1 cpuset hierarchy, to make a root domain of each reserved CPU (the \
                 kernel refuses SCHED_DEADLINE to threads pinned to a part of one)",
            ),
        };
        policy.into_iter().chain(cpuset).collect()
    }

    fn check_interface(
        &self,
        request: &ReservationRequest,
        host: &HostCapabilities,
    ) -> Result<(), AdmissionError> {
        check_resolution(request, host)
    }

    fn plan(&self, request: &ReservationRequest, site: Site<'_>) -> Result<Plan, EnforcementError> {
        let Site { host, view } = site;
        let members = TargetMembers::of(request, host.cgroup_v2_root.as_deref(), view)?;
        let threads = reserved_threads(request, &members)?;
        let interface = &request.interface;
        let setting = SchedulingSetting::Deadline {
            runtime_ns: interface.budget.as_nanos(),
            deadline_ns: interface.period.as_nanos(),
            period_ns: interface.period.as_nanos(),
            flags: RESET_ON_FORK,
        };
        let mut changes = Vec::new();
        let mut mapping = vec![format!(
            "budget {} every {} -> sched_runtime {}, sched_deadline = sched_period {}",
            interface.budget,
            interface.period,
            interface.budget.as_nanos(),
            interface.period.as_nanos()
        )];
        if host.online_cpus.len() > 1 {
            let cpuset = host.cgroup_v1_roots.get("cpuset").ok_or_else(|| {
                not_supported(
                    request,
                    "finds no cgroup v1 cpuset, and the kernel wants a SCHED_DEADLINE thread's \
                     affinity to span its whole root domain",
                    "use ds-freeze",
                )
            })?;
            partition(request, host, cpuset, view, &mut changes)?;
            for (&tid, &cpu) in threads.iter().zip(&interface.cpus) {
                enter(cpuset, tid, cpu, &mut changes);
            }
            mapping.push(format!(
                "CPUs {} -> exclusive cpusets, root domains of their own; meanwhile nothing is \
                 balanced between them and the other CPUs",
                cpu_list(&interface.cpus)
            ));
        }
        let policies = threads.iter();
        changes.extend(policies.map(|&tid| Change::SetScheduling { tid, setting }));
        let others = members.threads.len() - threads.len();
        if others > 0 {
            mapping.push(format!(
                "only the main thread is reserved; {others} other threads stay as they are"
            ));
        }
        Ok(Plan {
            request: request.clone(),
            changes,
            managers: Vec::new(),
            mapping,
            inheritance: Inheritance {
                // Children come out of SCHED_DEADLINE by RESET_ON_FORK, into the same cpuset.
                pids: members.heirs(request),
                ..Inheritance::default()
            },
        })
    }
}

/// Refuses lengths that the kernel takes no budgets of SCHED_DEADLINE for, or enforces only badly.
pub(super) fn check_resolution(
    request: &ReservationRequest,
    host: &HostCapabilities,
) -> Result<(), AdmissionError> {
    check_range(request, "the kernel takes no other")?;
    if host.has(Feature::HrtickDl) {
        return Ok(());
    }
    check_range_from(
        request,
        host.tick() * TICKS_PER_BUDGET,
        "without the scheduler feature HRTICK_DL the kernel ends a budget at a tick, \
         and three ticks are the least that comes out near right; switch it on (see \
         tailbound doctor), lengthen budget and period, or use ds-freeze",
    )
}

/// The threads that get a budget: one per CPU.
fn reserved_threads(
    request: &ReservationRequest,
    members: &TargetMembers,
) -> Result<Vec<u32>, PlanError> {
    let threads = match request.target.single_threads() {
        Some(_) => members.threads.clone(),
        // Of a process, the thread that it started with.
        None => members.processes.clone(),
    };
    let cpus = request.interface.cpus.len();
    if threads.len() == cpus {
        return Ok(threads);
    }
    Err(not_supported(
        request,
        format!(
            "gives every thread a budget of its own, so it takes one thread (or process, for its \
             main thread) per CPU: {} for {cpus} CPUs",
            threads.len()
        ),
        "name one thread per CPU, or use ds-freeze, which has budgets for groups",
    ))
}

/// Makes a root domain of each reserved CPU.
fn partition(
    request: &ReservationRequest,
    host: &HostCapabilities,
    cpuset: &Path,
    view: &dyn KernelView,
    changes: &mut Vec<Change>,
) -> Result<(), PlanError> {
    let mut taken: CpuSet = request.interface.cpus.clone();
    let listed = view
        .cgroups_below(cpuset)
        .map_err(|error| reading(request, cpuset, &error))?;
    for below in listed {
        let name = below
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or("");
        let number = name
            .strip_prefix(PARTITION_PREFIX)
            .and_then(|n| n.parse().ok());
        if let Some(number) = number {
            taken.insert(Cpu(number));
        } else if name != REST {
            check_overlap(request, &below, view)?;
        }
    }
    let nodes = cpuset.join("cpuset.mems");
    let nodes = view
        .read_file(&nodes)
        .map_err(|error| reading(request, &nodes, &error))?;
    let rest = host.online_cpus.iter().copied().map(Cpu);
    let rest: CpuSet = rest.filter(|cpu| !taken.contains(cpu)).collect();
    if !rest.is_empty() {
        let directory = cpuset.join(REST);
        changes.push(Change::mkdir(&directory));
        changes.push(Change::write(&directory, "cpuset.cpus", cpu_list(&rest)));
        changes.push(Change::write(&directory, "cpuset.mems", nodes.as_str()));
    }
    for cpu in &request.interface.cpus {
        let directory = cpuset.join(format!("{PARTITION_PREFIX}{cpu}"));
        changes.extend([
            Change::mkdir(&directory),
            Change::write(&directory, "cpuset.cpus", cpu.to_string()),
            Change::write(&directory, "cpuset.mems", nodes.as_str()),
            Change::write(&directory, "cpuset.cpu_exclusive", "1"),
        ]);
    }
    changes.push(Change::write(cpuset, "cpuset.sched_load_balance", "0"));
    Ok(())
}

/// Refuses if a cpuset that is not ours holds a reserved CPU: it cannot be exclusive then.
fn check_overlap(
    request: &ReservationRequest,
    other: &Path,
    view: &dyn KernelView,
) -> Result<(), PlanError> {
    let listed = view
        .read_file(&other.join("cpuset.cpus"))
        .unwrap_or_default();
    let theirs = tailbound_linux::scheduling::parse_cpu_list(&listed).unwrap_or_default();
    let shared = request
        .interface
        .cpus
        .iter()
        .any(|cpu| theirs.contains(&cpu.0));
    match shared {
        false => Ok(()),
        true => Err(not_supported(
            request,
            format!(
                "needs its CPUs in exclusive cpusets, but {} has some of them (CPUs {listed})",
                other.display()
            ),
            "take those CPUs out of it, or use ds-freeze",
        )),
    }
}

/// Puts a thread into its CPU's root domain. Its affinity is noted first, for leaving the cpuset
/// widens it to all CPUs.
fn enter(cpuset: &Path, tid: u32, cpu: Cpu, changes: &mut Vec<Change>) {
    changes.push(Change::SetAffinity {
        tid,
        cpus: [cpu].into(),
    });
    changes.push(Change::MoveThread {
        tid,
        directory: cpuset.join(format!("{PARTITION_PREFIX}{cpu}")),
        legacy: true,
    });
}
